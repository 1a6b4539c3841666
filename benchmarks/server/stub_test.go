package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func start(t *testing.T, count int) (*world, *httptest.Server) {
	t.Helper()
	w := newWorld()
	for _, c := range w.collections {
		if len(c.templates) > 0 {
			c.reset(c.templates, count, 1, 0)
		}
	}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	return w, server
}

func body(t *testing.T, response *http.Response, err error) tree {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	var root tree
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return root
}

const widgetsPath = "/apis/bench.steersman.dev/v1/widgets"

func TestObjectsHaveTheAdvertisedSizesAndAreValidJSON(t *testing.T) {
	for _, k := range kinds {
		if k.templates == nil {
			continue
		}
		limits := map[string][2]int{"widgets": {1050, 1350}, "pods": {4800, 5800}, "configmaps": {100_000, 106_000},
			"secrets": {900, 9000}, "services": {1300, 2000}, "serviceaccounts": {900, 1300}, "deployments": {6500, 8500}, "replicasets": {5500, 7500},
			"jobs": {6000, 8000}, "ingresses": {1500, 2200}, "roles": {1300, 1900}}[k.plural]
		for _, o := range generate(k, k.templates, 20, 7, 0) {
			if !json.Valid(o.raw) {
				t.Fatalf("%s is no JSON: %s", k.plural, o.raw)
			}
			if len(o.raw) < limits[0] || len(o.raw) > limits[1] {
				t.Errorf("%s has %d bytes, wanted %v", k.plural, len(o.raw), limits)
			}
		}
	}
}

func TestPagesTogetherAreTheWholeList(t *testing.T) {
	_, server := start(t, 25)
	seen, next := map[string]bool{}, ""
	for {
		response, err := http.Get(server.URL + widgetsPath + "?limit=10&continue=" + next)
		page := body(t, response, err)
		for _, item := range page["items"].([]any) {
			seen[item.(tree)["metadata"].(tree)["uid"].(string)] = true
		}
		next, _ = page["metadata"].(tree)["continue"].(string)
		if next == "" {
			break
		}
	}
	if len(seen) != 25 {
		t.Errorf("saw %d objects of 25", len(seen))
	}
}

func TestAStatusPatchComesBackAsAnEventWithAHigherVersion(t *testing.T) {
	w, server := start(t, 1)
	o := w.byPlural("widgets").slots[0].object
	stream, err := http.Get(server.URL + widgetsPath + "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	next := func() (string, tree) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Type   string
			Object tree
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		return e.Type, e.Object
	}
	if kind, _ := next(); kind != "ADDED" {
		t.Fatalf("first event is %s", kind)
	}
	kind, mark := next()
	if annotations := mark["metadata"].(tree)["annotations"].(tree); kind != "BOOKMARK" || annotations["k8s.io/initial-events-end"] != "true" {
		t.Fatalf("no end of the initial events: %s %v", kind, mark)
	}

	path := "/apis/bench.steersman.dev/v1/namespaces/" + o.namespace + "/widgets/" + o.name + "/status"
	request, _ := http.NewRequest("PATCH", server.URL+path, strings.NewReader(`{"status":{"phase":"Busy","endpoint":null}}`))
	request.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := http.DefaultClient.Do(request)
	answer := body(t, response, err)
	kind, echo := next()
	status := echo["status"].(tree)
	if kind != "MODIFIED" || status["phase"] != "Busy" || status["endpoint"] != nil || status["readyReplicas"] == nil {
		t.Errorf("echo %s has status %v", kind, status)
	}
	version := echo["metadata"].(tree)["resourceVersion"].(string)
	if version != answer["metadata"].(tree)["resourceVersion"] || version <= string(o.raw[o.version:o.version+10]) {
		t.Errorf("version %s after %s", version, o.raw[o.version:o.version+10])
	}
	if w.counters.patches.Load() != 1 {
		t.Errorf("counted %d patches", w.counters.patches.Load())
	}
}

func TestAWatchFromALostVersionIsGone(t *testing.T) {
	w, server := start(t, 1)
	old := w.version.Load()
	w.byPlural("widgets").reset(only(widget), 1, 2, 0)
	response, err := http.Get(server.URL + widgetsPath + "?watch=1&resourceVersion=" + jsonNumber(old))
	if status := body(t, response, err); status["type"] != "ERROR" || status["object"].(tree)["code"] != float64(410) {
		t.Errorf("answered %v", status)
	}
}

func jsonNumber(n uint64) string {
	raw, _ := json.Marshal(n)
	return string(raw)
}

func TestATouchedObjectIsTheNextGenerationAndStamped(t *testing.T) {
	o := generate(kinds[0], only(widget), 1, 3, 0)[0]
	next := o.touched(firstVersion+5, 1790000000000000001)
	var root tree
	if err := json.Unmarshal(next.raw, &root); err != nil {
		t.Fatal(err)
	}
	meta := root["metadata"].(tree)
	if meta["generation"] != float64(firstGeneration+1) || meta["resourceVersion"] != "1000000005" {
		t.Errorf("metadata %v", meta)
	}
	if stamp := meta["annotations"].(tree)["bench.steersman.dev/sent-at"]; stamp != "1790000000000000001" {
		t.Errorf("stamped %v", stamp)
	}
	if string(o.raw) == string(next.raw) {
		t.Error("the object itself was changed")
	}
}
