package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
	"github.com/rmqkit/rmqkit/topology"
)

// trial is one question of the property test and what topology.Explain answers.
type trial struct {
	manifest topology.Manifest
	question topology.Question
	answer   *topology.Explanation
	// want is how many copies lie in each queue in the end, or were handled there.
	want map[string]int
}

// For random topologies with dead-lettering, each copy of a message that dies again and again, for any
// reason, ends where topology.Explain says: what it calls lost, discarded or a cycle is nowhere.
func TestDeathsAreTheBrokers(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		const seed, wanted = 11, 60
		t.Logf("seed %d", seed)
		g := gen{Rand: rand.New(rand.NewPCG(seed, 1))}
		var trials []trial
		fates := map[topology.Fate]int{}
		cycles, longest := 0, time.Duration(0)
		for i := 0; len(trials) < wanted; i++ {
			tr, ok := g.trial(fmt.Sprintf("t%d.", i), b.Version)
			if !ok {
				continue
			}
			trials = append(trials, tr)
			for _, end := range tr.answer.Ends() {
				fates[end.Fate]++
				longest = max(longest, end.After.Max)
			}
			cycles += countCycles(tr.answer.Copies)
		}
		t.Logf("ends by fate: %v; %d cycles; longest %v", fates, cycles, longest)
		url := b.VHost(t)
		handled := runTrials(t, url, trials)
		ch := brokertest.Dial(t, url)
		check := func() error { return compareTrials(ch, trials, handled) }
		eventually(t, longest+time.Minute, check)
		// Nothing comes after it.
		quiet(t, time.Second, make(chan int))
		if err := check(); err != nil {
			t.Error(err)
		}
	})
}

func countCycles(cs []topology.Copy) int {
	n := 0
	for _, c := range cs {
		if c.DeadLetter != nil {
			n += len(c.DeadLetter.Cycles)
		}
		n += countCycles(c.Next)
	}
	return n
}

// outcomes counts by queue what consumers have handled.
type outcomes struct {
	mu sync.Mutex
	n  map[string]int
}

func (h *outcomes) add(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n[queue]++
}

