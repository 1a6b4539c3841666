package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"steersman.dev/benchmarks/peers/go/internal/meter"
)

// lines cuts a stream of JSON into its events. A line that lies within one chunk is not copied.
type lines struct {
	rest []byte
	each func(line []byte)
}

func (l *lines) feed(chunk []byte) {
	for {
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 {
			l.rest = append(l.rest, chunk...)
			return
		}
		line := chunk[:end]
		if len(l.rest) > 0 {
			l.rest = append(l.rest, line...)
			line, l.rest = l.rest, l.rest[:0]
		}
		l.each(line)
		chunk = chunk[end+1:]
	}
}

// frames cuts a stream of protobuf, in which every event is preceded by its length in four bytes.
type frames struct {
	rest []byte
	each func(frame []byte)
}

func (f *frames) feed(chunk []byte) {
	if len(f.rest) > 0 {
		f.rest = append(f.rest, chunk...)
		chunk = f.rest
	}
	for len(chunk) >= 4 {
		end := 4 + int(binary.BigEndian.Uint32(chunk))
		if len(chunk) < end {
			break
		}
		f.each(chunk[4:end])
		chunk = chunk[end:]
	}
	f.rest = append(f.rest[:0], chunk...)
}

// counter counts the events of one watch and, where there is a queue, finds the patches that are due.
type counter struct {
	m      *meter.Meter
	due    *queue
	synced func()
	known  map[string]string // generations, by name and namespace as they stand in the bytes
}

var (
	added    = []byte(`{"type":"ADDED"`)
	modified = []byte(`{"type":"MODIFIED"`)
	marked   = []byte(`{"type":"BOOKMARK"`)
	failure  = []byte(`{"type":"ERROR"`)
	initial  = []byte("k8s.io/initial-events-end")
)

func (c *counter) line(line []byte) {
	switch {
	case bytes.HasPrefix(line, modified):
		c.m.Events.Add(1)
		if c.due != nil {
			c.examine(line)
		}
	case bytes.HasPrefix(line, added):
		c.m.Seen.Add(1)
	case bytes.HasPrefix(line, marked):
		if bytes.Contains(line, initial) {
			c.synced()
		}
	case bytes.HasPrefix(line, failure):
		fmt.Fprintf(os.Stderr, "%s\n", line)
	}
}

// frame reads the first field of an event, its type.
func (c *counter) frame(frame []byte) {
	if len(frame) < 2 || frame[0] != 0x0a || len(frame) < 2+int(frame[1]) {
		c.m.Errors.Add(1)
		return
	}
	switch string(frame[2 : 2+int(frame[1])]) {
	case "MODIFIED":
		c.m.Events.Add(1)
	case "ADDED":
		c.m.Seen.Add(1)
	case "BOOKMARK":
		if bytes.Contains(frame, initial) {
			c.synced()
		}
	case "ERROR":
		fmt.Fprintf(os.Stderr, "%q\n", frame)
	}
}

// examine queues the patch that a Widget's status needs. An event without a new generation, as the echo of a patch is
// one, needs none, so that there is one patch for each change.
func (c *counter) examine(line []byte) {
	generation := value(line, `"generation":`)
	namespace := bytes.Index(line, []byte(`","namespace":"`))
	if namespace < 0 {
		return
	}
	start := bytes.LastIndexByte(line[:namespace], '"') + 1
	inside := value(line[namespace:], `","namespace":"`)
	name, key := line[start:namespace], line[start:namespace+len(`","namespace":"`)+len(inside)]
	if c.known[string(key)] == string(generation) {
		return
	}
	c.known[string(key)] = string(generation)
	due := job{path: "/apis/bench.steersman.dev/v1/namespaces/" + string(inside) + "/widgets/" + string(name) + "/status"}
	due.body = append(append([]byte(`{"status":{"observedGeneration":`), generation...), "}}"...)
	due.sent, _ = strconv.ParseInt(string(value(line, `"`+meter.Stamp+`":"`)), 10, 64)
	c.due.add(due)
}

// value is what stands behind a marker, up to the next quote, comma or brace.
func value(line []byte, marker string) []byte {
	at := bytes.Index(line, []byte(marker))
	if at < 0 {
		return nil
	}
	rest := line[at+len(marker):]
	for i, b := range rest {
		if b == '"' || b == ',' || b == '}' {
			return rest[:i]
		}
	}
	return rest
}
