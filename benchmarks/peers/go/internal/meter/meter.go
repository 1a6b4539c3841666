// Package meter counts what a Go peer did and answers the driver: one line on stdin, one JSON line on stdout.
//
// `mark NAME` reports CPU, memory and counters as they are; `settle NAME` first gives back what memory it can and
// starts the high-water mark anew. A mark named "poll" is cheap: it says nothing of memory, and leaves latencies for
// the next other one. The package uses the standard library only, so that it weighs the same in every peer.
package meter

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Stamp is the annotation in which the server says when it sent an object, in nanoseconds.
const Stamp = "bench.steersman.dev/sent-at"

// Meter is the counters of one peer; any goroutine may use it.
type Meter struct {
	Seen, Events, Reconciles, Patches, Errors atomic.Int64

	mu        sync.Mutex
	out       *json.Encoder
	latencies []int64 // nanoseconds from the server's stamp to the reconcile
}

// New is a meter that reports on stdout.
func New() *Meter { return &Meter{out: json.NewEncoder(os.Stdout)} }

// Stamped notes the latency of an object whose annotations say when it was sent.
func (m *Meter) Stamped(annotations map[string]string) {
	now := time.Now().UnixNano()
	if sent, err := strconv.ParseInt(annotations[Stamp], 10, 64); err == nil && sent != 0 {
		m.Latency(now - sent)
	}
}

// Latency notes one, in nanoseconds.
func (m *Meter) Latency(nanoseconds int64) {
	m.mu.Lock()
	m.latencies = append(m.latencies, nanoseconds)
	m.mu.Unlock()
}

// Mark reports; the latencies are those since the last report that was no poll.
func (m *Meter) Mark(name string) {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	m.mu.Lock()
	defer m.mu.Unlock()
	var latencies []int64
	var rss, high int
	if name != "poll" {
		latencies, m.latencies = m.latencies, nil
		slices.Sort(latencies)
		rss, high = resident(), peak()
	}
	at := func(q float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return float64(latencies[min(len(latencies)-1, int(q*float64(len(latencies))))]) / 1e9
	}
	_ = m.out.Encode(map[string]any{
		"mark": name, "cpu": float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9,
		"rss": rss, "peak": high, "wall": float64(time.Now().UnixNano()) / 1e9,
		"seen": m.Seen.Load(), "events": m.Events.Load(), "reconciles": m.Reconciles.Load(),
		"patches": m.Patches.Load(), "errors": m.Errors.Load(),
		"p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": at(1), "latencies": len(latencies),
	})
}

// Obey answers the driver until stdin closes, which ends the process at once.
func (m *Meter) Obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		if verb == "settle" {
			runtime.GC()
			debug.FreeOSMemory()
			_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
		}
		m.Mark(name)
	}
	os.Exit(0)
}

// resident is the RSS in bytes.
func resident() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(statm))[1])
	return pages * os.Getpagesize()
}

// peak is the largest RSS in bytes since the process started or last settled.
func peak() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kibibytes, _ := strconv.Atoi(strings.Fields(value)[0])
			return kibibytes * 1024
		}
	}
	return 0
}