// runTrials declares the topologies, starts the consumers and publishes the messages.
func runTrials(t *testing.T, url string, trials []trial) *outcomes {
	t.Helper()
	handled := &outcomes{n: map[string]int{}}
	all := make([]topology.Manifest, len(trials))
	for i, tr := range trials {
		all[i] = tr.manifest
	}
	declareAll(t, url, all)
	ch := brokertest.Dial(t, url)
	for _, tr := range trials {
		q := tr.question
		if q.Reason != topology.DeathRejected && q.Reason != topology.DeathDeliveryLimit {
			continue
		}
		deliveries, err := ch.Consume(q.Queue, "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				fail(d, q, handled)
			}
		}()
	}
	out := brokertest.Dial(t, url)
	for _, tr := range trials {
		p := tr.question.Publish
		m := amqp.Publishing{Headers: rabbit.Table(p.Headers)}
		if e := tr.question.Expiration; e > 0 {
			m.Expiration = fmt.Sprint(e.Milliseconds())
		}
		if err := out.PublishWithContext(t.Context(), p.Exchange, p.RoutingKey, false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	return handled
}

// fail does with a delivery what the question is about. Each copy knows how often it was rejected here.
func fail(d amqp.Delivery, q topology.Question, handled *outcomes) {
	if q.Reason == topology.DeathDeliveryLimit {
		_ = d.Reject(true)
		return
	}
	list, _ := retry.Deaths(rabbit.Plain(d.Headers))
	before := int64(0)
	for _, x := range list {
		if x.Queue == q.Queue && x.Reason == string(topology.DeathRejected) {
			before += x.Count
		}
	}
	if before < int64(q.Failures) {
		_ = d.Nack(false, false)
		return
	}
	handled.add(q.Queue)
	_ = d.Ack(false)
}

// compareTrials returns the first trial that has not ended as it should.
func compareTrials(ch *amqp.Channel, trials []trial, handled *outcomes) error {
	handled.mu.Lock()
	defer handled.mu.Unlock()
	for _, tr := range trials {
		got := map[string]int{}
		for _, q := range tr.manifest.Queues {
			s, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			if n := s.Messages + handled.n[q.Name]; n > 0 {
				got[q.Name] = n
			}
		}
		if diff := cmp.Diff(tr.want, got); diff != "" {
			return fmt.Errorf("copies in queues in the end (-explained +broker):\n%s\nquestion %+v\n%sanswer %+v", diff, tr.question, dump(tr.manifest), tr.answer.Copies)
		}
	}
	return nil
}

// trial makes a random topology with dead-lettering and a question about it, and reports whether a broker
// can be asked it: that all comes to an end, soon and for certain.
func (g gen) trial(prefix, version string) (trial, bool) {
	tr := trial{want: map[string]int{}}
	tr.question = topology.Question{Version: version, Failures: topology.Always, Reason: pick(g, []topology.DeathReason{
		topology.DeathRejected, topology.DeathRejected, topology.DeathRejected, topology.DeathExpired, topology.DeathMaxLen, topology.DeathDeliveryLimit,
	})}
	tr.manifest = g.deathly(prefix, tr.question.Reason)
	tr.question.Queue = tr.manifest.Queues[0].Name
	if tr.question.Reason == topology.DeathRejected {
		tr.question.Failures = pick(g, []int{0, 1, 2, 3, 4, 5, topology.Always, topology.Always})
	} else if g.IntN(3) == 0 {
		tr.question.Expiration = 30 * time.Millisecond
	}
	tr.question.Publish = topology.Publish{Exchange: tr.manifest.Exchanges[0].Name, RoutingKey: pick(g, deathKeys)}
	if g.IntN(4) == 0 {
		tr.question.Publish.Headers = map[string]any{"CC": []any{pick(g, deathKeys)}}
	}
	var err error
	tr.answer, err = topology.Explain(tr.manifest, tr.question)
	if err != nil || len(tr.answer.Copies) == 0 || len(tr.answer.Copies[0].Next) == 0 && g.IntN(10) > 0 {
		return tr, false
	}
	for _, end := range tr.answer.Ends() {
		switch {
		case end.Fate == topology.FateRepeats, end.Fate == topology.FateCut, end.After.Max > 2*time.Second:
			return tr, false
		case end.Fate == topology.FateRests, end.Fate == topology.FateHandled:
			tr.want[end.Queue]++
		}
	}
	return tr, true
}

var deathKeys = []string{"a", "b", "c"}

// deathly makes a topology in which messages die: the first queue is that of the question.
func (g gen) deathly(prefix string, reason topology.DeathReason) topology.Manifest {
	var m topology.Manifest
	for i := range 1 + g.IntN(4) {
		x := topology.Exchange{
			Name: fmt.Sprintf("%sx%d", prefix, i), Type: pick(g, []string{"direct", "fanout", "headers", "headers", "topic"}), Arguments: map[string]any{},
		}
		if g.IntN(2) == 0 {
			x.Arguments["alternate-exchange"] = fmt.Sprintf("%sx%d", prefix, g.IntN(4))
		}
		m.Exchanges = append(m.Exchanges, x)
	}
	arguments := pick(g, []func(string) map[string]any{g.deathArguments, g.circleArguments})
	for i := range 2 + g.IntN(3) {
		m.Queues = append(m.Queues, topology.Queue{Name: fmt.Sprintf("%sq%d", prefix, i), Durable: true, Arguments: arguments(prefix)})
	}
	first := m.Queues[0].Arguments
	delete(first, "x-message-ttl")
	switch reason {
	case topology.DeathExpired:
		first["x-message-ttl"] = int64(20)
	case topology.DeathMaxLen:
		// A queue without room and without a consumer lets everything die at once.
		first["x-max-length"] = int64(0)
		delete(first, "x-overflow")
	case topology.DeathDeliveryLimit:
		first["x-queue-type"], first["x-delivery-limit"] = "quorum", int64(1)
	}
	for range 2 + g.IntN(4*len(m.Exchanges)) {
		x := pick(g, m.Exchanges)
		b := topology.Binding{Source: x.Name, DestinationKind: topology.ToQueue, Destination: pick(g, m.Queues).Name, RoutingKey: pick(g, deathKeys)}
		if g.IntN(6) == 0 {
			b.DestinationKind, b.Destination = topology.ToExchange, pick(g, m.Exchanges).Name
		}
		if x.Type == "headers" {
			b.Arguments = g.deathMatch(m)
		}
		m.Bindings = append(m.Bindings, b)
	}
	return m
}

func (g gen) deathArguments(prefix string) map[string]any {
	args := map[string]any{}
	if g.IntN(6) == 0 {
		args["x-queue-type"] = "quorum"
		if g.IntN(2) == 0 {
			args["x-dead-letter-strategy"], args["x-overflow"] = "at-least-once", "reject-publish"
		}
	}
	if g.IntN(3) > 0 {
		args["x-message-ttl"] = pick(g, []int64{0, 20, 40})
	}
	switch g.IntN(8) {
	case 0:
		delete(args, "x-dead-letter-strategy")
		return args
	case 1:
		args["x-dead-letter-exchange"] = ""
		args["x-dead-letter-routing-key"] = fmt.Sprintf("%sq%d", prefix, g.IntN(5))
		return args
	}
	args["x-dead-letter-exchange"] = fmt.Sprintf("%sx%d", prefix, g.IntN(4))
	if g.IntN(2) == 0 {
		args["x-dead-letter-routing-key"] = pick(g, deathKeys)
	}
	return args
}

// circleArguments make queues that lead to one another, so that most messages come round.
func (g gen) circleArguments(prefix string) map[string]any {
	args := map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": fmt.Sprintf("%sq%d", prefix, g.IntN(3))}
	if g.IntN(8) > 0 {
		args["x-message-ttl"] = pick(g, []int64{0, 20})
	}
	return args
}

// deathMatch makes the arguments of a headers binding that asks for deaths.
func (g gen) deathMatch(m topology.Manifest) map[string]any {
	args := map[string]any{"x-match": pick(g, []any{"all-with-x", "all-with-x", "any-with-x", "all"})}
	for _, which := range []string{"first", "last"} {
		if g.IntN(2) == 0 {
			args["x-"+which+"-death-reason"] = pick(g, []any{"rejected", "expired", "maxlen", "delivery_limit", nil})
		}
		if g.IntN(4) == 0 {
			args["x-"+which+"-death-queue"] = pick(g, m.Queues).Name
		}
		if g.IntN(5) == 0 {
			args["x-"+which+"-death-exchange"] = pick(g, m.Exchanges).Name
		}
	}
	switch g.IntN(8) {
	case 0:
		args["x-death"] = nil
	case 1:
		return map[string]any{"x-match": "any-with-x", "x-death": nil}
	case 2:
		return map[string]any{"x-match": "any-with-x", "CC": nil}
	}
	return args
}
