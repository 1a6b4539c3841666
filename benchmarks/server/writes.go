package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

type tree = map[string]any

// write is what all requests that change something have in common.
type write struct {
	body    []byte
	form    form   // of the answer
	manager string // who writes, for managedFields
}

func (w *world) read(r *http.Request, t target) (write, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return write{}, err
	}
	f, err := t.c.negotiate(r.Header.Get("Accept"), false)
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), protobufType) {
		body, err = t.c.fromProtobuf(body)
	}
	manager := r.URL.Query().Get("fieldManager")
	if manager == "" {
		manager, _, _ = strings.Cut(r.UserAgent(), "/")
	}
	return write{body, f, manager}, err
}

// servePatch applies a merge patch (also what arrives as strategic merge: for what benchmarks send the same outcome),
// the JSON patch operations that controllers send, or server-side apply, which makes what does not exist.
func (w *world) servePatch(rw http.ResponseWriter, r *http.Request, t target) error {
	in, err := w.read(r, t)
	if err != nil {
		return err
	}
	edit := func(o *object) (*object, error) { return t.c.mergeInto(o, in.body) }
	media := r.Header.Get("Content-Type")
	verb := &w.counters.patches
	applies := strings.HasPrefix(media, "application/apply-patch")
	switch {
	case applies:
		verb = &w.counters.applies
		edit = func(o *object) (*object, error) { return t.c.applyInto(o, in, t.scope) }
	case strings.HasPrefix(media, "application/json-patch+json"):
		edit = func(o *object) (*object, error) { return t.c.jsonPatchInto(o, in.body) }
	}
	w.counters.wrote(t, verb)
	e, err := t.c.change(t.namespace, t.name, in.form, edit)
	if err == errNotFound && applies && t.scope == "" {
		return w.store(rw, t, in, "Apply")
	}
	return w.answerWrite(rw, http.StatusOK, in, t, e, err)
}

func (w *world) answerWrite(rw http.ResponseWriter, code int, in write, t target, e *encoding, err error) error {
	if err == errNotFound {
		err = t.missing()
	}
	if err != nil {
		return err
	}
	w.answer(rw, code, in.form, e.raw)
	return nil
}

// mergeInto is RFC 7386. A patch of status alone, which is what a benchmark sends, rewrites the tail of the bytes.
func (c *collection) mergeInto(o *object, body []byte) (*object, error) {
	patch := gjson.ParseBytes(body)
	if !gjson.ValidBytes(body) || !patch.IsObject() {
		return nil, fmt.Errorf("patch: %w", errBad)
	}
	var status gjson.Result
	sent, onlyStatus := "", o.status > 0
	patch.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "status":
			status = value
		case "apiVersion", "kind":
		case "metadata":
			value.ForEach(func(name, value gjson.Result) bool {
				switch name.Str {
				case "name", "namespace", "uid":
				case "resourceVersion":
					sent = value.Str
				default:
					onlyStatus = false
				}
				return true
			})
		default:
			onlyStatus = false
		}
		return true
	})
	if sent != "" && sent != o.versionText() {
		return nil, errConflict
	}
	if onlyStatus && status.IsObject() {
		return mergeStatus(o, status)
	}
	var now, change tree
	if json.Unmarshal(o.raw, &now) != nil || json.Unmarshal(body, &change) != nil {
		return nil, fmt.Errorf("patch: %w", errBad)
	}
	return c.rebuilt(o, merge(now, change).(tree))
}

