package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// loads counts the events that loads have made; one load runs at a time.
type loads struct {
	running    atomic.Bool
	made, goal atomic.Int64
}

// controlMux is for the benchmark's driver, on a port of its own without TLS:
//
//	POST /reset?kind=widgets&count=50000&seed=1   replace a collection; answers the mean size of an object
//	POST /load?kind=widgets&count=10000&rate=50   change objects in turn (rate 0: as fast as watchers read)
//	POST /options?watchlist=0                     refuse sendInitialEvents, as older API servers do
//	GET  /counters                                requests, events, the load's progress, own CPU seconds
func (w *world) controlMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reset", w.controlReset)
	mux.HandleFunc("POST /load", w.controlLoad)
	mux.HandleFunc("POST /options", func(rw http.ResponseWriter, r *http.Request) {
		w.watchList.Store(r.URL.Query().Get("watchlist") != "0")
		writeJSON(rw, http.StatusOK, []byte("{}"))
	})
	mux.HandleFunc("GET /counters", func(rw http.ResponseWriter, _ *http.Request) { w.answerCounters(rw) })
	return mux
}

func (w *world) byPlural(plural string) *collection {
	for _, c := range w.collections {
		if c.plural == plural {
			return c
		}
	}
	return nil
}

func (w *world) controlReset(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	c := w.byPlural(query.Get("kind"))
	count, err := strconv.Atoi(query.Get("count"))
	if c == nil || err != nil {
		http.Error(rw, "reset needs kind and count", http.StatusBadRequest)
		return
	}
	seed, _ := strconv.ParseUint(query.Get("seed"), 10, 64)
	c.reset(count, seed)
	total, bare := 0, 0
	for _, o := range c.sorted {
		total += len(o.raw)
	}
	if len(c.sorted) > 0 {
		bare = sizeWithoutManagedFields(c.sorted[0].raw)
		total /= len(c.sorted)
	}
	fmt.Fprintf(rw, `{"count":%d,"meanBytes":%d,"firstWithoutManagedFields":%d}`, len(c.sorted), total, bare)
}

func sizeWithoutManagedFields(raw []byte) int {
	var root tree
	if json.Unmarshal(raw, &root) != nil {
		return 0
	}
	delete(root["metadata"].(tree), "managedFields")
	bare, _ := json.Marshal(root)
	return len(bare)
}

func (w *world) controlLoad(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	c := w.byPlural(query.Get("kind"))
	count, err := strconv.Atoi(query.Get("count"))
	rate, _ := strconv.ParseFloat(query.Get("rate"), 64)
	if c == nil || err != nil {
		http.Error(rw, "load needs kind and count", http.StatusBadRequest)
		return
	}
	if !w.loads.running.CompareAndSwap(false, true) {
		http.Error(rw, "a load is running", http.StatusConflict)
		return
	}
	w.loads.made.Store(0)
	w.loads.goal.Store(int64(count))
	go func() {
		defer w.loads.running.Store(false)
		start := time.Now()
		for i := range count {
			if rate > 0 {
				time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
			}
			if !c.touch(i) {
				return
			}
			w.loads.made.Add(1)
		}
	}()
	w.answerCounters(rw)
}

func (w *world) answerCounters(rw http.ResponseWriter) {
	answer := map[string]any{
		"version": w.version.Load(), "loadRunning": w.loads.running.Load(),
		"loadMade": w.loads.made.Load(), "loadGoal": w.loads.goal.Load(),
	}
	for name, counter := range w.counters.all() {
		answer[name] = counter.Load()
	}
	for _, c := range w.collections {
		c.mu.Lock()
		if n := len(c.watchers); n > 0 {
			answer["watchers/"+c.plural] = n
		}
		c.mu.Unlock()
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		answer["cpuSeconds"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	body, _ := json.Marshal(answer)
	writeJSON(rw, http.StatusOK, body)
}
