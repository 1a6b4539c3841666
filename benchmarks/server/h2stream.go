package main

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2stream is one request and its answer, an http.ResponseWriter. An answer is collected, and says how long it is,
// until it is flushed or long.
type h2stream struct {
	c       *h2conn
	id      uint32
	request *http.Request // until it is complete
	body    []byte        // of the request, then of the answer as far as it is collected
	taken   int           // of the request's body since the client was last given room

	header  http.Header
	status  int
	beside  bool // in a goroutine of its own, which may wait for the client
	streams bool // no longer collected
	cancel  context.CancelFunc

	// Guarded by the connection's lock.
	room int // what the client takes
	gone bool
}

func (s *h2stream) Header() http.Header { return s.header }

func (s *h2stream) WriteHeader(code int) {
	if s.status == 0 {
		s.status = code
	}
}

func (s *h2stream) Write(raw []byte) (int, error) {
	if s.streams {
		return s.push(raw)
	}
	s.body = append(s.body, raw...)
	if s.beside && len(s.body) > h2Collected {
		return len(raw), s.stream()
	}
	return len(raw), nil
}

// Flush writes what waits to the client.
func (s *h2stream) Flush() {
	if s.beside {
		_ = s.stream()
		s.c.flush()
	}
}

// stream writes what was collected, and collects no more.
func (s *h2stream) stream() error {
	if s.streams {
		return nil
	}
	s.streams = true
	s.c.mu.Lock()
	s.begin("")
	s.c.mu.Unlock()
	_, err := s.push(s.body)
	s.body = nil
	return err
}

// begin writes the head of the answer, once for each; the lock is held.
func (s *h2stream) begin(length string) {
	c := s.c
	s.WriteHeader(http.StatusOK)
	if s.gone || c.gone {
		return
	}
	c.block.Reset()
	field := func(name, value string) { _ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	field(":status", strconv.Itoa(s.status))
	for name, values := range s.header {
		for _, value := range values {
			field(strings.ToLower(name), value)
		}
	}
	field("date", c.date())
	if length != "" {
		field("content-length", length)
	}
	c.append(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id, c.block.Bytes())
}

// push writes a part of the body as the client has room for it, and waits where it has none.
func (s *h2stream) push(raw []byte) (int, error) {
	c, sent := s.c, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for sent < len(raw) {
		if s.gone || c.gone {
			return sent, errGone
		}
		size := min(len(raw)-sent, c.longest, s.room, c.room)
		switch {
		case size > 0 && len(c.out) < h2Most:
			c.append(http2.FrameData, 0, s.id, raw[sent:sent+size])
			s.room -= size
			c.room -= size
			sent += size
		case len(c.out) > 0:
			c.mu.Unlock()
			c.flush()
			c.mu.Lock()
		default:
			c.changed.Wait()
		}
	}
	return sent, nil
}

// finish writes an answer that was collected, if the client has room for all of it; it leaves with the next flush.
func (s *h2stream) finish() bool {
	c, size := s.c, len(s.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.begin(strconv.Itoa(size))
	if size > min(s.room, c.room, c.longest) || len(c.out) > h2Most {
		return false
	}
	s.end(s.body)
	return true
}

// finishSlowly writes what is left of an answer, as the client has room for it.
func (s *h2stream) finishSlowly() {
	_, _ = s.push(s.body)
	s.c.mu.Lock()
	s.end(nil)
	s.c.mu.Unlock()
	s.c.flush()
}

// end writes the last frame of an answer, for which there is room; the lock is held.
func (s *h2stream) end(last []byte) {
	c := s.c
	if !s.gone && !c.gone {
		c.append(http2.FrameData, http2.FlagDataEndStream, s.id, last)
		s.room -= len(last)
		c.room -= len(last)
	}
	delete(c.streams, s.id)
}
