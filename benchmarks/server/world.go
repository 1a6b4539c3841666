package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

var (
	errNotFound = errors.New("not found")
	errExpired  = errors.New("too old resource version")
	errConflict = errors.New("the object has been modified")
	errBad      = errors.New("cannot be parsed")
	errExists   = errors.New("already exists")
	errInvalid  = errors.New("is invalid")

	errNotAcceptable = errors.New("is not served")
)

// counters are what a run asserts: nobody wins by dropping events or by not writing. Writes are counted by verb, with
// server-side apply apart from the other patches, and all together; those of leases and events are housekeeping and
// nothing else. listed counts objects in lists and initial events, sent the bytes of watch events, bytes those of all
// answers; asked is when, in Unix nanoseconds, the first list or watch came after an expiry, 0 until then.
type counters struct {
	gets, lists, watches, patches, applies, posts, puts, deletes, writes, housekeeping, events, listed, sent, bytes, refused, asked atomic.Int64
}

// wrote counts a request that changes something.
func (c *counters) wrote(t target, verb *atomic.Int64) {
	if t.c.plural == "leases" || t.c.plural == "events" {
		c.housekeeping.Add(1)
		return
	}
	verb.Add(1)
	c.writes.Add(1)
}

// asks counts a request for a collection.
func (c *counters) asks(verb *atomic.Int64) {
	verb.Add(1)
	c.asked.CompareAndSwap(0, time.Now().UnixNano())
}

func (c *counters) all() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		"gets": &c.gets, "lists": &c.lists, "watches": &c.watches, "patches": &c.patches, "writes": &c.writes,
		"applies": &c.applies, "posts": &c.posts, "puts": &c.puts, "deletes": &c.deletes, "bytes": &c.bytes,
		"housekeeping": &c.housekeeping,
		"events":       &c.events, "listed": &c.listed, "sent": &c.sent, "refused": &c.refused, "asked": &c.asked,
	}
}

const defaultBehind = 8 << 20

// world is the whole server: one collection for each kind, one resource version for all.
type world struct {
	version     atomic.Uint64
	counters    counters
	collections []*collection
	uids        atomic.Uint64
	watchList   atomic.Bool
	maxBehind   atomic.Int64 // bytes that a watcher may lag before a load waits for it
	loads       loads
}

func newWorld() *world {
	w := &world{}
	w.version.Store(firstVersion)
	w.watchList.Store(true)
	w.maxBehind.Store(defaultBehind)
	for _, k := range kinds {
		c := newCollection(w, k)
		c.reset(nil, 0, 0, 0)
		w.collections = append(w.collections, c)
	}
	return w
}

func (w *world) collection(group, version, plural string) *collection {
	for _, c := range w.collections {
		if c.group == group && c.version == version && c.plural == plural {
			return c
		}
	}
	return nil
}

// target is what a path of the API names.
type target struct {
	c                      *collection
	namespace, name, scope string // scope is the sub-resource
}

func (t target) missing() error {
	return fmt.Errorf("%s %q %w", t.c.groupResource(), t.name, errNotFound)
}

// resolve reads /api/v1/… and /apis/{group}/{version}/…; ok is false where no kind is named.
func (w *world) resolve(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		t.namespace, parts = parts[1], parts[2:]
	}
	if t.c = w.collection(group, version, parts[0]); t.c == nil {
		return t, false
	}
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.scope = parts[2]
	}
	return t, true
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && w.serveDiscovery(rw, r) {
		return
	}
	t, ok := w.resolve(r.URL.Path)
	if !ok {
		w.refuse(rw, errNotFound)
		return
	}
	var err error
	switch {
	case r.Method == http.MethodGet && t.name != "":
		err = w.serveGet(rw, r, t)
	case r.Method == http.MethodGet && isTrue(r.URL.Query().Get("watch")):
		err = w.serveWatch(rw, r, t)
	case r.Method == http.MethodGet:
		err = w.serveList(rw, r, t)
	case r.Method == http.MethodPatch:
		err = w.servePatch(rw, r, t)
	case r.Method == http.MethodPost:
		err = w.serveCreate(rw, r, t)
	case r.Method == http.MethodPut:
		err = w.servePut(rw, r, t)
	case r.Method == http.MethodDelete && t.name != "":
		err = w.serveDelete(rw, t)
	default:
		http.Error(rw, "method not allowed", http.StatusMethodNotAllowed)
	}
	if err != nil {
		w.refuse(rw, err)
	}
}

func isTrue(s string) bool { return s == "1" || s == "true" || s == "True" }

func (w *world) refuse(rw http.ResponseWriter, err error) {
	w.counters.refused.Add(1)
	code, reason := http.StatusInternalServerError, "InternalError"
	switch {
	case errors.Is(err, errNotFound):
		code, reason = http.StatusNotFound, "NotFound"
	case errors.Is(err, errExpired):
		code, reason = http.StatusGone, "Expired"
	case errors.Is(err, errConflict):
		code, reason = http.StatusConflict, "Conflict"
	case errors.Is(err, errExists):
		code, reason = http.StatusConflict, "AlreadyExists"
	case errors.Is(err, errInvalid):
		code, reason = http.StatusUnprocessableEntity, "Invalid"
	case errors.Is(err, errNotAcceptable):
		code, reason = http.StatusNotAcceptable, "NotAcceptable"
	case errors.Is(err, errBad):
		code, reason = http.StatusBadRequest, "BadRequest"
	}
	body, _ := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": err.Error(), "reason": reason, "code": code,
	})
	w.answer(rw, code, asJSON, body)
}

// answer sends an object.
func (w *world) answer(rw http.ResponseWriter, code int, f form, body []byte) {
	rw.Header()["Content-Type"] = f.contentType(false)
	rw.WriteHeader(code)
	_, _ = rw.Write(body)
	w.counters.bytes.Add(int64(len(body)))
}

var contentType = []string{jsonType}