// mergeStatus rewrites the tail of an object; a status that stays what it was changes nothing.
func mergeStatus(o *object, patch gjson.Result) (*object, error) {
	was := o.raw[o.status : len(o.raw)-1]
	status, flat := mergeFlat(gjson.ParseBytes(was), patch)
	if !flat {
		var now, change tree
		if json.Unmarshal(was, &now) != nil || json.Unmarshal([]byte(patch.Raw), &change) != nil {
			return nil, fmt.Errorf("patch of status: %w", errBad)
		}
		status, _ = json.Marshal(merge(now, change))
	}
	if bytes.Equal(status, was) {
		return o, nil
	}
	next := &object{namespace: o.namespace, name: o.name, encoding: o.encoding, status: o.status}
	if o.applied != nil && o.applied.scope == "" {
		next.applied = o.applied
	}
	next.raw = make([]byte, 0, o.status+len(status)+1)
	next.raw = append(append(append(next.raw, o.raw[:o.status]...), status...), '}')
	next.itemEnd = len(next.raw)
	return next, nil
}

// mergeFlat merges a patch of plain values into an object without taking either apart; false for any other patch.
func mergeFlat(target, patch gjson.Result) (merged []byte, flat bool) {
	type member struct{ key, value gjson.Result }
	members := make([]member, 0, 16)
	target.ForEach(func(key, value gjson.Result) bool {
		members = append(members, member{key, value})
		return true
	})
	flat = true
	patch.ForEach(func(key, value gjson.Result) bool {
		at := slices.IndexFunc(members, func(m member) bool { return m.key.Str == key.Str })
		switch {
		case value.IsObject() || value.IsArray():
			flat = false
		case value.Type == gjson.Null && at >= 0:
			members = slices.Delete(members, at, at+1)
		case value.Type == gjson.Null:
		case at >= 0:
			members[at].value = value
		default:
			members = append(members, member{key, value})
		}
		return flat
	})
	if !flat {
		return nil, false
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key.Str, b.key.Str) })
	merged = append(make([]byte, 0, len(target.Raw)+len(patch.Raw)), '{')
	for i, m := range members {
		if i > 0 {
			merged = append(merged, ',')
		}
		merged = append(append(append(merged, m.key.Raw...), ':'), m.value.Raw...)
	}
	return append(merged, '}'), true
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

func (c *collection) jsonPatchInto(o *object, body []byte) (*object, error) {
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
	return c.rebuilt(o, root)
}

// rebuilt is an object changed to a tree: o itself when that changes nothing; a change of spec is the next
// generation. What only the server writes stays as it was.
func (c *collection) rebuilt(o *object, root tree) (*object, error) {
	var old tree
	if err := json.Unmarshal(o.raw, &old); err != nil {
		return nil, err
	}
	was, _ := old["metadata"].(tree)
	meta, _ := root["metadata"].(tree)
	if meta == nil {
		return nil, fmt.Errorf("metadata: %w", errBad)
	}
	for _, name := range []string{"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"} {
		if value, ok := was[name]; ok {
			meta[name] = value
		} else {
			delete(meta, name)
		}
	}
	if _, sent := meta["managedFields"]; !sent && was["managedFields"] != nil {
		meta["managedFields"] = was["managedFields"]
	}
	raw, err := c.canonical(root)
	if err != nil {
		return nil, err
	}
	var now tree
	_ = json.Unmarshal(raw, &now)
	if reflect.DeepEqual(old, now) {
		return o, nil
	}
	if number, ok := was["generation"].(float64); ok && !reflect.DeepEqual(old["spec"], now["spec"]) {
		meta["generation"] = number + 1
		if raw, err = c.canonical(root); err != nil {
			return nil, err
		}
	}
	return located(o.namespace, o.name, raw)
}

// canonical encodes a tree as the API server does: custom resources with their keys sorted, built-in kinds with the
// fields and the defaults of their type.
func (c *collection) canonical(root tree) ([]byte, error) {
	root["kind"], root["apiVersion"] = c.kind, c.apiVersion()
	raw, err := json.Marshal(root)
	if err != nil || c.message == nil {
		return raw, err
	}
	m := c.message()
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s: %v: %w", c.kind, err, errBad)
	}
	setDefaults(m)
	return json.Marshal(m)
}

func located(namespace, name string, raw []byte) (*object, error) {
	next := &object{namespace: namespace, name: name, encoding: encoding{raw: raw}}
	if next.locate(); next.version < 0 {
		return nil, fmt.Errorf("resourceVersion: %w", errBad)
	}
	return next, nil
}

