package topology

import (
	"testing"
	"time"
)

// queue makes a queue of arguments in pairs.
func queue(name string, pairs ...any) Queue {
	q := Queue{Name: name, Durable: true, Arguments: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		q.Arguments[pairs[i].(string)] = pairs[i+1]
	}
	return q
}

// sure makes a queue that dead-letters at-least-once.
func sure(name string, pairs ...any) Queue {
	return queue(name, append(pairs, argQueueType, "quorum", argStrategy, atLeastOnce, argOverflow, rejectPublish)...)
}

const ms = time.Millisecond

func TestExplain_Fates(t *testing.T) {
	t.Parallel()
	toQ := Publish{RoutingKey: "q"}
	always := Question{Publish: toQ, Failures: Always}
	toName := func(dest string) []any { return []any{argDLX, "", argDLRK, dest} }
	for name, tt := range map[string]struct {
		queues   []Queue
		exchange string
		question Question
		// want3 is for 3.10 where it differs.
		want, want3 string
	}{
		"no queue":                       {nil, "", always, "[]", ""},
		"no dead-letter exchange":        {[]Queue{queue("q")}, "", always, "q#1/discarded", ""},
		"a dead-letter exchange missing": {[]Queue{queue("q", argDLX, "no")}, "", always, "q#1/lost", ""},
		"the same, at-least-once":        {[]Queue{sure("q", argDLX, "no")}, "", always, "q#1/held", ""},
		"at-least-once needs reject-publish": {
			[]Queue{queue("q", argDLX, "no", argQueueType, "quorum", argStrategy, atLeastOnce)}, "", always, "q#1/lost", "",
		},
		"at-least-once needs a quorum queue": {
			[]Queue{queue("q", argDLX, "no", argStrategy, atLeastOnce, argOverflow, rejectPublish)}, "", always, "q#1/lost", "",
		},
		"nothing bound": {[]Queue{queue("q", argDLX, "x")}, "exchange x fanout", always, "q#1/lost", ""},
		"the original key through the default exchange": {[]Queue{queue("q", argDLX, "")}, "", always, "q#1 → q#2 → q/repeats", ""},
		"round for ever": {
			[]Queue{queue("q", toName("d")...), queue("d", append(toName("q"), argMessageTTL, int64(10))...)},
			"", always,
			"q#1 → d → q@10ms#2 → d@10ms → q@20ms/repeats", "",
		},
		"a number of rounds": {
			[]Queue{queue("q", toName("d")...), queue("d", append(toName("q"), argMessageTTL, int64(10))...)},
			"",
			Question{Publish: toQ, Failures: 2},
			"q#1 → d → q@10ms#2 → d@10ms → q@20ms#3/handled", "",
		},
		"a cycle of a crash": {
			[]Queue{queue("q", append(toName("d"), argQueueType, "quorum", argDeliveryLimit, int64(3))...), queue("d", append(toName("q"), argMessageTTL, int64(10))...)},
			"",
			Question{Publish: toQ, Failures: Always, Reason: DeathDeliveryLimit},
			"q#1 → d/lost", "",
		},
		"a cycle of a TTL": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(5))...), queue("d", append(toName("q"), argMessageTTL, int64(10))...)},
			"",
			Question{Publish: toQ},
			"q → d@5ms/lost", "",
		},
		// After a rejection, RabbitMQ 3.x has turned the older deaths round.
		"two waits and a rejection": {
			[]Queue{
				queue("q", toName("d")...), queue("d", append(toName("e"), argMessageTTL, int64(10))...),
				queue("e", append(toName("q"), argMessageTTL, int64(10))...),
			},
			"",
			Question{Publish: toQ, Failures: 2},
			"q#1 → d → e@10ms → q@20ms#2 → d@20ms → e@30ms → q@40ms#3/handled", "q#1 → d → e@10ms → q@20ms#2 → d@20ms/lost",
		},
		"the message's own TTL is the shorter": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(50))...), queue("d")}, "", Question{Publish: toQ, Expiration: 7 * ms}, "q → d@7ms#1/handled", "",
		},
		"the message's own TTL is the longer, and gone after a death": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(5))...), queue("d")}, "", Question{Publish: toQ, Expiration: 7 * ms}, "q → d@5ms#1/handled", "",
		},
		"a TTL in the queue of the failing consumer does not come into it": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(5))...), queue("d")},
			"",
			Question{Publish: toQ, Failures: 1, Queue: "q"},
			"q#1 → d/rests", "",
		},
		"too long": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(5), argMaxLength, int64(1))...), queue("d")},
			"",
			Question{Publish: toQ, Failures: Always, Queue: "q", Reason: DeathMaxLen},
			"q#1 → d/rests", "",
		},
		"expired where the consumer is": {
			[]Queue{queue("q", append(toName("d"), argMessageTTL, int64(5))...), queue("d")},
			"",
			Question{Publish: toQ, Failures: Always, Queue: "q", Reason: DeathExpired},
			"q#1 → d@5ms/rests", "",
		},
		"a retention": {
			[]Queue{queue("q", toName("d")...), queue("d", argMessageTTL, int64(5))}, "", always, "q#1 → d/discarded", "",
		},
		"a stream": {[]Queue{queue("q", argQueueType, "stream")}, "", always, "q#1/rests", ""},
		"into a stream": {
			[]Queue{queue("q", toName("s")...), queue("s", argQueueType, "stream")}, "", always, "q#1 → s/rests", "q#1/lost",
		},
		"parted": {
			[]Queue{queue("q", argDLX, "x"), queue("a"), queue("b", append(toName("a"), argMessageTTL, int64(5))...)},
			"exchange x fanout\nbind x a\nbind x b", always, "q#1 → [a/rests, b → a@5ms/rests]", "",
		},
		"a cycle in one of two ways": {
			[]Queue{queue("q", argDLX, "x", argMessageTTL, int64(5)), queue("a")},
			"exchange x fanout\nbind x a\nbind x q",
			Question{Publish: toQ, Failures: 0},
			"q → a@5ms#1/handled", "",
		},
		"picked": {
			[]Queue{queue("q", argDLX, "x"), queue("a", argMessageTTL, int64(5)), queue("b", append(toName("q"), argMessageTTL, int64(5))...)},
			"exchange x x-random\nbind x a\nbind x b",
			Question{Publish: toQ, Failures: 1},
			"q#1 → [a?/discarded, b? → q@5ms#2/handled]", "",
		},
		"slots of one kind": {
			[]Queue{queue("q", argDLX, "x"), queue("a", append(toName("q"), argMessageTTL, int64(9))...), queue("b", append(toName("q"), argMessageTTL, int64(5))...)},
			"exchange x x-random\nbind x a\nbind x b",
			Question{Publish: toQ, Failures: 1},
			"q#1 → b(2) → q@5ms-9ms#2/handled", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Manifest{}
			if tt.exchange != "" {
				names := ""
				for _, q := range tt.queues {
					names += "queue " + q.Name + "\n"
				}
				m = sketch(t, names+tt.exchange)
			}
			m.Queues = tt.queues
			for _, version := range []string{"3.10", "4"} {
				tt.question.Version = version
				want := tt.want
				if tt.want3 != "" && version == "3.10" {
					want = tt.want3
				}
				e, err := Explain(m, tt.question)
				if err != nil {
					t.Fatal(err)
				}
				if got := path(e.Copies); got != want {
					t.Errorf("on %s:\n got %s\nwant %s", version, got, want)
				}
			}
		})
	}
}
