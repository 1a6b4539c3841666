package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// application is the last server-side apply of an object: the same again, by the same manager, changes nothing.
type application struct {
	manager, scope string
	body           []byte
}

// applyInto is server-side apply: the fields of the body are set, those that the manager applied before, no longer
// does and nobody else owns are removed. Lists of built-in kinds are merged by their keys. There are no conflicts:
// whoever applies last wins, as with force.
func (c *collection) applyInto(o *object, in write, scope string) (*object, error) {
	if a := o.applied; a != nil && a.manager == in.manager && a.scope == scope && bytes.Equal(a.body, in.body) {
		return o, nil
	}
	var root, body tree
	if json.Unmarshal(o.raw, &root) != nil || json.Unmarshal(in.body, &body) != nil {
		return nil, fmt.Errorf("body: %w", errBad)
	}
	meta, _ := body["metadata"].(tree)
	if sent, _ := meta["resourceVersion"].(string); sent != "" && sent != o.versionText() {
		return nil, errConflict
	}
	if scope == "status" {
		body = tree{"status": body["status"]}
	} else if c.hasStatus {
		delete(body, "status")
	}
	builtin := c.message != nil
	set := fieldsOf(body, builtin, false)
	delete(body, "apiVersion")
	delete(body, "kind")

	was := root["metadata"].(tree)
	entries, _ := was["managedFields"].([]any)
	mine, others := -1, []tree{}
	for i, one := range entries {
		entry, _ := one.(tree)
		subresource, _ := entry["subresource"].(string)
		if entry["manager"] == in.manager && entry["operation"] == "Apply" && subresource == scope {
			mine = i
		} else if owned, ok := entry["fieldsV1"].(tree); ok {
			others = append(others, owned)
		}
	}
	entry := managed(in.manager, "Apply", c.apiVersion(), scope, set)
	if mine >= 0 {
		before, _ := entries[mine].(tree)
		if owned, ok := before["fieldsV1"].(tree); ok {
			prune(root, owned, set, others, builtin)
		}
		if reflect.DeepEqual(before["fieldsV1"], any(set)) {
			entry["time"] = before["time"]
		}
		entries[mine] = entry
	} else {
		entries = append(entries, entry)
	}
	applyMap(root, body, builtin)
	was["managedFields"] = entries
	next, err := c.rebuilt(o, root)
	if err != nil {
		return nil, err
	}
	next.applied = &application{in.manager, scope, in.body}
	return next, nil
}

func managed(manager, operation, apiVersion, scope string, set tree) tree {
	entry := tree{
		"manager": manager, "operation": operation, "apiVersion": apiVersion, "fieldsType": "FieldsV1", "fieldsV1": set,
		"time": time.Now().UTC().Format(time.RFC3339),
	}
	if scope != "" {
		entry["subresource"] = scope
	}
	return entry
}

// listKeys names the fields by which the elements of a list are told apart; nil: the list is one value.
func listKeys(field string, list []any, builtin bool) []string {
	if field == "ownerReferences" {
		return []string{"uid"}
	}
	if !builtin {
		return nil
	}
	switch field {
	case "containers", "initContainers", "volumes", "env", "imagePullSecrets":
		return []string{"name"}
	case "volumeMounts":
		return []string{"mountPath"}
	case "conditions":
		return []string{"type"}
	case "ports":
		if first, _ := list[0].(tree); first["containerPort"] != nil {
			return []string{"containerPort", "protocol"}
		}
		return []string{"port", "protocol"}
	}
	return nil
}

// keyOf is how managedFields names an element of a list, as in k:{"name":"app"}.
func keyOf(element tree, keys []string) string {
	var b strings.Builder
	b.WriteString("k:{")
	for i, key := range keys {
		value := element[key]
		if value == nil && key == "protocol" {
			value = "TCP"
		}
		raw, _ := json.Marshal(value)
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", key, raw)
	}
	b.WriteByte('}')
	return b.String()
}

// fieldsOf is the FieldsV1 of what a client sent. With dots, maps and lists are owned too, as after an update.
func fieldsOf(root tree, builtin, dots bool) tree {
	set := tree{}
	for key, value := range root {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			kept := tree{}
			meta, _ := value.(tree)
			for _, name := range []string{"annotations", "labels", "finalizers", "ownerReferences", "generateName"} {
				if meta[name] != nil {
					kept["f:"+name] = fieldsIn(name, meta[name], builtin, dots)
				}
			}
			if len(kept) > 0 {
				set["f:metadata"] = kept
			}
		default:
			set["f:"+key] = fieldsIn(key, value, builtin, dots)
		}
	}
	return set
}

