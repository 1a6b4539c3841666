package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The server's own HTTP/2 (RFC 9113). net/http runs a goroutine for each stream and writes each frame by itself, which
// for small requests costs more than a client's whole update: the server would be what is measured. Here a request
// that changes something is answered right where it was read, and answers and events that wait leave in one write.

const (
	h2Streams = 100 // as kube-apiserver's default: a client with more watches than that needs a second connection
	h2Frame   = 256 << 10
	h2Window  = 256 << 10
	h2Room    = h2Streams * h2Window // of all streams of a connection
	h2Most    = 256 << 10            // bytes that wait to be written before a stream has to write them

	h2Collected = 64 << 10 // bytes of an answer until it is streamed
)

var errGone = errors.New("the client is gone")

// h2conn is one connection. One goroutine reads it; whoever answers appends to out and flushes.
type h2conn struct {
	wire    *tls.Conn
	in      *bufio.Reader
	framer  *http2.Framer // only reads
	handler http.Handler
	ctx     context.Context
	taken   int    // bytes of bodies since the client was last given room
	last    uint32 // the newest stream

	writing sync.Mutex // held while out is written, so that it leaves in order
	spare   []byte

	mu       sync.Mutex
	changed  *sync.Cond // room for data, or an end
	out      []byte
	streams  map[uint32]*h2stream
	room     int // what the client takes on the connection
	first    int // …and on a new stream
	longest  int // …and in a frame
	gone     bool
	encoder  *hpack.Encoder
	block    bytes.Buffer
	dateAt   int64
	dateText string
}

// serveH2 is for http.Server.TLSNextProto; it returns when the connection has ended.
func serveH2(_ *http.Server, wire *tls.Conn, handler http.Handler) {
	defer wire.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := &h2conn{
		wire: wire, in: bufio.NewReaderSize(wire, 64<<10), handler: handler, ctx: ctx,
		streams: map[uint32]*h2stream{}, room: 65_535, first: 65_535, longest: 16 << 10,
	}
	c.changed = sync.NewCond(&c.mu)
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(io.Discard, c.in)
	c.framer.SetMaxReadFrameSize(h2Frame)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	defer func() {
		c.mu.Lock()
		c.gone = true
		c.changed.Broadcast()
		c.mu.Unlock()
		cancel()
	}()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.in, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	var settings []byte
	for id, value := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: h2Streams, http2.SettingInitialWindowSize: h2Window, http2.SettingMaxFrameSize: h2Frame,
	} {
		settings = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(settings, uint16(id)), value)
	}
	c.send(http2.FrameSettings, 0, 0, settings)
	c.give(0, h2Room-65_535)
	c.serve()
	c.flush()
}

// serve reads frames until the connection ends.
func (c *h2conn) serve() {
	for {
		if !c.more() {
			runtime.Gosched() // watches tell now of what was just written, and it leaves together
			c.flush()
		}
		frame, err := c.framer.ReadFrame()
		if broken, ok := err.(http2.StreamError); ok {
			c.reset(broken.StreamID, broken.Code)
			continue
		}
		if err == nil {
			err = c.take(frame)
		}
		if broken, ok := err.(http2.ConnectionError); ok {
			c.send(http2.FrameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, c.last), uint32(broken)))
		}
		if err != nil {
			return
		}
	}
}

// more is whether another whole frame has arrived already.
func (c *h2conn) more() bool {
	if c.in.Buffered() < 9 {
		return false
	}
	head, _ := c.in.Peek(9)
	return c.in.Buffered() >= 9+(int(head[0])<<16|int(head[1])<<8|int(head[2]))
}

func (c *h2conn) take(frame http2.Frame) error {
	id := frame.Header().StreamID
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		return c.open(f)
	case *http2.DataFrame:
		return c.body(f)
	case *http2.WindowUpdateFrame:
		c.widen(id, int(f.Increment))
	case *http2.RSTStreamFrame:
		c.forget(id)
	case *http2.PingFrame:
		if !f.IsAck() {
			c.send(http2.FramePing, http2.FlagPingAck, 0, f.Data[:])
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.configure(f)
		}
	}
	return nil
}

func (c *h2conn) configure(f *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			for _, stream := range c.streams {
				stream.room += int(s.Val) - c.first
			}
			c.first = int(s.Val)
		case http2.SettingMaxFrameSize:
			c.longest = int(s.Val)
		case http2.SettingHeaderTableSize:
			c.encoder.SetMaxDynamicTableSizeLimit(s.Val)
			c.encoder.SetMaxDynamicTableSize(min(s.Val, 4096))
		}
		return s.Valid()
	})
	c.changed.Broadcast()
	c.append(http2.FrameSettings, http2.FlagSettingsAck, 0, nil)
	return err
}

