package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidwall/gjson"
)

func TestAFlatMergeIsWhatRFC7386Says(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []any{"a", `quoted " and ünicode`, 1.0, 2.5, true, false, nil, tree{"deep": 1.0}, []any{1.0, "x"}}
	some := func(most int) tree {
		made := tree{}
		for range rng.IntN(8) {
			made[fmt.Sprintf("field\"%d", rng.IntN(8))] = values[rng.IntN(most)]
		}
		return made
	}
	flat := 0
	for range 2000 {
		target, patch := some(len(values)), some(len(values)-rng.IntN(3))
		for key, value := range target {
			if value == nil { // which no object that was merged has
				delete(target, key)
			}
		}
		now, _ := json.Marshal(target)
		change, _ := json.Marshal(patch)
		merged, ok := mergeFlat(gjson.ParseBytes(now), gjson.ParseBytes(change))
		if !ok {
			continue
		}
		flat++
		if want, _ := json.Marshal(merge(target, patch)); string(merged) != string(want) {
			t.Fatalf("%s with %s is %s, wanted %s", now, change, merged, want)
		}
	}
	if flat < 500 {
		t.Errorf("only %d patches were flat", flat)
	}
}

func TestAPatchThatIsNoObjectIsRefused(t *testing.T) {
	w := newWorld()
	c := w.byPlural("widgets")
	c.reset(c.templates, 1, 1, 0)
	for _, body := range []string{"", "{", "[]", "null", `"text"`, `{"status":}`} {
		if _, err := c.mergeInto(c.slots[0].object, []byte(body)); err == nil {
			t.Errorf("took %q", body)
		}
	}
	old := c.slots[0].object
	if _, err := c.mergeInto(old, []byte(`{"metadata":{"resourceVersion":"1"},"status":{"phase":"Busy"}}`)); err != errConflict {
		t.Errorf("an old version: %v", err)
	}
	if next, err := c.mergeInto(old, []byte(`{"metadata":{"name":"`+old.name+`"},"status":null}`)); err != nil || gjson.GetBytes(next.raw, "status").Exists() {
		t.Errorf("a status of null: %v", err)
	}
}
