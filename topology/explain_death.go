package topology

import "slices"

// DeathReason is why a message leaves a queue for its dead-letter exchange. The values are the broker's.
type DeathReason string

// The reasons.
const (
	DeathRejected      DeathReason = "rejected"
	DeathExpired       DeathReason = "expired"
	DeathMaxLen        DeathReason = "maxlen"
	DeathDeliveryLimit DeathReason = "delivery_limit"
)

// death is one entry of x-death.
type death struct {
	queue string
	// slots are the queues of which it was one, if that is all that is known.
	slots    []string
	reason   DeathReason
	exchange string
}

func (d death) same(o death) bool { return d.queue == o.queue && d.reason == o.reason }

// die returns the message as its queue dead-letters it to an exchange. Without a key it keeps
// its own.
func (m message) die(e death, exchange string, key *string, d dialect) message {
	e.exchange = m.exchange
	out := message{exchange: exchange, keys: m.keys, headers: m.headers, first: m.first, lastExchange: m.exchange}
	if len(m.deaths) == 0 {
		out.first = &e
	}
	out.deaths = record(m.deaths, e, d)
	if key == nil {
		return out
	}
	out.keys = []string{*key}
	if !d.containers {
		// 3.x drops CC with the keys it stands for; later versions keep the header, to no effect.
		out.headers = without(m.headers, headerCC)
	}
	return out
}

// record returns x-death after one more death.
func record(old []death, e death, d dialect) []death {
	rest := slices.Clone(old)
	if !d.containers && len(rest) > 1 {
		// RabbitMQ 3.x groups the older entries by a fold that turns them round, each time.
		slices.Reverse(rest)
	}
	if i := slices.IndexFunc(rest, e.same); i >= 0 {
		// The entry is counted up and keeps the exchange of its first time.
		e.exchange = rest[i].exchange
		rest = slices.Delete(rest, i, i+1)
	}
	return append([]death{e}, rest...)
}

// cycle returns the death for which the broker refuses to dead-letter the message into a queue, which it
// does silently, or nil: if the queue is in x-death and nothing was rejected from the last death back to
// that entry.
func (m message) cycle(queue string) *death {
	for i, e := range m.deaths {
		if e.reason == DeathRejected {
			return nil
		}
		if e.queue == queue || slices.Contains(e.slots, queue) {
			return &m.deaths[i]
		}
	}
	return nil
}

// visible returns the headers that a headers exchange sees.
func (m message) visible(d dialect) map[string]any {
	if len(m.deaths) == 0 {
		return m.headers
	}
	out := without(m.headers, "")
	if m.first != nil {
		out["x-first-death-queue"] = m.first.queue
		out["x-first-death-reason"] = string(m.first.reason)
		out["x-first-death-exchange"] = m.first.exchange
	}
	if !d.containers {
		out[headerDeath] = []any{}
		return out
	}
	out["x-last-death-queue"] = m.deaths[0].queue
	out["x-last-death-reason"] = string(m.deaths[0].reason)
	out["x-last-death-exchange"] = m.lastExchange
	return out
}

// without returns a copy of headers that lacks one.
func without(headers map[string]any, name string) map[string]any {
	out := make(map[string]any, len(headers)+6)
	for k, v := range headers {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// ownDeaths reads an x-death header that the publisher wrote. RabbitMQ 3.x takes it for its own.
func ownDeaths(v any) []death {
	entries, _ := v.([]any)
	var out []death
	for _, e := range entries {
		t, _ := e.(map[string]any)
		queue, ok := t["queue"].(string)
		reason, isReason := t["reason"].(string)
		if ok && isReason {
			out = append(out, death{queue: queue, reason: DeathReason(reason)})
		}
	}
	return out
}
