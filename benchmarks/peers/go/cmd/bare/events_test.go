package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"steersman.dev/benchmarks/peers/go/internal/meter"
)

// chunked feeds a stream in pieces of random sizes, as a connection does.
func chunked(stream []byte, rng *rand.Rand, feed func([]byte)) {
	for len(stream) > 0 {
		n := 1 + rng.IntN(min(len(stream), 40))
		chunk := make([]byte, n) // the bytes are the reader's again once feed returns
		copy(chunk, stream[:n])
		feed(chunk)
		for i := range chunk {
			chunk[i] = '#'
		}
		stream = stream[n:]
	}
}

func widgetLine(event, name string, generation, observed int) string {
	return fmt.Sprintf(`{"type":"%s","object":{"apiVersion":"bench.steersman.dev/v1","kind":"Widget","metadata":{`+
		`"annotations":{"bench.steersman.dev/sent-at":"17","team":"a"},"generation":%d,"labels":{"app.kubernetes.io/name":"x"},`+
		`"name":"%s","namespace":"team-a"},"spec":{"env":[{"name":"UPSTREAM"}]},"status":{"observedGeneration":%d}}}`,
		event, generation, name, observed)
}

func TestLinesAreFoundHoweverTheyArrive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want, got []string
		for i := range rng.IntN(6) {
			want = append(want, strings.Repeat(fmt.Sprint(i), 1+rng.IntN(60)))
		}
		stream := ""
		for _, line := range want {
			stream += line + "\n"
		}
		l := lines{each: func(line []byte) { got = append(got, string(line)) }}
		chunked([]byte(stream), rng, l.feed)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestFramesAreFoundHoweverTheyArrive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		m := meter.New()
		synced := 0
		c := counter{m: m, synced: func() { synced++ }}
		want, stream := map[string]int64{}, []byte(nil)
		for range rng.IntN(8) {
			event := []string{"ADDED", "MODIFIED", "BOOKMARK"}[rng.IntN(3)]
			want[event]++
			body := append([]byte{0x0a, byte(len(event))}, event...)
			body = append(body, make([]byte, rng.IntN(300))...)
			if event == "BOOKMARK" {
				body = append(body, initial...)
			}
			stream = binary.BigEndian.AppendUint32(stream, uint32(len(body)))
			stream = append(stream, body...)
		}
		f := frames{each: c.frame}
		chunked(stream, rng, f.feed)
		if m.Seen.Load() != want["ADDED"] || m.Events.Load() != want["MODIFIED"] || int64(synced) != want["BOOKMARK"] {
			t.Fatalf("seen %d, events %d, synced %d; want %v", m.Seen.Load(), m.Events.Load(), synced, want)
		}
		if m.Errors.Load() != 0 {
			t.Fatalf("%d errors", m.Errors.Load())
		}
	}
}

func TestAChangeIsWrittenOnceAndItsEchoNever(t *testing.T) {
	q := newQueue()
	c := counter{m: meter.New(), due: q, known: map[string]string{}, synced: func() {}}
	c.line([]byte(widgetLine("ADDED", "w", 1, 1)))
	c.line([]byte(widgetLine("MODIFIED", "w", 2, 1)))
	c.line([]byte(widgetLine("MODIFIED", "w", 2, 2)))
	c.line([]byte(widgetLine("MODIFIED", "w", 3, 2)))
	c.line([]byte(widgetLine("MODIFIED", "v", 3, 2)))
	if len(q.jobs) != 3 {
		t.Fatalf("%d patches, want 3", len(q.jobs))
	}
	due := q.take()
	if due.path != "/apis/bench.steersman.dev/v1/namespaces/team-a/widgets/w/status" {
		t.Errorf("path %s", due.path)
	}
	if string(due.body) != `{"status":{"observedGeneration":2}}` || due.sent != 17 {
		t.Errorf("body %s, sent %d", due.body, due.sent)
	}
}
