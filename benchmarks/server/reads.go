package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const batchSize = 256 << 10 // of lists and initial events; watch events are sent as many as there are

func (w *world) serveGet(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.gets.Add(1)
	f, err := t.c.negotiate(r.Header.Get("Accept"), false)
	if err != nil {
		return err
	}
	e := t.c.get(t.namespace, t.name, f)
	if e == nil {
		return t.missing()
	}
	w.answer(rw, http.StatusOK, f, e.raw)
	return nil
}

// serveList answers a page. The continue token is an offset: the stub promises no snapshot between pages.
func (w *world) serveList(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.asks(&w.counters.lists)
	f, err := t.c.negotiate(r.Header.Get("Accept"), true)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	offset, _ := strconv.Atoi(strings.TrimPrefix(query.Get("continue"), "offset-"))
	page, total, version := t.c.list(t.namespace, offset, limit, f)
	w.counters.listed.Add(int64(len(page)))
	meta := metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}
	if next := offset + len(page); next < total {
		left := int64(total - next)
		meta.Continue, meta.RemainingItemCount = fmt.Sprintf("offset-%d", next), &left
	}

	rw.Header()["Content-Type"] = f.contentType(false)
	out := bufio.NewWriterSize(counting{rw, w}, batchSize)
	kind, apiVersion := t.c.typeOf(f)
	if f.binary() {
		writeBinaryList(out, kind+"List", apiVersion, meta, page)
	} else {
		writeList(out, kind+"List", apiVersion, meta, page)
	}
	return out.Flush()
}

func writeList(out *bufio.Writer, kind, apiVersion string, meta metav1.ListMeta, page []*encoding) {
	fmt.Fprintf(out, `{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%s"`, kind, apiVersion, meta.ResourceVersion)
	if meta.Continue != "" {
		fmt.Fprintf(out, `,"continue":"%s","remainingItemCount":%d`, meta.Continue, *meta.RemainingItemCount)
	}
	_, _ = out.WriteString(`},"items":[`)
	for i, e := range page {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		if e.item > 0 {
			_ = out.WriteByte('{')
		}
		_, _ = out.Write(e.raw[e.item:e.itemEnd])
	}
	_, _ = out.WriteString("]}\n")
}

// writeBinaryList writes a list message, {1: metadata, 2: items}, in its envelope.
func writeBinaryList(out *bufio.Writer, kind, apiVersion string, meta metav1.ListMeta, page []*encoding) {
	head, _ := meta.Marshal()
	head = append(appendLength(nil, 1, len(head)), head...)
	size := len(head)
	for _, e := range page {
		item := e.itemEnd - e.item
		size += 1 + uvarintLen(item) + item
	}
	_, _ = out.Write(envelopeHead(kind, apiVersion, size))
	_, _ = out.Write(head)
	var prefix [12]byte
	for _, e := range page {
		_, _ = out.Write(appendLength(prefix[:0], 2, e.itemEnd-e.item))
		_, _ = out.Write(e.raw[e.item:e.itemEnd])
	}
	_, _ = out.Write(envelopeTail)
}

func (w *world) serveWatch(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.asks(&w.counters.watches)
	f, err := t.c.negotiate(r.Header.Get("Accept"), false)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	initial := isTrue(query.Get("sendInitialEvents"))
	if initial && !w.watchList.Load() {
		return fmt.Errorf("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled: %w", errInvalid)
	}
	since, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	legacyInitial := query.Get("sendInitialEvents") == "" && since == 0
	watcher, objects, at, err := t.c.watch(t.namespace, since, initial || legacyInitial, f)
	rw.Header()["Content-Type"] = f.contentType(true)
	if err != nil { // the API server has begun its answer before it learns this
		_, _ = rw.Write(appendGone(nil, f))
		return nil
	}
	defer t.c.unwatch(watcher)
	rw.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(rw)
	_ = controller.Flush()
	if err := w.sendInitial(rw, t.c, objects, at, initial, f); err != nil {
		return nil // the client went away
	}
	_ = controller.Flush()
	w.sendEvents(rw, r, watcher, isTrue(query.Get("allowWatchBookmarks")))
	return nil
}

// sendEvents writes what a watcher queues, all that waits in one write, until the watch or its client ends.
func (w *world) sendEvents(rw http.ResponseWriter, r *http.Request, watcher *watcher, marks bool) {
	controller := http.NewResponseController(rw)
	timeout := 30 * time.Minute
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil && seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	bookmarks := time.NewTicker(time.Minute)
	defer bookmarks.Stop()
	written := 0
	for {
		batch, ended := watcher.take(written)
		written = len(batch)
		if written > 0 {
			if _, err := rw.Write(batch); err != nil {
				return
			}
			w.counters.sent.Add(int64(written))
			w.counters.bytes.Add(int64(written))
			_ = controller.Flush()
			continue
		}
		if ended {
			return
		}
		select {
		case <-watcher.wake:
		case <-bookmarks.C:
			if marks {
				_, _ = rw.Write(watcher.c.appendBookmark(nil, w.version.Load(), false, watcher.form))
				_ = controller.Flush()
			}
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (w *world) sendInitial(rw http.ResponseWriter, c *collection, objects []*encoding, at uint64, mark bool, f form) error {
	batch := make([]byte, 0, batchSize)
	send := func() error {
		w.counters.bytes.Add(int64(len(batch)))
		_, err := rw.Write(batch)
		batch = batch[:0]
		return err
	}
	for _, e := range objects {
		if len(batch) > 0 && len(batch)+len(e.raw)+64 > batchSize {
			if err := send(); err != nil {
				return err
			}
		}
		batch = appendEvent(batch, "ADDED", e, f)
	}
	w.counters.listed.Add(int64(len(objects)))
	if mark {
		batch = c.appendBookmark(batch, at, true, f)
	}
	return send()
}

// counting counts the bytes of an answer.
type counting struct {
	http.ResponseWriter
	w *world
}

func (c counting) Write(raw []byte) (int, error) {
	c.w.counters.bytes.Add(int64(len(raw)))
	return c.ResponseWriter.Write(raw)
}
