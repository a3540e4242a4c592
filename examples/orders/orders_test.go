package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/rmqkit/rmqkit/internal/brokertest"
	"github.com/rmqkit/rmqkit/retry"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// shortLadder writes the example topology with delays that a test has time for.
func shortLadder(t *testing.T) (file string, ladder retry.Ladder) {
	t.Helper()
	text, err := os.ReadFile("../../topology.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short := strings.Replace(string(text), "[2s, 8s, 30s]", "[200ms, 400ms, 800ms]", 1)
	if short == string(text) {
		t.Fatal("the example topology has other delays than this test thinks")
	}
	file = filepath.Join(t.TempDir(), "topology.yaml")
	if err := os.WriteFile(file, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	if ladder, err = readLadder(file); err != nil {
		t.Fatal(err)
	}
	return file, ladder
}

// buildProvision puts rmq-provision where the demo finds it.
func buildProvision(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../../cmd/rmq-provision").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestDemoTwiceOnOneBroker(t *testing.T) {
	buildProvision(t)
	file, ladder := shortLadder(t)
	t.Run("versions", func(t *testing.T) {
		brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
			url := b.VHost(t)
			for range 2 {
				var out strings.Builder
				if err := demo(t.Context(), &out, url, file, ladder); err != nil {
					t.Fatal(err)
				}
				checkTable(t, out.String())
			}
			var out strings.Builder
			for range 2 {
				out.Reset()
				if err := look(t.Context(), &out, url, ladder); err != nil {
					t.Fatal(err)
				}
			}
			if n := strings.Count(out.String(), "\n"); n != 1+2*5 {
				t.Errorf("look listed %d lines, want a header and 10 dead letters:\n%s", n, &out)
			}
		})
	})
}

// checkTable compares the table with what has to be in it: words of a line, without the times.
func checkTable(t *testing.T, table string) {
	t.Helper()
	want := []string{
		"published 29",
		"handled 24 20 at the first attempt, 4 after retries",
		"retried, tier 1 7 waited",
		"retried, tier 2 7 waited",
		"retried, tier 3 3 waited",
		"parked 5 in orders.fulfil.dlq",
		"exhausted 4 unknown pick \"unicorn\": out of stock",
		"exhausted 4 panic panic: runtime error",
		"permanent 1 unknown order without a customer",
		"malformed 1 deserialization decode the body as JSON",
	}
	words := strings.Join(strings.Fields(table), " ")
	for _, w := range want {
		if !strings.Contains(words, w) {
			t.Errorf("the table lacks %q:\n%s", w, table)
		}
	}
}

func TestPublishReportsWhatReachedNobody(t *testing.T) {
	t.Parallel()
	brokertest.EachVersion(t, func(t *testing.T, b *brokertest.Broker) {
		url := b.VHost(t)
		m, err := message(Order{ID: "1", Customer: "Ada"})
		if err != nil {
			t.Fatal(err)
		}
		if err := publish(t.Context(), url, []amqp.Publishing{m}); err == nil {
			t.Error("publish() to an exchange that does not exist succeeded")
		}
		if err := brokertest.Dial(t, url).ExchangeDeclare("orders", "topic", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		err = publish(t.Context(), url, []amqp.Publishing{m, m})
		if err == nil || !strings.Contains(err.Error(), "no queue is bound") {
			t.Errorf("publish() to an exchange without bindings: %v", err)
		}
	})
}

func TestAnUnknownCommandIsExplained(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"-topology", "../../topology.yaml", "dance"}); err == nil || !strings.Contains(err.Error(), "publish, work, look or demo") {
		t.Errorf("run() with an unknown command: %v", err)
	}
}
