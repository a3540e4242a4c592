package provision

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rmqkit/rmqkit/internal/brokertest"
)

// Under an alarm the broker takes no messages and stops to read what published one: a record cannot be
// written then, and nothing may be changed without.
func TestUnderAnAlarmNothingIsChanged(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts brokers")
	}
	brokertest.EachPrivate(t, brokertest.PrivateOptions{}, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		topo := parse(t, typed(orders, "quorum"))
		if _, err := Apply(t.Context(), onVHost(url), topo); err != nil {
			t.Fatal(err)
		}
		changed := parse(t, strings.ReplaceAll(typed(orders, "quorum"), "400ms", "500ms"))
		before := snapshot(t, b, url)
		b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.00001")
		o := onVHost(url)
		o.answer = 2 * time.Second
		_, err := Apply(t.Context(), o, changed)
		oneLine(t, err, stepIntent, "under a memory or disk alarm", "apply again")
		b.Exec(t, "rabbitmqctl", "set_vm_memory_high_watermark", "0.6")
		if diff := gocmp.Diff(before, snapshot(t, b, url)); diff != "" {
			t.Errorf("apply could not write its record and changed (-before +after):\n%s", diff)
		}
		if _, err := Apply(t.Context(), onVHost(url), changed); err != nil {
			t.Error(err)
		}
		if again, err := Preview(t.Context(), onVHost(url), changed); err != nil || again.Changed() {
			t.Errorf("Preview() after that = %+v, %v; want no changes", again, err)
		}
	})
}
