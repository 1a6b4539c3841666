package main

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
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
//	POST /reset?kind=widgets&count=50000&seed=1   the world is these objects and no others; answers their mean size
//	     kind=mixed                               …of the kinds that a cluster in use has; answers how many of each, too
//	     …&namespaces=100                         in bench-0 to bench-99, in turn, instead of in 20 teams' namespaces
//	     …&forms=protobuf,metadata-protobuf       encode these too (also: metadata), not when a client asks first
//	     …&keep=1                                 leave the other kinds as they are
//	     …&quietly=1                              whoever watches goes on watching and is told nothing: expire follows
//	POST /load?kind=widgets&count=10000&rate=50   change objects in turn (rate 0: as fast as watchers read)
//	POST /expire?kind=widgets                     end its watches with 410 Expired and forget its history
//	POST /options?watchlist=0                     refuse sendInitialEvents, as older API servers do
//	     /options?behind=1000000                  bytes a watcher may lag before a load waits; 0: as many as it likes
//	GET  /counters                                requests, events, the load's progress, own CPU seconds
func (w *world) controlMux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reset", w.controlReset)
	mux.HandleFunc("POST /load", w.controlLoad)
	mux.HandleFunc("POST /expire", w.controlExpire)
	mux.HandleFunc("POST /options", w.controlOptions)
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
	kind := query.Get("kind")
	c := w.byPlural(kind)
	count, err := strconv.Atoi(query.Get("count"))
	if c == nil && kind != "mixed" || err != nil || count < 0 {
		http.Error(rw, "reset needs kind and count", http.StatusBadRequest)
		return
	}
	seed, _ := strconv.ParseUint(query.Get("seed"), 10, 64)
	namespaces, _ := strconv.Atoi(query.Get("namespaces"))
	replace := (*collection).reset
	if query.Get("quietly") == "1" {
		replace = (*collection).replace
	}
	shares := map[*collection]int{c: count}
	if kind == "mixed" {
		shares = w.shares(count)
	}
	var changed []*collection
	for _, other := range w.collections {
		from := other.templates
		if kind == "mixed" && other.mixed.templates != nil {
			from = other.mixed.templates
		}
		if share, ok := shares[other]; ok {
			replace(other, from, share, seed, namespaces)
			changed = append(changed, other)
		} else if query.Get("keep") != "1" {
			replace(other, nil, 0, 0, 0)
		}
	}
	for name := range strings.SplitSeq(query.Get("forms"), ",") {
		f, ok := formNames[name]
		for _, c := range changed {
			if ok && (f != asProtobuf || c.message != nil) {
				c.list("", 0, 0, f)
			}
		}
	}
	writeSizes(rw, changed)
}

// shares deals count objects out to the kinds of a cluster in use; what is left over by rounding are Pods.
func (w *world) shares(count int) map[*collection]int {
	shares, left := map[*collection]int{}, count
	for _, c := range w.collections {
		if c.mixed.percent > 0 {
			shares[c] = count * c.mixed.percent / 100
			left -= shares[c]
		}
	}
	shares[w.byPlural("pods")] += left
	return shares
}

var formNames = map[string]form{"protobuf": asProtobuf, "metadata": asMetaJSON, "metadata-protobuf": asMetaProtobuf}

func writeSizes(rw http.ResponseWriter, changed []*collection) {
	kinds, all, total, bare := map[string]int{}, 0, 0, 0
	for _, c := range changed {
		page, count, _ := c.list("", 0, 0, asJSON)
		kinds[c.plural] = count
		all += count
		for _, e := range page {
			total += len(e.raw)
		}
		if count > 0 && bare == 0 {
			bare = sizeWithoutManagedFields(page[0].raw)
		}
	}
	if all > 0 {
		total /= all
	}
	answer, _ := json.Marshal(map[string]any{"count": all, "meanBytes": total, "firstWithoutManagedFields": bare, "kinds": kinds})
	_, _ = rw.Write(answer)
}

func (w *world) controlExpire(rw http.ResponseWriter, r *http.Request) {
	kind := r.URL.Query().Get("kind")
	if kind != "mixed" && w.byPlural(kind) == nil {
		http.Error(rw, "expire needs kind", http.StatusBadRequest)
		return
	}
	w.counters.asked.Store(0)
	for _, c := range w.collections {
		if c.plural == kind || kind == "mixed" && c.mixed.percent > 0 {
			c.expire()
		}
	}
	_, _ = rw.Write([]byte("{}"))
}

func (w *world) controlOptions(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Has("watchlist") {
		w.watchList.Store(query.Get("watchlist") != "0")
	}
	if query.Has("behind") {
		behind, err := strconv.ParseInt(query.Get("behind"), 10, 64)
		if err != nil || behind < 0 {
			http.Error(rw, "behind is a number of bytes", http.StatusBadRequest)
			return
		}
		if behind == 0 {
			behind = math.MaxInt64
		}
		w.maxBehind.Store(behind)
	}
	_, _ = rw.Write([]byte("{}"))
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
		n := 0
		c.eachWatcher(func(*watcher) { n++ })
		if n > 0 {
			answer["watchers/"+c.plural] = n
		}
		c.mu.Unlock()
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		answer["cpuSeconds"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	body, _ := json.Marshal(answer)
	w.answer(rw, http.StatusOK, asJSON, body)
}
