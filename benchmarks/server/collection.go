package main

import (
	"sort"
	"strconv"
	"sync"
	"time"
)

const historyBytes = 64 << 20 // events kept for watches that resume; older versions are answered with 410

// event is a change of one object; it is encoded into a watcher's queue, in the form that the watcher asked for.
type event struct {
	version uint64
	kind    string
	object  *object
}

// slot is the place of one object in its collection; object is nil once it was deleted.
type slot struct{ object *object }

// collection holds the objects of one kind, their recent events and who watches them.
type collection struct {
	*kindInfo
	world *world

	mu       sync.Mutex
	slots    []*slot // by namespace and name, as etcd has them, unless untidy
	untidy   bool    // objects came or went since slots were sorted
	index    map[string]*slot
	history  []event
	histSize int
	oldest   uint64                           // resuming from before this version is answered with 410
	watchers map[string]map[*watcher]struct{} // by namespace; "" watches all
	lagging  int                              // watchers that are too far behind
	room     *sync.Cond                       // a watcher caught up or left

	accepted sync.Map // forms by asked: what clients ask for is always the same
}

func newCollection(w *world, k *kindInfo) *collection {
	c := &collection{kindInfo: k, world: w, index: map[string]*slot{}, watchers: map[string]map[*watcher]struct{}{}, oldest: firstVersion}
	c.room = sync.NewCond(&c.mu)
	return c
}

// reset replaces all objects and ends all watches.
func (c *collection) reset(from templates, count int, seed uint64, namespaces int) {
	c.replace(from, count, seed, namespaces)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eachWatcher(func(w *watcher) { w.end() })
	c.room.Broadcast()
}

// replace replaces all objects; who watches is told nothing.
func (c *collection) replace(from templates, count int, seed uint64, namespaces int) {
	var objects []*object
	if len(from) > 0 {
		objects = generate(c.kindInfo, from, count, seed, namespaces)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots, c.index = make([]*slot, len(objects)), make(map[string]*slot, len(objects))
	for i, o := range objects {
		c.slots[i] = &slot{o}
		c.index[o.key()] = c.slots[i]
	}
	c.untidy = true
	c.forget()
}

// expire ends all watches as the API server does when etcd has compacted what they would resume from.
func (c *collection) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	c.eachWatcher(func(w *watcher) {
		w.queue = appendGone(w.queue, w.form)
		w.end()
	})
}

// forget drops the history; the lock is held.
func (c *collection) forget() {
	c.history, c.histSize, c.oldest = nil, 0, c.world.version.Add(1)
}

// tidy sorts the objects and lets go of those that were deleted; the lock is held.
func (c *collection) tidy() []*slot {
	if !c.untidy {
		return c.slots
	}
	kept := c.slots[:0]
	for _, s := range c.slots {
		if s.object != nil {
			kept = append(kept, s)
		}
	}
	clear(c.slots[len(kept):])
	sort.Slice(kept, func(i, j int) bool {
		a, b := kept[i].object, kept[j].object
		return a.namespace < b.namespace || (a.namespace == b.namespace && a.name < b.name)
	})
	c.slots, c.untidy = kept, false
	return kept
}

// in is the part of the sorted objects that is in a namespace; the lock is held.
func (c *collection) in(namespace string) []*slot {
	all := c.tidy()
	if namespace == "" {
		return all
	}
	from := sort.Search(len(all), func(i int) bool { return all[i].object.namespace >= namespace })
	to := sort.Search(len(all), func(i int) bool { return all[i].object.namespace > namespace })
	return all[from:to]
}

// objects are those of the slots, encoded in a form; the lock is held.
func (c *collection) objects(slots []*slot, f form) []*encoding {
	encodings := make([]*encoding, len(slots))
	for i, s := range slots {
		encodings[i] = c.encoded(s.object, f)
	}
	return encodings
}

// list is the page of objects from offset on, at most limit of them (0: all).
func (c *collection) list(namespace string, offset, limit int, f form) (page []*encoding, total int, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.in(namespace)
	offset = min(offset, len(all))
	end := len(all)
	if limit > 0 {
		end = min(end, offset+limit)
	}
	return c.objects(all[offset:end], f), len(all), c.world.version.Load()
}