var (
	atomicMaps = []string{"selector", "nodeSelector", "matchLabels"}
	dottedMaps = []string{"annotations", "labels", "data", "requests", "limits", "resources", "env", "ports", "ownerReferences", "volumes", "volumeMounts"}
)

func fieldsIn(field string, value any, builtin, dots bool) tree {
	set := tree{}
	if dots && slices.Contains(dottedMaps, field) {
		set["."] = tree{}
	}
	switch value := value.(type) {
	case tree:
		if builtin && slices.Contains(atomicMaps, field) {
			return set
		}
		for key, child := range value {
			set["f:"+key] = fieldsIn(key, child, builtin, dots)
		}
	case []any:
		if len(value) == 0 {
			return set
		}
		if field == "finalizers" {
			for _, one := range value {
				set[fmt.Sprintf("v:%q", one)] = tree{}
			}
			return set
		}
		keys := listKeys(field, value, builtin)
		if keys == nil {
			return set
		}
		for _, one := range value {
			element, _ := one.(tree)
			if field == "ownerReferences" {
				set[keyOf(element, keys)] = tree{}
				continue
			}
			owned := fieldsIn("", element, builtin, dots)
			owned["."] = tree{}
			set[keyOf(element, keys)] = owned
		}
	}
	return set
}

func applyMap(target, body tree, builtin bool) {
	for key, value := range body {
		switch value := value.(type) {
		case tree:
			old, ok := target[key].(tree)
			if !ok || builtin && slices.Contains(atomicMaps, key) {
				target[key] = value
				continue
			}
			applyMap(old, value, builtin)
		case []any:
			old, _ := target[key].([]any)
			target[key] = applyList(key, old, value, builtin)
		default:
			target[key] = value
		}
	}
}

func applyList(field string, old, body []any, builtin bool) []any {
	if len(body) == 0 || len(old) == 0 {
		return body
	}
	if field == "finalizers" {
		for _, one := range body {
			if !slices.Contains(old, one) {
				old = append(old, one)
			}
		}
		return old
	}
	keys := listKeys(field, body, builtin)
	if keys == nil {
		return body
	}
	for _, one := range body {
		element, _ := one.(tree)
		at := slices.IndexFunc(old, func(other any) bool {
			have, _ := other.(tree)
			return keyOf(have, keys) == keyOf(element, keys)
		})
		if at < 0 {
			old = append(old, one)
		} else if have, ok := old[at].(tree); ok && field != "ownerReferences" {
			applyMap(have, element, builtin)
		} else {
			old[at] = one
		}
	}
	return old
}

// prune removes from target what was owned before, is not owned now, and is in nobody else's fields.
func prune(target tree, before, now tree, others []tree, builtin bool) {
	for path, owned := range before {
		name, ok := strings.CutPrefix(path, "f:")
		if !ok {
			continue
		}
		child, theirs := owned.(tree), descend(others, path)
		kept, still := now[path].(tree)
		if !still && len(theirs) == 0 {
			delete(target, name)
			continue
		}
		switch value := target[name].(type) {
		case tree:
			prune(value, child, kept, theirs, builtin)
		case []any:
			target[name] = pruneList(name, value, child, kept, theirs, builtin)
		}
	}
}

func pruneList(field string, list []any, before, now tree, others []tree, builtin bool) []any {
	if len(list) == 0 {
		return list
	}
	keys := listKeys(field, list, builtin)
	return slices.DeleteFunc(list, func(one any) bool {
		path := fmt.Sprintf("v:%q", one)
		element, isMap := one.(tree)
		if isMap && keys != nil {
			path = keyOf(element, keys)
		}
		owned, mine := before[path].(tree)
		if !mine {
			return false
		}
		kept, still := now[path].(tree)
		theirs := descend(others, path)
		if !still && len(theirs) == 0 {
			return true
		}
		if isMap {
			prune(element, owned, kept, theirs, builtin)
		}
		return false
	})
}

func descend(sets []tree, path string) (below []tree) {
	for _, set := range sets {
		if child, ok := set[path].(tree); ok {
			below = append(below, child)
		}
	}
	return below
}
