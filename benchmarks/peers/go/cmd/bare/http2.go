package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	window  = 1 << 28 // of the connection and of each stream; replenished when half of it is used
	frame   = 1 << 20 // the largest frame that we read
	streams = 100     // what kube-apiserver allows a connection
)

// connection2 is one connection for all watches and patches, as Go's clients have it.
type connection2 struct {
	address string
	framer  *http2.Framer

	mu      sync.Mutex // guards what follows, and writing
	out     *bufio.Writer
	headers bytes.Buffer
	encoder *hpack.Encoder
	streams map[uint32]*stream
	next    uint32

	used uint32 // of the connection's window; the reader's own
}

type stream struct {
	sink   func([]byte)
	ended  chan error // of capacity 1
	status string
	used   uint32
}

func dialHTTP2(address string, config *tls.Config) (transport, error) {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, err
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.New("the server does not speak HTTP/2")
	}
	c := &connection2{address: address, out: bufio.NewWriter(conn), streams: map[uint32]*stream{}, next: 1}
	c.encoder = hpack.NewEncoder(&c.headers)
	c.framer = http2.NewFramer(c.out, bufio.NewReaderSize(conn, 64<<10))
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(frame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = c.out.WriteString(http2.ClientPreface)
	err = errors.Join(err,
		c.framer.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
			http2.Setting{ID: http2.SettingMaxFrameSize, Val: frame},
		),
		c.framer.WriteWindowUpdate(0, window-65535),
		c.out.Flush(),
	)
	if err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func (c *connection2) watch(path, accept string, sink func([]byte)) error {
	return c.exchange("GET", path, "accept", accept, nil, sink)
}

func (c *connection2) patch(path string, body []byte) error {
	return c.exchange("PATCH", path, "content-type", "application/merge-patch+json", body, nil)
}

// exchange sends a request with one header of its own and waits for the end of the answer. Bodies are far smaller
// than the window that the server gives, which it replenishes as it reads: it is not accounted for.
func (c *connection2) exchange(method, path, header, value string, body []byte, sink func([]byte)) error {
	s := &stream{sink: sink, ended: make(chan error, 1)}
	if err := c.send(s, method, path, header, value, body); err != nil {
		return err
	}
	if err := <-s.ended; err != nil {
		return err
	}
	if s.status != "200" {
		return fmt.Errorf("%s %s was answered with %s", method, path, s.status)
	}
	return nil
}

func (c *connection2) send(s *stream, method, path, header, value string, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == nil {
		return errors.New("the connection is closed")
	}
	id := c.next
	c.next += 2
	c.streams[id] = s
	c.headers.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: method},
		{Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: c.address},
		{Name: ":path", Value: path},
		{Name: header, Value: value},
	}
	if body != nil {
		fields = append(fields, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(len(body))})
	}
	for _, field := range fields {
		if err := c.encoder.WriteField(field); err != nil {
			return err
		}
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.headers.Bytes(), EndHeaders: true, EndStream: body == nil,
	})
	if err == nil && body != nil {
		err = c.framer.WriteData(id, true, body)
	}
	return errors.Join(err, c.out.Flush())
}

// read hands frames to their streams until the connection breaks, which every stream is told.
func (c *connection2) read() {
	err := c.serve()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		s.ended <- err
	}
	c.streams = nil
}

func (c *connection2) serve() error {
	for {
		received, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := received.(type) {
		case *http2.DataFrame:
			err = c.data(f)
		case *http2.MetaHeadersFrame:
			if s := c.stream(f.StreamID); s != nil {
				if status := f.PseudoValue("status"); status != "" {
					s.status = status
				}
				if f.StreamEnded() {
					c.end(f.StreamID, nil)
				}
			}
		case *http2.RSTStreamFrame:
			c.end(f.StreamID, fmt.Errorf("the server reset the stream: %s", f.ErrCode))
		case *http2.GoAwayFrame:
			err = fmt.Errorf("the server goes away: %s", f.ErrCode)
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.reply(func() error { return c.framer.WritePing(true, f.Data) })
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.reply(c.framer.WriteSettingsAck)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (c *connection2) data(f *http2.DataFrame) error {
	s := c.stream(f.StreamID)
	c.used += f.Length
	if s != nil {
		if s.sink != nil && s.status == "200" {
			s.sink(f.Data())
		}
		s.used += f.Length
		if f.StreamEnded() {
			c.end(f.StreamID, nil)
		} else if s.used > window/2 {
			if err := c.reply(func() error { return c.framer.WriteWindowUpdate(f.StreamID, s.used) }); err != nil {
				return err
			}
			s.used = 0
		}
	}
	if c.used > window/2 {
		if err := c.reply(func() error { return c.framer.WriteWindowUpdate(0, c.used) }); err != nil {
			return err
		}
		c.used = 0
	}
	return nil
}

func (c *connection2) reply(write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(write(), c.out.Flush())
}

func (c *connection2) stream(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

func (c *connection2) end(id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		delete(c.streams, id)
		s.ended <- err
	}
}
