package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

// dial makes ready a transport that trusts the certificate authority given, as bytes or as a file.
func dial(version string, address string, ca []byte, file string) (transport, error) {
	if len(ca) == 0 {
		var err error
		if ca, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the kubeconfig holds no certificate authority")
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: roots, ServerName: host}
	if version == "1.1" {
		config.NextProtos = []string{"http/1.1"}
		return &http1{address: address, config: config}, nil
	}
	config.NextProtos = []string{"h2"}
	return dialHTTP2(address, config)
}

// http1 has a connection for each watch, and for patches as many as are in flight.
type http1 struct {
	address string
	config  *tls.Config

	mu   sync.Mutex
	idle []*connection
}

type connection struct {
	tls    *tls.Conn
	reader *bufio.Reader
	out    []byte
}

func (h *http1) connect(size int) (*connection, error) {
	conn, err := tls.Dial("tcp", h.address, h.config)
	if err != nil {
		return nil, err
	}
	return &connection{tls: conn, reader: bufio.NewReaderSize(conn, size)}, nil
}

func (h *http1) watch(path, accept string, sink func([]byte)) error {
	c, err := h.connect(64 << 10)
	if err != nil {
		return err
	}
	defer c.tls.Close()
	_, err = fmt.Fprintf(c.tls, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n\r\n", path, h.address, accept)
	if err != nil {
		return err
	}
	return c.answer(sink)
}

func (h *http1) patch(path string, body []byte) error {
	c, err := h.taken()
	if err != nil {
		return err
	}
	c.out = fmt.Appendf(c.out[:0],
		"PATCH %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/merge-patch+json\r\nContent-Length: %d\r\n\r\n%s",
		path, h.address, len(body), body)
	if _, err := c.tls.Write(c.out); err != nil {
		c.tls.Close()
		return err
	}
	if err := c.answer(func([]byte) {}); err != nil {
		c.tls.Close()
		return err
	}
	h.mu.Lock()
	h.idle = append(h.idle, c)
	h.mu.Unlock()
	return nil
}

// taken is an idle connection, or a new one.
func (h *http1) taken() (*connection, error) {
	h.mu.Lock()
	if last := len(h.idle) - 1; last >= 0 {
		c := h.idle[last]
		h.idle = h.idle[:last]
		h.mu.Unlock()
		return c, nil
	}
	h.mu.Unlock()
	return h.connect(8 << 10)
}

// answer feeds the body of an answer to sink. Anything but a 200 is an error.
func (c *connection) answer(sink func([]byte)) error {
	status, err := c.reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answered with %s", bytes.TrimSpace(status))
	}
	length := -1
	for {
		header, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(header) <= 2 {
			break
		}
		if value, found := bytes.CutPrefix(header, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length >= 0 {
		return c.feed(length, sink)
	}
	for {
		size, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.feed(int(n), sink); err != nil {
			return err
		}
		if _, err := c.reader.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// feed hands n bytes over as they lie in the reader's buffer.
func (c *connection) feed(n int, sink func([]byte)) error {
	for n > 0 {
		if _, err := c.reader.Peek(1); err != nil {
			return io.ErrUnexpectedEOF
		}
		chunk, _ := c.reader.Peek(min(n, c.reader.Buffered()))
		sink(chunk)
		_, _ = c.reader.Discard(len(chunk))
		n -= len(chunk)
	}
	return nil
}
