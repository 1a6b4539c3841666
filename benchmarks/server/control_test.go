package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