func (w *world) serveCreate(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.wrote(t, &w.counters.posts)
	in, err := w.read(r, t)
	if err != nil {
		return err
	}
	if t.c.plural == "events" { // accepted and forgotten, or a long run would measure the stub's memory
		w.answer(rw, http.StatusCreated, asJSON, in.body)
		return nil
	}
	return w.store(rw, t, in, "Update")
}

// servePut replaces all but status, or status alone where that is a resource of its own.
func (w *world) servePut(rw http.ResponseWriter, r *http.Request, t target) error {
	w.counters.wrote(t, &w.counters.puts)
	in, err := w.read(r, t)
	if err != nil {
		return err
	}
	e, err := t.c.change(t.namespace, t.name, in.form, func(o *object) (*object, error) {
		var root, old tree
		if json.Unmarshal(in.body, &root) != nil || json.Unmarshal(o.raw, &old) != nil {
			return nil, fmt.Errorf("body: %w", errBad)
		}
		if meta, _ := root["metadata"].(tree); meta != nil {
			if sent, _ := meta["resourceVersion"].(string); sent != "" && sent != o.versionText() {
				return nil, errConflict
			}
		}
		switch {
		case t.scope == "status":
			status := root["status"]
			root = old
			root["status"] = status
		case t.c.hasStatus && old["status"] != nil:
			root["status"] = old["status"]
		case t.c.hasStatus:
			delete(root, "status")
		}
		return t.c.rebuilt(o, root)
	})
	return w.answerWrite(rw, http.StatusOK, in, t, e, err)
}

func (w *world) serveDelete(rw http.ResponseWriter, t target) error {
	w.counters.wrote(t, &w.counters.deletes)
	if t.c.remove(t.namespace, t.name) == nil {
		return t.missing()
	}
	w.answer(rw, http.StatusOK, asJSON, []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`))
	return nil
}

// store creates an object from what a client sent: with the metadata that the server fills in, the defaults of its
// kind, and the fields of its author.
func (w *world) store(rw http.ResponseWriter, t target, in write, operation string) error {
	var root tree
	if json.Unmarshal(in.body, &root) != nil {
		return fmt.Errorf("body: %w", errBad)
	}
	meta, _ := root["metadata"].(tree)
	if meta == nil {
		meta = tree{}
		root["metadata"] = meta
	}
	number := w.uids.Add(1)
	if t.name == "" {
		t.name, _ = meta["name"].(string)
	}
	if prefix, _ := meta["generateName"].(string); t.name == "" && prefix != "" {
		t.name = fmt.Sprintf("%s%05d", prefix, number)
	}
	if t.name == "" {
		return fmt.Errorf("metadata.name: Required value: %w", errInvalid)
	}
	if t.c.hasStatus {
		delete(root, "status")
	}
	set := fieldsOf(root, t.c.message != nil, operation == "Update")
	meta["name"], meta["resourceVersion"] = t.name, version
	meta["uid"], meta["creationTimestamp"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", number), time.Now().UTC().Format(time.RFC3339)
	meta["managedFields"] = []any{managed(in.manager, operation, t.c.apiVersion(), "", set)}
	if t.c.namespaced {
		meta["namespace"] = t.namespace
	}
	if _, ok := root["spec"]; ok && t.c.plural != "services" {
		meta["generation"] = firstGeneration // as wide as those of generated objects
	}
	raw, err := t.c.canonical(root)
	if err != nil {
		return err
	}
	o, err := located(t.namespace, t.name, raw)
	if err != nil {
		return err
	}
	if operation == "Apply" {
		o.applied = &application{in.manager, "", in.body}
	}
	e := t.c.create(o, in.form)
	if e == nil {
		return fmt.Errorf("%s %q %w", t.c.groupResource(), t.name, errExists)
	}
	w.answer(rw, http.StatusCreated, in.form, e.raw)
	return nil
}
