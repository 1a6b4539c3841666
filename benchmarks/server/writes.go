package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// servePatch applies a merge patch (also what arrives as apply or strategic merge: for these objects the same
// outcome) or the JSON patch operations that controllers send, and answers with the object.
func (w *world) servePatch(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.patches.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	edit := func(o *object) (*object, error) { return mergeInto(o, body) }
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json-patch+json") {
		edit = func(o *object) (*object, error) { return jsonPatchInto(o, body) }
	}
	o, err := t.c.change(t.namespace, t.name, edit)
	if err == errNotFound && strings.Contains(r.Header.Get("Content-Type"), "apply-patch") {
		return w.store(rw, t, body, http.StatusCreated)
	}
	if err != nil {
		return err
	}
	writeJSON(rw, http.StatusOK, o.raw)
	return nil
}

type tree = map[string]any

// mergeInto is RFC 7386. A patch of status alone, which is what a benchmark sends, rewrites the tail of the bytes.
func mergeInto(o *object, body []byte) (*object, error) {
	var patch map[string]json.RawMessage
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, fmt.Errorf("patch: %w", errBad)
	}
	var meta struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	if raw, ok := patch["metadata"]; ok {
		_ = json.Unmarshal(raw, &meta)
		if meta.ResourceVersion != "" && meta.ResourceVersion != string(o.raw[o.version:o.version+10]) {
			return nil, errConflict
		}
	}
	onlyStatus := o.status > 0
	for key := range patch {
		switch key {
		case "status", "apiVersion", "kind":
		case "metadata":
			var fields map[string]json.RawMessage
			_ = json.Unmarshal(patch[key], &fields)
			for name := range fields {
				onlyStatus = onlyStatus && (name == "name" || name == "namespace" || name == "resourceVersion" || name == "uid")
			}
		default:
			onlyStatus = false
		}
	}
	if onlyStatus {
		var now, change tree
		if json.Unmarshal(o.raw[o.status:len(o.raw)-1], &now) == nil && json.Unmarshal(patch["status"], &change) == nil {
			status, _ := json.Marshal(merge(now, change))
			next := *o
			next.raw = make([]byte, 0, o.status+len(status)+1)
			next.raw = append(append(append(next.raw, o.raw[:o.status]...), status...), '}')
			return &next, nil
		}
	}
	var now, change tree
	if json.Unmarshal(o.raw, &now) != nil || json.Unmarshal(body, &change) != nil {
		return nil, fmt.Errorf("patch: %w", errBad)
	}
	return rebuilt(o, merge(now, change).(tree))
}

func merge(target, patch any) any {
	change, ok := patch.(tree)
	if !ok {
		return patch
	}
	result, ok := target.(tree)
	if !ok {
		result = tree{}
	}
	for key, value := range change {
		if value == nil {
			delete(result, key)
		} else {
			result[key] = merge(result[key], value)
		}
	}
	return result
}

func jsonPatchInto(o *object, body []byte) (*object, error) {
	var operations []struct {
		Op, Path string
		Value    any
	}
	var root tree
	if json.Unmarshal(body, &operations) != nil || json.Unmarshal(o.raw, &root) != nil {
		return nil, fmt.Errorf("patch: %w", errBad)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, op := range operations {
		parts := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		parent := root
		for _, part := range parts[:len(parts)-1] {
			child, ok := parent[unescape.Replace(part)].(tree)
			if !ok {
				return nil, fmt.Errorf("patch path %s: %w", op.Path, errBad)
			}
			parent = child
		}
		last := unescape.Replace(parts[len(parts)-1])
		switch op.Op {
		case "add", "replace":
			parent[last] = op.Value
		case "remove":
			delete(parent, last)
		case "test":
			have, _ := json.Marshal(parent[last])
			want, _ := json.Marshal(op.Value)
			if !bytes.Equal(have, want) {
				return nil, errConflict
			}
		default:
			return nil, fmt.Errorf("patch operation %s: %w", op.Op, errBad)
		}
	}
	return rebuilt(o, root)
}

// rebuilt encodes a changed tree; a change of spec is the next generation, as on a real API server.
func rebuilt(o *object, root tree) (*object, error) {
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	next := &object{namespace: o.namespace, name: o.name, raw: raw}
	next.locate()
	if next.version < 0 {
		return nil, fmt.Errorf("resourceVersion: %w", errBad)
	}
	return next, nil
}

func (w *world) serveCreate(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.writes.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if t.c.plural == "events" { // accepted and forgotten, or a long run would measure the stub's memory
		writeJSON(rw, http.StatusCreated, body)
		return nil
	}
	return w.store(rw, t, body, http.StatusCreated)
}

func (w *world) servePut(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.writes.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	o, err := t.c.change(t.namespace, t.name, func(o *object) (*object, error) {
		var root tree
		if json.Unmarshal(body, &root) != nil {
			return nil, fmt.Errorf("body: %w", errBad)
		}
		if meta, _ := root["metadata"].(tree); meta != nil {
			if sent, _ := meta["resourceVersion"].(string); sent != "" && sent != string(o.raw[o.version:o.version+10]) {
				return nil, errConflict
			}
			meta["resourceVersion"] = version
		}
		return rebuilt(o, root)
	})
	if err != nil {
		return err
	}
	writeJSON(rw, http.StatusOK, o.raw)
	return nil
}

// store creates an object from what a client sent.
func (w *world) store(rw http.ResponseWriter, t target, body []byte, code int) error {
	var root tree
	if json.Unmarshal(body, &root) != nil {
		return fmt.Errorf("body: %w", errBad)
	}
	meta, _ := root["metadata"].(tree)
	if meta == nil {
		meta = tree{}
		root["metadata"] = meta
	}
	if t.name == "" {
		t.name, _ = meta["name"].(string)
	}
	meta["name"], meta["resourceVersion"] = t.name, version
	meta["uid"], meta["creationTimestamp"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", w.version.Load()%1e12), "2026-01-01T00:00:00Z"
	if t.c.namespaced {
		meta["namespace"] = t.namespace
	}
	o, err := rebuilt(&object{namespace: t.namespace, name: t.name}, root)
	if err != nil {
		return err
	}
	if !t.c.create(o) {
		return fmt.Errorf("%s %q already exists: %w", t.c.plural, t.name, errConflict)
	}
	writeJSON(rw, code, o.raw)
	return nil
}
