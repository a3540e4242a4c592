package consumer

import (
	"fmt"
	"log/slog"
	"sync"
)

// state is what [Worker.Ready] tells. Its zero value is a worker that was not started.
type state struct {
	mu sync.Mutex
	// notConsuming and notPublishing say why not; "" if all is well.
	notConsuming, notPublishing string
	// level says how bad notConsuming is.
	level   slog.Level
	started bool
	// failing and waiting count the messages that are held since they cannot be parked, or since the
	// broker has not confirmed yet that they are; held says why.
	failing, waiting int
	held             string
	// changed is signalled when failing becomes 0 or more than 0.
	changed chan struct{}

	log          func(level slog.Level, msg string, err error)
	loggedReason string
	loggedOK     bool
}

// ready returns whether all is well, and if not why, and how bad that is.
func (s *state) ready() (ok bool, reason string, level slog.Level) {
	switch {
	case !s.started:
		return false, "not started", slog.LevelInfo
	case s.failing > 0:
		return false, "a dead letter is held, since it cannot be parked: " + s.held, slog.LevelError
	case s.notConsuming != "":
		return false, "not consuming: " + s.notConsuming, s.level
	case s.waiting > 0:
		return false, "a dead letter is held, since the broker does not confirm it: " + s.held, slog.LevelWarn
	case s.notPublishing != "":
		return false, "no connection to park dead letters: " + s.notPublishing, slog.LevelWarn
	}
	return true, "", slog.LevelInfo
}

// set changes the state, logs once if that changes what ready says, and tells whoever waits.
func (s *state) set(change func()) {
	s.mu.Lock()
	failing := s.failing > 0
	change()
	ok, reason, level := s.ready()
	news := ok != s.loggedOK || reason != s.loggedReason
	s.loggedOK, s.loggedReason = ok, reason
	changed := failing != (s.failing > 0)
	s.mu.Unlock()
	if changed {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	switch {
	case !news:
	case ok:
		s.log(level, "ready", nil)
	default:
		s.log(level, "not ready", fmt.Errorf("%s", reason))
	}
}

func (s *state) consuming(why string, level slog.Level) {
	s.set(func() { s.started, s.notConsuming, s.level = true, why, level })
}

func (s *state) publishing(why string) {
	s.set(func() { s.notPublishing = why })
}

// paused reports whether handlers must get no more messages.
func (s *state) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failing > 0
}

// hold is one message that waits for being parked.
type hold struct {
	s *state
	// kind is the counter of the state that it is in, or nil. Guarded by s.mu.
	kind *int
	// released says that it is over, so that a late timer changes nothing. Guarded by s.mu.
	released bool
}

// failing says that parking does not work.
func (h *hold) failing(why error) {
	h.s.set(func() { h.move(&h.s.failing, text(why)) })
}

// waiting says that parking takes long.
func (h *hold) waiting(why string) {
	h.s.set(func() {
		if h.kind == nil {
			h.move(&h.s.waiting, why)
		}
	})
}

// release says that the message is parked, or no longer waits.
func (h *hold) release() {
	h.s.set(func() {
		h.move(nil, "")
		h.released = true
	})
}

// move puts the hold under another counter. The caller holds s.mu.
func (h *hold) move(kind *int, why string) {
	if h.released {
		return
	}
	if h.kind != nil {
		*h.kind--
	}
	if h.kind = kind; kind != nil {
		*kind++
		h.s.held = why
	}
}

// Ready reports whether messages are being consumed and can be parked, and if not, why: text for a
// person. Safe for concurrent use.
func (w *Worker) Ready() (ok bool, reason string) {
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	ok, reason, _ = w.state.ready()
	return ok, reason
}
