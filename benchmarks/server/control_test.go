package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func control(t *testing.T, w *world, request string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.controlMux().ServeHTTP(recorder, httptest.NewRequest("POST", request, nil))
	if recorder.Code != http.StatusOK {
		t.Fatalf("%s: %s", request, recorder.Body)
	}
}

func TestNamespacesGetTheirShareOfTheObjects(t *testing.T) {
	w, server := start(t, 0)
	control(t, w, "/reset?kind=widgets&count=25&seed=1&namespaces=10")
	for i, want := range []int{3, 3, 3, 3, 3, 2, 2, 2, 2, 2} {
		url := server.URL + "/apis/bench.steersman.dev/v1/namespaces/bench-" + jsonNumber(uint64(i)) + "/widgets"
		if got := len(parsed(t, first(fetch(t, url, "")))["items"].([]any)); got != want {
			t.Errorf("bench-%d has %d objects, wanted %d", i, got, want)
		}
	}
}

func TestAWatchOfANamespaceHearsOfNoOther(t *testing.T) {
	w, server := start(t, 0)
	control(t, w, "/reset?kind=widgets&count=4&seed=1&namespaces=2")
	stream := open(t, server.URL+"/apis/bench.steersman.dev/v1/namespaces/bench-1/widgets?watch=1&resourceVersion="+jsonNumber(w.version.Load()), "")
	c := w.byPlural("widgets")
	for i := range 4 {
		c.touch(i)
	}
	lines := bufio.NewReader(stream.Body)
	for range 2 {
		line, _ := lines.ReadString('\n')
		if !strings.Contains(line, `"namespace":"bench-1"`) {
			t.Errorf("heard of %s", line)
		}
	}
}

func TestAResetLeavesNothingOfOtherKindsUnlessTold(t *testing.T) {
	w, _ := start(t, 5)
	control(t, w, "/reset?kind=widgets&count=3&seed=1&keep=1")
	if n := len(w.byPlural("pods").slots); n != 5 {
		t.Errorf("%d pods are left of 5", n)
	}
	control(t, w, "/reset?kind=widgets&count=3&seed=1")
	if n := len(w.byPlural("pods").slots); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}

func TestAnExpiredWatchEndsWith410AndItsVersionIsGone(t *testing.T) {
	w, server := start(t, 2)
	version := jsonNumber(w.version.Load())
	url := server.URL + widgetsPath + "?watch=1&resourceVersion="
	stream := open(t, url+version, "")
	control(t, w, "/expire?kind=widgets")
	lines := bufio.NewReader(stream.Body)
	line, _ := lines.ReadString('\n')
	if _, err := lines.ReadByte(); !strings.Contains(line, `"code":410`) || err == nil {
		t.Errorf("the watch said %s and went on: %v", line, err == nil)
	}
	again := parsed(t, first(fetch(t, url+version, "")))
	if again["type"] != "ERROR" {
		t.Errorf("resumed with %v", again)
	}
	relisted := parsed(t, first(fetch(t, server.URL+widgetsPath, "")))["metadata"].(tree)["resourceVersion"].(string)
	stream = open(t, url+relisted, "")
	w.byPlural("widgets").touch(0)
	if line, _ := bufio.NewReader(stream.Body).ReadString('\n'); !strings.Contains(line, "MODIFIED") {
		t.Errorf("after a relist came %s", line)
	}
}

func TestWhoWatchesLearnsOfAQuietResetByTheExpiryThatFollows(t *testing.T) {
	w, server := start(t, 0)
	stream := open(t, server.URL+widgetsPath+"?watch=1&resourceVersion="+jsonNumber(w.version.Load()), "")
	control(t, w, "/reset?kind=widgets&count=3&seed=1&quietly=1")
	if n := w.counters.listed.Load(); n != 0 {
		t.Errorf("%d objects were sent", n)
	}
	control(t, w, "/expire?kind=widgets")
	if line, _ := bufio.NewReader(stream.Body).ReadString('\n'); !strings.Contains(line, `"code":410`) {
		t.Errorf("the watch said %q", line)
	}
	if at := w.counters.asked.Load(); at != 0 {
		t.Errorf("asked at %d, before anybody has", at)
	}
	before := time.Now().UnixNano()
	if items := parsed(t, first(fetch(t, server.URL+widgetsPath, "")))["items"].([]any); len(items) != 3 {
		t.Errorf("listed %d", len(items))
	}
	at := w.counters.asked.Load()
	fetch(t, server.URL+widgetsPath, "")
	if at < before || w.counters.asked.Load() != at {
		t.Errorf("asked at %d and then %d, after %d", at, w.counters.asked.Load(), before)
	}
}

