package main

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// meter counts what this process did; the driver asks for it by lines on stdin.
type meter struct {
	mu         sync.Mutex
	out        *json.Encoder
	latencies  []int64 // nanoseconds from the server's stamp to the reconcile
	seen       atomic.Int64
	events     atomic.Int64
	reconciles atomic.Int64
	patches    atomic.Int64
	errors     atomic.Int64
}

func newMeter() *meter { return &meter{out: json.NewEncoder(os.Stdout)} }

// stamped notes the latency of an event whose object carries the time it was sent.
func (m *meter) stamped(annotations map[string]string) {
	now := time.Now().UnixNano()
	sent, err := strconv.ParseInt(annotations["bench.steersman.dev/sent-at"], 10, 64)
	if err != nil || sent == 0 {
		return
	}
	m.mu.Lock()
	m.latencies = append(m.latencies, now-sent)
	m.mu.Unlock()
}

func (m *meter) mark(name string) {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	m.mu.Lock()
	defer m.mu.Unlock()
	latencies := m.latencies
	m.latencies = nil
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return float64(latencies[min(len(latencies)-1, int(q*float64(len(latencies))))]) / 1e9
	}
	_ = m.out.Encode(map[string]any{
		"mark": name, "cpu": float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9, "rss": rss(),
		"wall": float64(time.Now().UnixNano()) / 1e9,
		"seen": m.seen.Load(), "events": m.events.Load(), "reconciles": m.reconciles.Load(),
		"patches": m.patches.Load(), "errors": m.errors.Load(),
		"p50": at(0.5), "p99": at(0.99), "max": at(1), "latencies": len(latencies),
	})
}

func rss() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
	return pages * os.Getpagesize()
}

// obey answers "mark NAME" and "settle NAME" (which first gives back what memory it can) until stdin closes.
func (m *meter) obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		if verb == "settle" {
			runtime.GC()
			debug.FreeOSMemory()
		}
		m.mark(name)
	}
	os.Exit(0)
}
