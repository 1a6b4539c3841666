package main

// watcher queues the events of one watch; its fields are guarded by the collection's lock.
type watcher struct {
	c            *collection
	namespace    string
	form         form
	queue, spare []byte
	pending      int // bytes queued or being written
	lags, ended  bool
	wake         chan struct{}
}

func (w *watcher) push(e event) {
	before := len(w.queue)
	w.queue = appendEvent(w.queue, e.kind, w.c.encoded(e.object, w.form), w.form)
	w.pending += len(w.queue) - before
	w.measure()
	w.signal()
}

// measure keeps count of the watchers that a load has to wait for.
func (w *watcher) measure() {
	if lags := int64(w.pending) > w.c.world.maxBehind.Load(); lags != w.lags {
		w.lags = lags
		if lags {
			w.c.lagging++
		} else {
			w.c.lagging--
		}
	}
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
	if written > 0 {
		w.pending -= written
		w.measure()
		w.c.room.Broadcast()
	}
	w.queue, w.spare = w.spare[:0], w.queue
	return w.spare, w.ended
}
