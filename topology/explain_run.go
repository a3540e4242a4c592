package topology

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxCopies bounds an answer: where a failure forks, copies multiply.
const maxCopies = 4096

// Explain follows each copy of a message: from the exchange into queues, and from there, as it fails,
// expires and comes back, to where it ends. It does no I/O, and its answer is the same for the same
// question.
func (r *Router) Explain(q Question) (*Explanation, error) {
	q, err := r.check(q)
	if err != nil {
		return nil, err
	}
	d, err := dialectOf(q.Version)
	if err != nil {
		return nil, err
	}
	m, err := r.accept(q.Publish, d)
	if err != nil {
		return nil, err
	}
	routing, err := r.route(m, d)
	if err != nil {
		return nil, err
	}
	f := follower{Router: r, Question: q, dialect: d, apart: map[string]bool{}}
	e := &Explanation{FormatVersion: 1, Question: q, ExpirationMS: q.Expiration.Milliseconds(), MayReachNone: routing.MayReachNone}
	if q.Failures != Always {
		e.FailureCount = &q.Failures
	}
	for err = errApart; errors.Is(err, errApart); {
		f.left, f.seen, f.weak, f.notes = maxCopies, map[string]Span{}, map[string]bool{}, nil
		f.note(routing.Notes...)
		e.Copies, err = f.arrive(routing.Targets, state{message: m, expiration: q.Expiration})
	}
	if err != nil {
		return nil, err
	}
	e.Notes = f.conclude()
	return e, nil
}

// follower follows the copies of one message.
type follower struct {
	*Router
	Question
	dialect dialect
	// apart are queues that must not be taken for slots of one tier.
	apart map[string]bool
	// left is how many more copies the answer may have.
	left int
	// seen is when the copy that is followed was in which queue in which state.
	seen map[string]Span
	// failed says that the consumer that fails was met.
	failed bool
	// weak are the queues from which dead-lettering is at-most-once.
	weak  map[string]bool
	notes []string
}

func (f *follower) note(notes ...string) {
	for _, n := range notes {
		if !slices.Contains(f.notes, n) {
			f.notes = append(f.notes, n)
		}
	}
}

// conclude returns the notes.
func (f *follower) conclude() []string {
	if f.Queue != "" && !f.failed {
		f.note(fmt.Sprintf("the message does not come to queue %q", f.Queue))
	}
	if len(f.weak) > 0 {
		f.note(fmt.Sprintf("a broker that stops at the wrong moment loses what dies in %s: at-most-once",
			oneOf(slices.Sorted(maps.Keys(f.weak)))))
	}
	return f.notes
}

// state is one copy on its way.
type state struct {
	message
	after Span
	// expiration is the message's own TTL, which its first death takes away.
	expiration time.Duration
	// consumer is the queue where handling fails, once it is known.
	consumer string
	failures int
}

