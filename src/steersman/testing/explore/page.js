"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg", WIDTH = 560, TOP = 34, LABEL = 11;
const byId = (id) => document.getElementById(id);

function html(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// One time axis for both runs: long waits are short, so that each instant has its own line.
const times = [...new Set(data.runs.flatMap((run) => run.items.flatMap((item) => [item.at, item.ended ?? item.at])))];
times.sort((a, b) => a - b);
const ys = new Map();
let height = TOP;
times.forEach((time, index) => {
  if (index) height += 7 + Math.min(24, 9 * Math.log1p(time - times[index - 1]));
  ys.set(time, height);
});
height += 24;

function drawRun(run) {
  const box = html("section");
  box.append(html("h2", run.name));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": run.name });
  const lanes = ["scenario", "cluster", "API server", ...run.processes.map((number) => `process ${number}`)];
  const x = (lane) => ((lane + 0.5) * WIDTH) / lanes.length;
  const laneOf = (process) => (process > 0 ? 3 + run.processes.indexOf(process) : process < 0 ? 0 : 1);
  lanes.forEach((name, lane) => {
    picture.append(svg("line", { class: "lane", x1: x(lane), x2: x(lane), y1: TOP - 12, y2: height }));
    picture.append(svg("text", { class: "lane-name", x: x(lane), y: 14 }, name));
  });
  const free = {};
  for (const item of run.items) {
    const group = svg("g", { class: item.kind + (item.bad ? (item.kind === "event" ? " lost" : " failed") : "") });
    group.dataset.object = item.object ?? "";
    const y = ys.get(item.at), own = x(laneOf(item.process)), api = x(2);
    if (item.kind === "reconcile") {
      const end = ys.get(item.ended);
      group.append(svg("rect", { x: own - 5, y, width: 10, height: Math.max(3, end - y), rx: 2 }));
    } else if (item.kind === "write") {
      const end = item.ended === undefined ? (own + api) / 2 : api;
      group.append(svg("line", { x1: own, y1: y, x2: end, y2: ys.get(item.ended ?? item.at) }));
      group.append(svg("circle", { cx: own, cy: y, r: 2.5 }));
    } else if (item.kind === "event") {
      group.append(svg("line", { x1: api, y1: y, x2: own, y2: y }));
    } else if (item.kind === "commit") {
      if (item.process <= 0) group.append(svg("line", { class: "lane", x1: own, y1: y, x2: api, y2: y }));
      group.append(svg("circle", { cx: api, cy: y, r: 3.5 }));
    }
    const below = free[own] ?? 0;
    if (item.label && (item.bad || y >= below)) {
      const end = own > WIDTH * 0.75, line = Math.max(y, below);
      group.append(svg("text", { x: own + (end ? -9 : 9), y: line + 4, "text-anchor": end ? "end" : "start" }, item.label));
      free[own] = line + LABEL;
    }
    group.append(svg("title", {}, `${item.at.toFixed(3)} s: ${item.text}`));
    picture.append(group);
  }
  const cursor = svg("line", { class: "cursor", x1: 0, x2: WIDTH, y1: TOP, y2: TOP });
  picture.append(cursor);
  picture.addEventListener("click", (click) => {
    const scale = height / picture.getBoundingClientRect().height;
    const y = (click.clientY - picture.getBoundingClientRect().top) * scale;
    let nearest = 0;
    times.forEach((time, index) => {
      if (Math.abs(ys.get(time) - y) < Math.abs(ys.get(times[nearest]) - y)) nearest = index;
    });
    move(nearest);
  });
  box.append(picture);
  byId("runs").append(box);
  return { run, cursor, groups: [...picture.querySelectorAll("g")] };
}

function stateAt(run, time) {
  const found = new Map();
  for (const item of run.items) {
    if (item.at > time) break;
    if (item.kind !== "commit") continue;
    if (item.state < 0) found.delete(item.name);
    else found.set(item.name, [item.object, data.states[item.state]]);
  }
  const grouped = new Map();
  for (const [object, text] of found.values()) grouped.set(object, [...(grouped.get(object) ?? []), text]);
  for (const [object, texts] of grouped) grouped.set(object, texts.sort().join("\n"));
  return grouped;
}

// Lines of two texts that differ: the lines before and after the longest common subsequence of a bounded table.
function lineDifference(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const left = a.slice(start, a.length - end), right = b.slice(start, b.length - end);
  if (left.length * right.length > 250000) {
    return [...left.map((line) => ["removed", line]), ...right.map((line) => ["added", line])];
  }
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      common[i][j] = left[i] === right[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  for (let i = 0, j = 0; i < left.length || j < right.length; ) {
    if (i < left.length && j < right.length && left[i] === right[j]) { i += 1; j += 1; }
    else if (j >= right.length || (i < left.length && common[i + 1][j] >= common[i][j + 1])) {
      lines.push(["removed", left[i]]); i += 1;
    } else { lines.push(["added", right[j]]); j += 1; }
  }
  return lines;
}

let position = 0;
function move(index) {
  position = Math.max(0, Math.min(times.length - 1, index));
  const time = times[position] ?? 0;
  byId("cursor").value = String(position);
  byId("time").textContent = `${time.toFixed(3)} s`;
  for (const drawn of runs) {
    drawn.cursor.setAttribute("y1", ys.get(time) ?? TOP);
    drawn.cursor.setAttribute("y2", ys.get(time) ?? TOP);
  }
  showHere(time);
  showDifference(time);
}

function showHere(time) {
  const object = byId("object").value, list = byId("here");
  list.replaceChildren();
  for (const { run } of runs) {
    for (const item of run.items) {
      if (item.at === time && (!object || !item.object || item.object === object)) {
        list.append(html("li", `${run.name}: ${item.text}`));
      }
    }
  }
}

function showDifference(time) {
  const only = byId("object").value, target = byId("difference");
  const [reference, other] = runs.map(({ run }) => stateAt(run, time));
  target.replaceChildren();
  for (const object of [...new Set([...reference.keys(), ...other.keys()])].sort()) {
    if (only && object !== only) continue;
    const before = reference.get(object) ?? "", after = other.get(object) ?? "";
    if (before === after && !only) continue;
    target.append(html("h2", object));
    const text = html("pre");
    if (before === after) text.textContent = before;
    else for (const [kind, line] of lineDifference(before, after)) {
      text.append(html("span", (kind === "added" ? "+ " : "- ") + line, kind));
    }
    target.append(text);
  }
  if (!target.childElementCount) target.append(html("p", "The states of both runs are equal.", "faint"));
}

function showFacts() {
  const facts = byId("facts");
  const list = html("ul");
  for (const text of data.faults) list.append(html("li", `fault: ${text}`));
  for (const text of data.findings) list.append(html("li", `finding: ${text}`));
  facts.append(list);
  if (data.replay) facts.append(html("code", data.replay));
  if (data.omitted) facts.append(html("p", data.omitted, "faint"));
}

function filter() {
  const object = byId("object").value;
  for (const { groups } of runs) {
    for (const group of groups) group.classList.toggle("hidden", Boolean(object && group.dataset.object !== object
      && group.dataset.object));
  }
  move(position);
}

showFacts();
const runs = data.runs.map(drawRun);
for (const object of [...new Set(data.runs.flatMap((run) => run.items.map((item) => item.object)))].sort()) {
  if (object) byId("object").append(new Option(object, object));
}
byId("object").addEventListener("change", filter);
byId("cursor").max = String(Math.max(0, times.length - 1));
byId("cursor").addEventListener("input", () => move(Number(byId("cursor").value)));
document.addEventListener("keydown", (key) => {
  if (key.target.tagName === "SELECT" || key.target.tagName === "INPUT") return;
  if (key.key === "ArrowDown" || key.key === "ArrowUp") {
    move(position + (key.key === "ArrowDown" ? 1 : -1));
    key.preventDefault();
  }
});
move(times.reduce((last, time, index) => (time <= data.cursor ? index : last), 0));
