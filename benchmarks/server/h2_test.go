package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// served is a world behind its HTTP/2, and a client for it.
func served(t *testing.T, count int) (*world, string, *http.Client) {
	t.Helper()
	w := newWorld()
	for _, c := range w.collections {
		if len(c.templates) > 0 {
			c.reset(c.templates, count, 1, 0)
		}
	}
	pki, err := makePKI()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(w, pki.server)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return w, "https://" + listener.Addr().String(), &http.Client{Transport: transport}
}

func do(t *testing.T, client *http.Client, method, url, media, text string) (*http.Response, []byte) {
	t.Helper()
	request, _ := http.NewRequest(method, url, strings.NewReader(text))
	request.Header.Set("Content-Type", media)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.ProtoMajor != 2 {
		t.Fatalf("spoke %s", response.Proto)
	}
	return response, raw
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestAnswersSayHowLongTheyAreUnlessTheyAreStreamed(t *testing.T) {
	w, url, client := served(t, 2000)
	o := w.byPlural("widgets").slots[0].object
	response, raw := do(t, client, "GET", url+widgetsPath[:len(widgetsPath)-len("widgets")]+"namespaces/"+o.namespace+"/widgets/"+o.name, "", "")
	if response.ContentLength != int64(len(o.raw)) || !bytes.Equal(raw, o.raw) || response.Header.Get("Date") == "" {
		t.Errorf("%d bytes announced, %d came, of %d; headers %v", response.ContentLength, len(raw), len(o.raw), response.Header)
	}
	response, raw = do(t, client, "GET", url+"/api/v1/pods", "", "") // longer than all windows
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Items) != 2000 || response.ContentLength != -1 {
		t.Errorf("%v; %d of 2000 Pods, %d bytes announced", err, len(list.Items), response.ContentLength)
	}
	if response, _ = do(t, client, "GET", url+"/no/such/path", "", ""); response.StatusCode != 404 {
		t.Errorf("answered %s", response.Status)
	}
}

func TestManyPatchesAtATimeAreEachAnsweredAndSeen(t *testing.T) {
	const clients, each = 40, 50
	w, url, client := served(t, clients)
	stream, err := client.Get(url + widgetsPath + "?watch=1&resourceVersion=" + jsonNumber(w.version.Load()))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var writers sync.WaitGroup
	for i := range clients {
		o := w.byPlural("widgets").slots[i].object
		path := url + "/apis/bench.steersman.dev/v1/namespaces/" + o.namespace + "/widgets/" + o.name + "/status"
		writers.Go(func() {
			for n := range each {
				phase := fmt.Sprintf("phase-%d", n)
				response, raw := do(t, client, "PATCH", path, "application/merge-patch+json", `{"status":{"phase":"`+phase+`"}}`)
				if response.StatusCode != 200 || !bytes.Contains(raw, []byte(phase)) {
					t.Errorf("answered %s %.200s", response.Status, raw)
				}
			}
		})
	}
	lines := bufio.NewReader(stream.Body)
	for n := range clients * each {
		line, err := lines.ReadBytes('\n')
		if err != nil || !json.Valid(line) {
			t.Fatalf("event %d: %v %.100s", n, err, line)
		}
	}
	writers.Wait()
}

func TestLongBodiesAreReadWhole(t *testing.T) {
	_, url, client := served(t, 1)
	text := strings.Repeat("0123456789abcdef", 256<<10) // 4 MB, many times the window
	made, _ := json.Marshal(tree{"metadata": tree{"name": "long"}, "data": tree{"text": text}})
	response, raw := do(t, client, "POST", url+"/api/v1/namespaces/default/configmaps", "application/json", string(made))
	if response.StatusCode != 201 || !bytes.Contains(raw, []byte(text)) {
		t.Errorf("answered %s with %d bytes", response.Status, len(raw))
	}
}

func TestAWatchThatItsClientLeavesEnds(t *testing.T) {
	w, url, client := served(t, 1)
	c := w.byPlural("widgets")
	watchers := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.eachWatcher(func(*watcher) { n++ })
		return n
	}
	stream, err := client.Get(url + widgetsPath + "?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the watch", func() bool { return watchers() == 1 })
	stream.Body.Close()
	until(t, "its end", func() bool { return watchers() == 0 })
}

// raw is a connection on which a test says its own frames; it takes only a few bytes of each answer at first.
func raw(t *testing.T, url string, window uint32) *http2.Framer {
	t.Helper()
	wire, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Close() })
	_ = wire.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(wire, http2.ClientPreface)
	framer := http2.NewFramer(wire, wire)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	return framer
}

func get(framer *http2.Framer, id uint32, path string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "stub"}, {":path", path}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
}

// next is the next frame of a type.
func next[F http2.Frame](t *testing.T, framer *http2.Framer) (found F) {
	t.Helper()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := frame.(F); ok {
			return f
		}
	}
}

func TestNoMoreIsSentThanTheClientHasRoomFor(t *testing.T) {
	_, url, _ := served(t, 3)
	framer := raw(t, url, 100)
	get(framer, 1, widgetsPath)
	for range 3 {
		if f := next[*http2.DataFrame](t, framer); f.Length != 100 || f.StreamEnded() {
			t.Fatalf("%d bytes, ended: %v", f.Length, f.StreamEnded())
		}
		_ = framer.WriteWindowUpdate(1, 100)
	}
	_ = framer.WritePing(false, [8]byte{7}) // others are not held up
	if f := next[*http2.PingFrame](t, framer); !f.IsAck() || f.Data[0] != 7 {
		t.Errorf("answered %v", f)
	}
	_ = framer.WriteWindowUpdate(1, 1<<20)
	for !next[*http2.DataFrame](t, framer).StreamEnded() {
	}
}

func TestOneStreamTooManyIsRefused(t *testing.T) {
	_, url, _ := served(t, 1)
	framer := raw(t, url, 1<<20)
	for i := range uint32(h2Streams + 1) {
		get(framer, 1+2*i, widgetsPath+"?watch=1")
	}
	if f := next[*http2.RSTStreamFrame](t, framer); f.ErrCode != http2.ErrCodeRefusedStream || f.StreamID != 1+2*h2Streams {
		t.Errorf("answered %v", f)
	}
}

func TestWhatIsNoHTTP2EndsTheConnection(t *testing.T) {
	_, url, _ := served(t, 1)
	framer := raw(t, url, 1<<20)
	get(framer, 2, widgetsPath)
	if f := next[*http2.GoAwayFrame](t, framer); f.ErrCode != http2.ErrCodeProtocol {
		t.Errorf("answered %v", f)
	}
}
