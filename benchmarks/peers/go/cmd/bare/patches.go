package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"steersman.dev/benchmarks/peers/go/internal/meter"
)

// job is one status patch that is due.
type job struct {
	path string
	body []byte
	sent int64 // when the server sent the event, in nanoseconds
}

// queue has no end: over HTTP/2 the goroutine that fills it is the one that reads the answers to patches.
type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	jobs   []job
}

func newQueue() *queue {
	q := &queue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(due job) {
	q.mu.Lock()
	q.jobs = append(q.jobs, due)
	q.mu.Unlock()
	q.filled.Signal()
}

func (q *queue) take() job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 {
		q.filled.Wait()
	}
	due := q.jobs[0]
	q.jobs = q.jobs[1:]
	return due
}

// work sends patches, one after another.
func work(t transport, q *queue, m *meter.Meter) {
	for {
		due := q.take()
		if m.Reconciles.Add(1) == 1 {
			m.Mark("first-reconcile")
		}
		if due.sent != 0 {
			m.Latency(time.Now().UnixNano() - due.sent)
		}
		if err := t.patch(due.path, due.body); err != nil {
			m.Errors.Add(1)
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		m.Patches.Add(1)
	}
}
