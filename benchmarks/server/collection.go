package main

import (
	"bytes"
	"sort"
	"strconv"
	"sync"
	"time"
)

const (
	historyBytes = 64 << 20 // events kept for watches that resume; older versions are answered with 410
	maxBehind    = 8 << 20  // bytes a watcher may lag before a load waits for it
)

// event is one line of a watch, encoded once for all watchers.
type event struct {
	version   uint64
	namespace string
	line      []byte
}

// collection holds the objects of one kind, their recent events and who watches them.
type collection struct {
	*kindInfo
	world *world

	mu       sync.Mutex
	sorted   []*object // by namespace and name, as etcd has them
	index    map[string]int
	history  []event
	histSize int
	oldest   uint64 // resuming from before this version is answered with 410
	watchers map[*watcher]struct{}
	room     *sync.Cond // a watcher caught up or left
}

func newCollection(w *world, k *kindInfo) *collection {
	c := &collection{kindInfo: k, world: w, index: map[string]int{}, watchers: map[*watcher]struct{}{}, oldest: firstVersion}
	c.room = sync.NewCond(&c.mu)
	return c
}

// reset replaces all objects and ends all watches.
func (c *collection) reset(count int, seed uint64) {
	var objects []*object
	if c.template != "" {
		objects = generate(c.kindInfo, count, seed)
	}
	sort.Slice(objects, func(i, j int) bool {
		a, b := objects[i], objects[j]
		return a.namespace < b.namespace || (a.namespace == b.namespace && a.name < b.name)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sorted, c.index = objects, make(map[string]int, len(objects))
	for i, o := range objects {
		c.index[o.namespace+"/"+o.name] = i
	}
	c.history, c.histSize, c.oldest = nil, 0, c.world.version.Add(1)
	for w := range c.watchers {
		w.end()
	}
	c.room.Broadcast()
}

// list is the page of objects from offset on, at most limit of them (0: all).
func (c *collection) list(namespace string, offset, limit int) (page []*object, total int, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.sorted
	if namespace != "" {
		from := sort.Search(len(all), func(i int) bool { return all[i].namespace >= namespace })
		to := sort.Search(len(all), func(i int) bool { return all[i].namespace > namespace })
		all = all[from:to]
	}
	offset = min(offset, len(all))
	end := len(all)
	if limit > 0 {
		end = min(end, offset+limit)
	}
	return append([]*object(nil), all[offset:end]...), len(all), c.world.version.Load()
}

func (c *collection) get(namespace, name string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.index[namespace+"/"+name]; ok {
		return c.sorted[i]
	}
	return nil
}

// create adds an object; false when its name is taken.
func (c *collection) create(o *object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := o.namespace + "/" + o.name
	if _, taken := c.index[key]; taken {
		return false
	}
	overwrite(o.raw, o.version, c.world.version.Add(1), 10)
	c.index[key] = len(c.sorted)
	c.sorted = append(c.sorted, o)
	c.publish("ADDED", o)
	return true
}

// change replaces an object by what edit makes of it, under a new version, and tells the watchers.
func (c *collection) change(namespace, name string, edit func(*object) (*object, error)) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.index[namespace+"/"+name]
	if !ok {
		return nil, errNotFound
	}
	next, err := edit(c.sorted[i])
	if err != nil || next == c.sorted[i] {
		return next, err
	}
	overwrite(next.raw, next.version, c.world.version.Add(1), 10)
	c.sorted[i] = next
	c.publish("MODIFIED", next)
	return next, nil
}

// touch makes one event of a load, waiting while a watcher is too far behind. False: the collection is empty.
func (c *collection) touch(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.someoneLags() {
		c.room.Wait()
	}
	if len(c.sorted) == 0 {
		return false
	}
	i %= len(c.sorted)
	c.sorted[i] = c.sorted[i].touched(c.world.version.Add(1), time.Now().UnixNano())
	c.publish("MODIFIED", c.sorted[i])
	return true
}

func (c *collection) someoneLags() bool {
	for w := range c.watchers {
		if w.pending > maxBehind {
			return true
		}
	}
	return false
}

func (c *collection) publish(kind string, o *object) {
	version, _ := strconv.ParseUint(string(o.raw[o.version:o.version+10]), 10, 64)
	e := event{version, o.namespace, eventLine(kind, o.raw)}
	c.history = append(c.history, e)
	c.histSize += len(e.line)
	for c.histSize > historyBytes {
		c.oldest = c.history[0].version
		c.histSize -= len(c.history[0].line)
		c.history = c.history[1:]
	}
	c.world.counters.events.Add(1)
	for w := range c.watchers {
		w.push(e)
	}
}

func eventLine(kind string, raw []byte) []byte {
	line := make([]byte, 0, len(raw)+32)
	line = append(line, `{"type":"`...)
	line = append(line, kind...)
	line = append(line, `","object":`...)
	line = append(line, raw...)
	return append(line, '}', '\n')
}

// watch registers a watcher. With initial, it also returns the objects to begin with, of the same instant.
func (c *collection) watch(namespace string, since uint64, initial bool) (w *watcher, objects []*object, at uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w = &watcher{c: c, namespace: namespace, wake: make(chan struct{}, 1)}
	at = c.world.version.Load()
	switch {
	case initial:
		for _, o := range c.sorted {
			if namespace == "" || o.namespace == namespace {
				objects = append(objects, o)
			}
		}
	case since > 0:
		if since < c.oldest {
			return nil, nil, 0, errExpired
		}
		from := sort.Search(len(c.history), func(i int) bool { return c.history[i].version > since })
		for _, e := range c.history[from:] {
			w.push(e)
		}
	}
	c.watchers[w] = struct{}{}
	return w, objects, at, nil
}

func (c *collection) unwatch(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, w)
	c.room.Broadcast()
}

// watcher queues the events of one watch; its fields are guarded by the collection's lock.
type watcher struct {
	c         *collection
	namespace string
	queue     bytes.Buffer
	spare     bytes.Buffer
	pending   int // bytes queued or being written
	ended     bool
	wake      chan struct{}
}

func (w *watcher) push(e event) {
	if w.namespace != "" && w.namespace != e.namespace {
		return
	}
	w.queue.Write(e.line)
	w.pending += len(e.line)
	w.signal()
}

func (w *watcher) end() {
	w.ended = true
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take hands over what is queued; written bytes of the last take no longer count as pending.
func (w *watcher) take(written int) (batch []byte, ended bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.pending -= written
	if written > 0 {
		w.c.room.Broadcast()
	}
	w.queue, w.spare = w.spare, w.queue
	w.queue.Reset()
	return w.spare.Bytes(), w.ended
}