func TestALoadWaitsForAWatcherThatLagsUnlessToldNotTo(t *testing.T) {
	w, _ := start(t, 10)
	c := w.byPlural("widgets")
	control(t, w, "/options?behind=5000")
	watcher, _, _, _ := c.watch("", 0, false, asJSON)
	for c.lagging == 0 {
		c.touch(0)
	}
	touched := make(chan bool)
	go func() { touched <- c.touch(0) }()
	batch, _ := watcher.take(0)
	watcher.take(len(batch))
	if !<-touched {
		t.Error("the collection is empty")
	}
	control(t, w, "/options?behind=0")
	for range 100 {
		c.touch(0)
	}
	c.unwatch(watcher)
	if c.lagging != 0 {
		t.Errorf("%d watchers lag when none is left", c.lagging)
	}
}

func TestMixedObjectsAreExactlyAsManyInTheirSharesAndFitTheirTypes(t *testing.T) {
	w, server := start(t, 3)
	control(t, w, "/reset?kind=mixed&count=1234&seed=1&forms=protobuf,metadata")
	all := 0
	for _, c := range w.collections {
		all += len(c.slots)
		if share := 1234 * c.mixed.percent / 100; len(c.slots) < share || share == 0 && len(c.slots) > 0 {
			t.Errorf("%d %s, wanted %d", len(c.slots), c.plural, share)
		}
		if len(c.slots) == 0 {
			continue
		}
		text, _ := fetch(t, server.URL+path(c.kindInfo), "")
		if c.message != nil {
			raw, _ := fetch(t, server.URL+path(c.kindInfo), protobufType)
			same(t, c.plural, decoded(t, raw), parsed(t, text))
		}
		for _, s := range c.slots {
			if o := s.object; c.plural != "widgets" && (o.version < 0 || o.stamp < 0 || len(o.raw) > 10_000) {
				t.Fatalf("%s of %d bytes, version at %d, stamp at %d", c.plural, len(o.raw), o.version, o.stamp)
			}
		}
	}
	if all != 1234 {
		t.Errorf("%d objects", all)
	}
}

func TestGeneratedObjectsHaveOnlyFieldsOfTheirTypes(t *testing.T) {
	for _, k := range kinds {
		if k.message == nil {
			continue
		}
		for _, from := range []templates{k.templates, k.mixed.templates} {
			for _, o := range generate(k, from, 20*len(from), 3, 0) {
				m := k.message()
				decoder := json.NewDecoder(bytes.NewReader(o.raw))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(m); err != nil {
					t.Fatalf("%s: %v", k.plural, err)
				}
			}
		}
	}
}

func TestHousekeepingIsNotCountedAsWrites(t *testing.T) {
	w, server := start(t, 0)
	lease := `{"metadata":{"name":"a"},"spec":{"holderIdentity":"x"}}`
	send(t, "POST", server.URL+"/apis/coordination.k8s.io/v1/namespaces/n/leases", jsonType, lease)
	send(t, "PUT", server.URL+"/apis/coordination.k8s.io/v1/namespaces/n/leases/a", jsonType, lease)
	send(t, "POST", server.URL+"/api/v1/namespaces/n/events", jsonType, `{"metadata":{"name":"a"}}`)
	if c := &w.counters; c.writes.Load() != 0 || c.posts.Load() != 0 || c.housekeeping.Load() != 3 {
		t.Errorf("counted %d writes, %d of housekeeping", c.writes.Load(), c.housekeeping.Load())
	}
}
