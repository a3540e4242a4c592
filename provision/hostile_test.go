package provision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

const oneRoute = `
version: 1
name: NAME
exchanges:
  NAME.in: {type: topic}
queues:
  NAME.work: {bind: [{exchange: NAME.in, key: "#"}]}
`

// A record that somebody moved into the queue of another topology must not take the bindings of its own
// away.
func TestTheRecordOfAnotherTopologyIsNotActedOn(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		one, other := parse(t, strings.ReplaceAll(oneRoute, "NAME", "one")), parse(t, strings.ReplaceAll(oneRoute, "NAME", "other"))
		if _, err := Apply(t.Context(), onVHost(url), one); err != nil {
			t.Fatal(err)
		}
		if _, err := Apply(t.Context(), onVHost(url), other); err != nil {
			t.Fatal(err)
		}
		body, _, err := record{Serial: 90, Phase: phaseDone, Name: "other", Target: other.Expand()}.encode()
		if err != nil {
			t.Fatal(err)
		}
		ch := brokertest.Dial(t, url)
		moved := amqp.Publishing{Headers: amqp.Table{serialHeader: int64(90)}, Body: body}
		if err := ch.Publish(stateName("one"), "", true, false, moved); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, b, url)
		report, err := Apply(t.Context(), onVHost(url), one)
		if err != nil {
			t.Fatal(err)
		}
		if report.Changed() || len(report.Retired) > 0 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "another topology") {
			t.Errorf("Apply() = %+v; want no change and a warning", report)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("the broker has changed (-before +after):\n%s", diff)
		}
	})
}

// The broker takes an alternate exchange, a dead-letter exchange and a dead-letter routing key that lead
// nowhere, and then loses what goes there.
func TestWhatIsSentElsewhereMustExist(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := parse(t, `
version: 1
name: orders
exchanges:
  spill: {external: true}
  dead: {external: true}
  in: {type: topic, alternate_exchange: spill}
queues:
  a: {arguments: {x-dead-letter-exchange: dead}}
  b: {arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: elsewhere}}
  c: {arguments: {x-dead-letter-exchange: amq.fanout}}
`)
		_, err := Apply(t.Context(), onVHost(url), topo)
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Fatalf("Apply() error = %v; want a *RefusedError", err)
		}
		want := []string{
			`exchange "spill" does not exist: it is used here but not declared here`,
			`exchange "dead" does not exist: it is used here but not declared here`,
			`queue "elsewhere" does not exist: it is used here but not declared here`,
		}
		if diff := gocmp.Diff(want, refused.Reasons); diff != "" {
			t.Errorf("reasons mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestAQueueInThePlaceOfTheLockIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		if _, err := brokertest.Dial(t, url).QueueDeclare(lockName("one"), true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		_, err := Apply(t.Context(), onVHost(url), parse(t, strings.ReplaceAll(oneRoute, "NAME", "one")))
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "is no lock") {
			t.Errorf("Apply() error = %v; want a refusal", err)
		}
	})
}

func TestWhatToDoHalfWayIsWhatHelps(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		amqp.AccessRefused:      "give the user that right and apply again to complete it",
		amqp.PreconditionFailed: "the broker will say so again: correct that and apply again to complete it",
		amqp.ConnectionForced:   "apply again to complete it",
	} {
		if got := next(fmt.Errorf("create: %w", &amqp.Error{Code: code})); got != want {
			t.Errorf("next(%d) = %q, want %q", code, got, want)
		}
	}
}
