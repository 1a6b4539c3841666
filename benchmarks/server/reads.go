package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (w *world) serveGet(rw http.ResponseWriter, t target) error {
	w.counters.gets.Add(1)
	o := t.c.get(t.namespace, t.name)
	if o == nil {
		return errNotFound
	}
	writeJSON(rw, http.StatusOK, o.raw)
	return nil
}

// serveList answers a page. The continue token is an offset: the stub promises no snapshot between pages.
func (w *world) serveList(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.lists.Add(1)
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	offset, _ := strconv.Atoi(strings.TrimPrefix(query.Get("continue"), "offset-"))
	page, total, version := t.c.list(t.namespace, offset, limit)
	w.counters.listed.Add(int64(len(page)))

	rw.Header()["Content-Type"] = contentType
	out := bufio.NewWriterSize(rw, 256<<10)
	fmt.Fprintf(out, `{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%d"`, t.c.kind, t.c.apiVersion(), version)
	if next := offset + len(page); next < total {
		fmt.Fprintf(out, `,"continue":"offset-%d","remainingItemCount":%d`, next, total-next)
	}
	_, _ = out.WriteString(`},"items":[`)
	for i, o := range page {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(o.raw)
	}
	_, _ = out.WriteString("]}\n")
	return out.Flush()
}

func (w *world) serveWatch(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.watches.Add(1)
	query := r.URL.Query()
	initial := isTrue(query.Get("sendInitialEvents"))
	if initial && !w.watchList.Load() {
		return fmt.Errorf("sendInitialEvents is forbidden: %w", errBad)
	}
	since, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	legacyInitial := query.Get("sendInitialEvents") == "" && since == 0
	watcher, objects, at, err := t.c.watch(t.namespace, since, initial || legacyInitial)
	if err != nil {
		return err
	}
	defer t.c.unwatch(watcher)

	rw.Header()["Content-Type"] = contentType
	rw.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(rw)
	_ = controller.Flush()
	if err := w.sendInitial(rw, t.c, objects, at, initial); err != nil {
		return nil // the client went away
	}
	_ = controller.Flush()

	timeout := 30 * time.Minute
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
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
				return nil
			}
			w.counters.sent.Add(int64(written))
			_ = controller.Flush()
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-watcher.wake:
		case <-bookmarks.C:
			if isTrue(query.Get("allowWatchBookmarks")) {
				_, _ = rw.Write(bookmark(t.c, w.version.Load(), false))
				_ = controller.Flush()
			}
		case <-end.C:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

func (w *world) sendInitial(rw http.ResponseWriter, c *collection, objects []*object, at uint64, mark bool) error {
	out := bufio.NewWriterSize(rw, 256<<10)
	for _, o := range objects {
		_, _ = out.WriteString(`{"type":"ADDED","object":`)
		_, _ = out.Write(o.raw)
		if _, err := out.WriteString("}\n"); err != nil {
			return err
		}
	}
	w.counters.listed.Add(int64(len(objects)))
	if mark {
		_, _ = out.Write(bookmark(c, at, true))
	}
	return out.Flush()
}

func bookmark(c *collection, version uint64, initialEnd bool) []byte {
	annotations := ""
	if initialEnd {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d","creationTimestamp":null%s}}}`+"\n",
		c.kind, c.apiVersion(), version, annotations)
}