func (c *h2conn) widen(id uint32, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 {
		c.room += size
	} else if s := c.streams[id]; s != nil {
		s.room += size
	}
	c.changed.Broadcast()
}

// open begins a request, and answers it when it has no body.
func (c *h2conn) open(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if s := c.find(id); s != nil { // trailers
		if !f.StreamEnded() || s.request == nil {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.answer(s)
		return nil
	}
	if id%2 == 0 || id <= c.last {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.last = id
	where, err := url.ParseRequestURI(f.PseudoValue("path"))
	if err != nil {
		c.reset(id, http2.ErrCodeProtocol)
		return nil
	}
	header := make(http.Header, len(f.RegularFields()))
	for _, field := range f.RegularFields() {
		header.Add(field.Name, field.Value)
	}
	request := &http.Request{
		Method: f.PseudoValue("method"), URL: where, Header: header, Host: f.PseudoValue("authority"),
		Proto: "HTTP/2.0", ProtoMajor: 2, RequestURI: f.PseudoValue("path"), RemoteAddr: c.wire.RemoteAddr().String(),
	}
	s := &h2stream{c: c, id: id, request: request, header: http.Header{}}
	c.mu.Lock()
	many := len(c.streams) >= h2Streams
	if !many {
		s.room = c.first
		c.streams[id] = s
	}
	c.mu.Unlock()
	if many {
		c.reset(id, http2.ErrCodeRefusedStream)
	} else if f.StreamEnded() {
		c.answer(s)
	}
	return nil
}

func (c *h2conn) body(f *http2.DataFrame) error {
	size := int(f.Length)
	if c.taken += size; c.taken > h2Room/2 {
		c.give(0, c.taken)
		c.taken = 0
	}
	s := c.find(f.StreamID)
	if s == nil || s.request == nil {
		if f.StreamID > c.last {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil // late, of a stream that was left
	}
	s.body = append(s.body, f.Data()...)
	if f.StreamEnded() {
		c.answer(s)
	} else if s.taken += size; s.taken > h2Window/2 {
		c.give(s.id, s.taken)
		s.taken = 0
	}
	return nil
}

// answer handles a request that is complete: here and now, or what may be long or never end, beside.
func (c *h2conn) answer(s *h2stream) {
	r := s.request
	s.request = nil
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(s.body)), int64(len(s.body))
	s.body = nil
	if r.Method != http.MethodGet {
		c.handler.ServeHTTP(s, r)
		if !s.finish() {
			go s.finishSlowly()
		}
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	s.beside, s.cancel = true, cancel
	go func() {
		defer cancel()
		c.handler.ServeHTTP(s, r.WithContext(ctx))
		if s.streams || !s.finish() {
			s.finishSlowly()
		} else {
			c.flush()
		}
	}()
}

func (c *h2conn) find(id uint32) *h2stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// forget ends a stream that the client has left, if it has not ended by itself.
func (c *h2conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	if s == nil {
		return
	}
	s.gone = true
	delete(c.streams, id)
	if s.cancel != nil {
		s.cancel()
	}
	c.changed.Broadcast()
}

func (c *h2conn) reset(id uint32, code http2.ErrCode) {
	c.forget(id)
	c.send(http2.FrameRSTStream, 0, id, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// give lets the client send more.
func (c *h2conn) give(id uint32, size int) {
	c.send(http2.FrameWindowUpdate, 0, id, binary.BigEndian.AppendUint32(nil, uint32(size)))
}

func (c *h2conn) send(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append(kind, flags, id, payload)
}

// append puts a frame behind those that wait; the lock is held.
func (c *h2conn) append(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	n := len(payload)
	c.out = append(c.out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	c.out = append(c.out, payload...)
}

// flush writes what waits, of whomever it is.
func (c *h2conn) flush() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	batch := c.out
	c.out, c.spare = c.spare[:0], batch
	c.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if _, err := c.wire.Write(batch); err != nil {
		c.wire.Close() // the reader hears of it
	}
}

// date is the value of the header of that name; the lock is held.
func (c *h2conn) date() string {
	if now := time.Now(); now.Unix() != c.dateAt {
		c.dateAt, c.dateText = now.Unix(), now.UTC().Format(http.TimeFormat)
	}
	return c.dateText
}
