package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
)

var (
	errNotFound = errors.New("not found")
	errExpired  = errors.New("too old resource version")
	errConflict = errors.New("the object has been modified")
	errBad      = errors.New("cannot be parsed")
)

// counters are what a run asserts: nobody wins by dropping events or by not writing.
type counters struct {
	gets, lists, watches, patches, writes, events, listed, sent, refused atomic.Int64
}

func (c *counters) all() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		"gets": &c.gets, "lists": &c.lists, "watches": &c.watches, "patches": &c.patches, "writes": &c.writes,
		"events": &c.events, "listed": &c.listed, "sent": &c.sent, "refused": &c.refused,
	}
}

// world is the whole server: one collection for each kind, one resource version for all.
type world struct {
	version     atomic.Uint64
	counters    counters
	collections []*collection
	watchList   atomic.Bool
	loads       loads
}

func newWorld() *world {
	w := &world{}
	w.version.Store(firstVersion)
	w.watchList.Store(true)
	for _, k := range kinds {
		c := newCollection(w, k)
		c.reset(0, 0)
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
		err = w.serveGet(rw, t)
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
	case errors.Is(err, errBad):
		code, reason = http.StatusBadRequest, "BadRequest"
	}
	body, _ := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": err.Error(), "reason": reason, "code": code,
	})
	writeJSON(rw, code, body)
}

func writeJSON(rw http.ResponseWriter, code int, body []byte) {
	rw.Header()["Content-Type"] = contentType
	rw.WriteHeader(code)
	_, _ = rw.Write(body)
}

var contentType = []string{"application/json"}