// arrive puts the copies of one routing into their queues.
func (f *follower) arrive(targets []Target, s state) ([]Copy, error) {
	out := make([]Copy, 0, len(targets))
	for _, group := range f.slots(targets) {
		c := Copy{
			Queue: group[0].Queue, OneOf: group[0].OneOf, Exchange: s.exchange, RoutingKeys: s.keys, Via: group[0].Via, After: s.after,
		}
		if len(group) > 1 {
			for _, t := range group {
				c.Slots = append(c.Slots, t.Queue)
			}
			c.Picker, c.OneOf = group[0].OneOf[0], nil
		}
		if err := f.stay(&c, s); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// slots puts those targets together that differ in nothing but their TTL and between which one exchange
// picks, so that an answer has one copy for a tier and not one for each slot.
func (f *follower) slots(targets []Target) [][]Target {
	var out [][]Target
	byPicker := map[string][]Target{}
	for _, t := range targets {
		if len(t.OneOf) == 1 && len(f.bindings[t.OneOf[0]]) > 1 && f.isSlot(t) {
			byPicker[t.OneOf[0]] = append(byPicker[t.OneOf[0]], t)
		} else {
			out = append(out, []Target{t})
		}
	}
	for _, picker := range slices.Sorted(maps.Keys(byPicker)) {
		group := byPicker[picker]
		alike := len(group) == len(f.bindings[picker])
		for _, t := range group {
			alike = alike && f.alike(group[0].Queue, t.Queue)
		}
		if alike {
			slices.SortStableFunc(group, func(a, b Target) int { return cmp.Compare(f.ttlOf(a.Queue), f.ttlOf(b.Queue)) })
			out = append(out, group)
			continue
		}
		for _, t := range group {
			out = append(out, []Target{t})
		}
	}
	return out
}

// isSlot reports whether nothing but the TTL of a target can matter: it is bound to what picks, nobody
// fails there and no headers binding asks for its name.
func (f *follower) isSlot(t Target) bool {
	return f.hasTTL(t.Queue) && t.Queue != f.Queue && !f.named[t.Queue] && !f.apart[t.Queue] && t.Via[len(t.Via)-1].Exchange == t.OneOf[0]
}

func (f *follower) alike(a, b string) bool {
	x, y := without(f.queues[a].Arguments, argMessageTTL), without(f.queues[b].Arguments, argMessageTTL)
	return maps.EqualFunc(x, y, func(a, b any) bool { return f.dialect.equal(a, b) })
}

func (f *follower) hasTTL(queue string) bool {
	_, ok := f.queues[queue].Arguments[argMessageTTL].(int64)
	return ok
}

func (f *follower) ttlOf(queue string) time.Duration {
	ms, _ := f.queues[queue].Arguments[argMessageTTL].(int64)
	return time.Duration(ms) * time.Millisecond
}

// stay decides what becomes of a copy in its queue.
func (f *follower) stay(c *Copy, s state) error {
	if f.left--; f.left < 0 {
		c.Fate, c.Note = FateCut, fmt.Sprintf("there are more than %d copies", maxCopies)
		return nil
	}
	key := f.key(c, s)
	if before, ok := f.seen[key]; ok {
		// It was here before, and what followed follows again, for ever.
		period := c.After.minus(before)
		c.Fate, c.Period = FateRepeats, &period
		return nil
	}
	f.seen[key] = c.After
	defer delete(f.seen, key)
	ttl, expires := f.expiry(c, s)
	if s.consumer == "" && (f.Queue == c.Queue || f.Queue == "" && !f.hasTTL(c.Queue)) {
		s.consumer = c.Queue
		f.failed = true
	}
	stream := f.isStream(c.Queue)
	// Whoever asks about a TTL of the message and names no queue wants to know what happens if it runs out.
	if s.consumer == c.Queue && (f.Queue != "" || s.expiration == 0) {
		c.Attempt = s.failures + 1
		switch {
		case s.failures >= f.Failures:
			c.Fate = FateHandled
			return nil
		case stream:
			c.Fate, c.Note = FateRests, "a stream keeps what its consumers refuse"
			return nil
		}
		if err := f.canDie(c.Queue, s); err != nil {
			return err
		}
		s.failures++
		wait := Span{}
		if f.Reason == DeathExpired {
			wait = ttl
		}
		return f.die(c, s, f.Reason, wait)
	}
	if !expires || stream {
		c.Fate = FateRests
		return nil
	}
	return f.die(c, s, DeathExpired, ttl)
}

// key spells all that decides what becomes of a copy.
func (f *follower) key(c *Copy, s state) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%q %q %q %q %q %v", c.Queue, s.exchange, s.keys, s.lastExchange, s.consumer, s.expiration)
	for _, e := range s.deaths {
		fmt.Fprintf(&key, " %q %q", e.queue, e.reason)
	}
	if f.Failures != Always {
		fmt.Fprintf(&key, " %d", s.failures)
	}
	return key.String()
}

// expiry returns how long the copy can be in its queue, if the queue or the message has a TTL.
func (f *follower) expiry(c *Copy, s state) (Span, bool) {
	queues := c.Slots
	if len(queues) == 0 {
		queues = []string{c.Queue}
	}
	span, some := Span{Min: 1<<63 - 1}, false
	for _, q := range queues {
		ttl, has := f.ttlOf(q), f.hasTTL(q)
		if s.expiration > 0 && (!has || s.expiration < ttl) {
			ttl, has = s.expiration, true
		}
		if has {
			span, some = Span{min(span.Min, ttl), max(span.Max, ttl)}, true
		}
	}
	if !some {
		return Span{}, false
	}
	return span, true
}