func (c *collection) get(namespace, name string, f form) *encoding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.index[namespace+"/"+name]; ok {
		return c.encoded(s.object, f)
	}
	return nil
}

// create adds an object; nil when its name is taken.
func (c *collection) create(o *object, f form) *encoding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.index[o.key()]; taken {
		return nil
	}
	s := &slot{o}
	c.index[o.key()], c.slots, c.untidy = s, append(c.slots, s), true
	c.publish("ADDED", o.renumbered(c.world.version.Add(1)))
	return c.encoded(o, f)
}

// change replaces an object by what edit makes of it, under a new version, and tells the watchers. An edit that
// returns the object itself changes nothing.
func (c *collection) change(namespace, name string, f form, edit func(*object) (*object, error)) (*encoding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.index[namespace+"/"+name]
	if !ok {
		return nil, errNotFound
	}
	next, err := edit(s.object)
	if err != nil {
		return nil, err
	}
	if next != s.object {
		s.object = next.renumbered(c.world.version.Add(1))
		c.publish("MODIFIED", next)
	}
	return c.encoded(next, f), nil
}

// remove deletes an object at once, whatever its finalizers say; nil when there is none.
func (c *collection) remove(namespace, name string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.index[namespace+"/"+name]
	if !ok {
		return nil
	}
	last := *s.object
	last.raw = append([]byte(nil), last.raw...)
	last.others = [forms]*encoding{}
	delete(c.index, last.key())
	s.object, c.untidy = nil, true
	c.publish("DELETED", last.renumbered(c.world.version.Add(1)))
	return &last
}

// touch makes one event of a load, waiting while a watcher is too far behind. False: the collection is empty.
func (c *collection) touch(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.lagging > 0 {
		c.room.Wait()
	}
	all := c.tidy()
	if len(all) == 0 {
		return false
	}
	s := all[i%len(all)]
	s.object = s.object.touched(c.world.version.Add(1), uint64(time.Now().UnixNano()))
	c.publish("MODIFIED", s.object)
	return true
}

// publish records an event and queues it for those who watch; the lock is held.
func (c *collection) publish(kind string, o *object) {
	version, _ := strconv.ParseUint(string(o.raw[o.version:o.version+10]), 10, 64)
	e := event{version, kind, o}
	c.history = append(c.history, e)
	c.histSize += len(o.raw)
	for c.histSize > historyBytes {
		c.oldest = c.history[0].version
		c.histSize -= len(c.history[0].object.raw)
		c.history[0] = event{}
		c.history = c.history[1:]
	}
	c.world.counters.events.Add(1)
	for w := range c.watchers[""] {
		w.push(e)
	}
	if o.namespace != "" {
		for w := range c.watchers[o.namespace] {
			w.push(e)
		}
	}
}

// watch registers a watcher. With initial, it also returns the objects to begin with, of the same instant.
func (c *collection) watch(namespace string, since uint64, initial bool, f form) (w *watcher, objects []*encoding, at uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w = &watcher{c: c, namespace: namespace, form: f, wake: make(chan struct{}, 1)}
	at = c.world.version.Load()
	switch {
	case initial:
		objects = c.objects(c.in(namespace), f)
	case since > 0:
		if since < c.oldest {
			return nil, nil, 0, errExpired
		}
		from := sort.Search(len(c.history), func(i int) bool { return c.history[i].version > since })
		for _, e := range c.history[from:] {
			if namespace == "" || namespace == e.object.namespace {
				w.push(e)
			}
		}
	}
	if c.watchers[namespace] == nil {
		c.watchers[namespace] = map[*watcher]struct{}{}
	}
	c.watchers[namespace][w] = struct{}{}
	return w, objects, at, nil
}

func (c *collection) eachWatcher(do func(*watcher)) {
	for _, group := range c.watchers {
		for w := range group {
			do(w)
		}
	}
}

func (c *collection) unwatch(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.watchers[w.namespace], w); len(c.watchers[w.namespace]) == 0 {
		delete(c.watchers, w.namespace)
	}
	w.pending = 0
	w.measure()
	c.room.Broadcast()
}
