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

const mismatching = `
version: 1
name: orders
exchanges:
  events: {type: topic}
queues:
  new: {}
  plain: {message_ttl: 2s, max_length: 10, overflow: reject-publish, type: classic}
  work:
    bind: [{exchange: events, key: a}]
    retry: {delays: [1s]}
`

// 406 on a changed argument is the most common reason why a service cannot start, and the broker names
// one of them at a time.
func TestMismatchesAreAllNamedAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		ch := brokertest.Dial(t, url)
		for name, args := range map[string]amqp.Table{
			"plain":    {"x-queue-type": "classic", "x-message-ttl": int32(1000), "x-max-length": int64(10), "x-expires": int64(3_600_000)},
			"work":     {"x-queue-type": "classic"},
			"work.dlq": {"x-queue-type": "quorum"},
			// A name that only we give, and somebody else did.
			"work.retry.1.1s": {"x-queue-type": "quorum", "x-message-ttl": int64(1000)},
		} {
			if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
		}
		if err := ch.ExchangeDeclare("events", "direct", true, true, false, false, amqp.Table{"alternate-exchange": "x"}); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, b, url)
		report, err := Apply(t.Context(), onVHost(url), parse(t, mismatching))
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || !errors.Is(err, ErrRefused) || report != nil {
			t.Fatalf("Apply() = %v, %v; want a *MismatchError", report, err)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("apply was refused and changed (-before +after):\n%s", diff)
		}
		got := map[string]bool{}
		for _, m := range mismatch.Mismatches {
			text, hint, _ := strings.Cut(m.String(), "; ")
			got[text] = true
			if hint == "" || m.Source.Line == 0 {
				t.Errorf("%v: no hint or no place", m)
			}
		}
		for _, want := range []string{
			`topology.yaml:5:18: exchange "events": type is "direct" on the broker, "topic" here`,
			`topology.yaml:5:3: exchange "events": auto_delete is true on the broker, false here`,
			`topology.yaml:5:3: exchange "events": alternate-exchange is "x" on the broker, not set here`,
			`topology.yaml:8:24: queue "plain": x-message-ttl is 1000 on the broker, 2000 here`,
			`topology.yaml:8:54: queue "plain": x-overflow is not set on the broker, "reject-publish" here`,
			`topology.yaml:8:3: queue "plain": x-expires is 3600000 on the broker, not set here`,
			`topology.yaml:9:3: queue "work": x-queue-type is "classic" on the broker, "quorum" here`,
			`topology.yaml:11:12: queue "work": x-dead-letter-exchange is not set on the broker, "work.retry" here`,
			`topology.yaml:11:12: queue "work.dlq": x-delivery-limit is not set on the broker, 1000000000 here`,
			`topology.yaml:11:22: queue "work.retry.1.1s": x-dead-letter-exchange is not set on the broker, "work.return" here`,
		} {
			if !got[want] {
				t.Errorf("not said: %s", want)
			}
		}
		if t.Failed() {
			t.Logf("%v", err)
		}
		for text := range got {
			if strings.Contains(text, `"new"`) || strings.Contains(text, "x-max-length") {
				t.Errorf("said without reason: %s", text)
			}
		}
	})
}

func TestADeadLetterQueueFromBefore4CanBeKept(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		ch := brokertest.Dial(t, url)
		if _, err := ch.QueueDeclare("q.dlq", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
		topo := parse(t, "version: 1\nname: orders\nqueues:\n  q: {retry: {delays: [1s]}}\n")
		_, err := Apply(t.Context(), onVHost(url), topo)
		if err == nil || !strings.Contains(err.Error(), `--apply-to queues 'keep-q.dlq' '^q\.dlq$' '{"delivery-limit":-1}'`) {
			t.Fatalf("Apply() error = %v; want the command that lifts the limit", err)
		}
		o := onVHost(url)
		o.KeepDeliveryLimit = true
		report, err := Apply(t.Context(), o, topo)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{`queue "q.dlq" keeps its x-delivery-limit, which is not set and not 1000000000`}
		if diff := gocmp.Diff(want, report.Warnings); diff != "" {
			t.Errorf("warnings mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestWhatStandsInTheWayIsSaid(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		other := brokertest.Dial(t, url)
		if _, err := other.QueueDeclare("taken", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, b, url)
		_, err := Apply(t.Context(), onVHost(url), parse(t, `
version: 1
name: orders
exchanges:
  elsewhere: {external: true}
queues:
  taken: {}
  q: {bind: [{exchange: elsewhere, key: a}, {exchange: amq.topic, key: a}]}
`))
		var refused *RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, ErrRefused) {
			t.Fatalf("Apply() error = %v; want a *RefusedError", err)
		}
		want := []string{
			`topology.yaml:7:3: queue "taken": it is exclusive to another connection`,
			`exchange "elsewhere" does not exist: it is used here but not declared here`,
		}
		if diff := gocmp.Diff(want, refused.Reasons); diff != "" {
			t.Errorf("reasons mismatch (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("apply was refused and changed (-before +after):\n%s", diff)
		}
	})
}

// The broker quotes names, and cuts what it says at 255 bytes.
func TestMismatchesOfQueuesWithAnyName(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		ch := brokertest.Dial(t, url)
		long := strings.Repeat("long", 60)
		text := "version: 1\nname: \"any/n%me é\"\nqueues:\n"
		for _, name := range []string{"é/世界", "it's 'a' for queue 'b'", ": received none but current is none", "a b%2F@#?", long} {
			if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "classic", "x-message-ttl": int64(1000), "x-max-length": int64(5)}); err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("  %q: {type: classic, message_ttl: 2s, max_length: 6}\n", name)
		}
		_, err := Apply(t.Context(), onVHost(url), parse(t, text))
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) {
			t.Fatalf("Apply() error = %v; want a *MismatchError", err)
		}
		found := map[string]string{}
		for _, m := range mismatch.Mismatches {
			found[m.Name] += m.Argument + " " + m.Current.Text + " " + string(m.Current.Type) + ", "
		}
		for name, got := range found {
			want := "x-max-length 5 integer, x-message-ttl 1000 integer, "
			if name == long {
				want = "x-max-length  unknown, "
			}
			if got != want && (name != long || got != "x-message-ttl  unknown, ") {
				t.Errorf("queue %q: found %q, want %q", name, got, want)
			}
		}
		if len(found) != 5 {
			t.Errorf("mismatches of %d queues, want 5:\n%v", len(found), err)
		}
	})
}
