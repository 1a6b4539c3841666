package main

import "testing"

func BenchmarkGenerate(b *testing.B) {
	for _, plural := range []string{"widgets", "pods"} {
		b.Run(plural, func(b *testing.B) {
			k := newWorld().byPlural(plural).kindInfo
			for b.Loop() {
				generate(k, k.templates, 1000, 1, 0)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, f := range []form{asProtobuf, asMetaJSON, asMetaProtobuf} {
		c := newWorld().byPlural("pods")
		raw := generate(c.kindInfo, c.templates, 1, 1, 0)[0].raw
		b.Run(f.contentType(false)[0], func(b *testing.B) {
			for b.Loop() {
				if _, err := c.encode(raw, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTouch is the cost of an event until it waits in the queue of a watcher.
func BenchmarkTouch(b *testing.B) {
	c := newWorld().byPlural("widgets")
	c.reset(c.templates, 20_000, 1, 0)
	watcher, _, _, _ := c.watch("", 0, false, asJSON)
	written, i := 0, 0
	for b.Loop() {
		c.touch(i)
		if i++; i%64 == 0 {
			batch, _ := watcher.take(written)
			written = len(batch)
		}
	}
}
