package consumer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rmqkit/rmqkit/consumer"
	"github.com/rmqkit/rmqkit/retry"
)

func nothing(context.Context, *consumer.Message) error { return nil }

func TestNewReportsEveryMistake(t *testing.T) {
	t.Parallel()
	good := consumer.Config{URL: "amqp://localhost", Ladder: retry.Ladder{Queue: "q"}, Handler: nothing}
	if _, err := consumer.New(good); err != nil {
		t.Fatalf("New() = %v", err)
	}
	for want, change := range map[string]func(*consumer.Config){
		"not a broker URL":                     func(c *consumer.Config) { c.URL = "http://u:secret@h" },
		"certificates are given":               func(c *consumer.Config) { c.CAFile = "x" },
		"ladder has no queue":                  func(c *consumer.Config) { c.Ladder.Queue = "" },
		"17 tiers":                             func(c *consumer.Config) { c.Ladder.Tiers = make([]retry.Tier, 17) },
		"Handler is nil":                       func(c *consumer.Config) { c.Handler = nil },
		"Concurrency is -1":                    func(c *consumer.Config) { c.Concurrency = -1 },
		"Concurrency is 65536":                 func(c *consumer.Config) { c.Concurrency = 65536 },
		"Prefetch is -1":                       func(c *consumer.Config) { c.Prefetch = -1 },
		"Prefetch is 65536":                    func(c *consumer.Config) { c.Prefetch = 65536 },
		"Prefetch is 2, less than Concurrency": func(c *consumer.Config) { c.Prefetch, c.Concurrency = 2, 3 },
		"HandlerTimeout is -2ns":               func(c *consumer.Config) { c.HandlerTimeout = -2 },
		"CrashLimit is -1":                     func(c *consumer.Config) { c.CrashLimit = -1 },
		"DrainTimeout is -1s":                  func(c *consumer.Config) { c.DrainTimeout = -time.Second },
		"Name has 129 bytes":                   func(c *consumer.Config) { c.Name = strings.Repeat("n", 129) },
		"Version has 129 bytes":                func(c *consumer.Config) { c.Version = strings.Repeat("n", 129) },
	} {
		c := good
		change(&c)
		if _, err := consumer.New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("New() = %v, want %q", err, want)
		}
	}
	_, err := consumer.New(consumer.Config{Concurrency: -1, Prefetch: -1})
	if err == nil {
		t.Fatal("New() takes nothing at all")
	}
	for _, want := range []string{"URL", "queue", "Handler", "Concurrency", "Prefetch"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() does not speak of %s: %v", want, err)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	type inner struct{ A int }
	for name, row := range map[string]struct {
		body string
		bad  string
	}{
		"a value":                    {`{"A":1,"other":2}`, ""},
		"with spaces":                {" {} \n", ""},
		"nothing":                    {"", "unexpected end"},
		"half a value":               {`{"A":`, "unexpected end"},
		"two values":                 {`{}{}`, "after top-level value"},
		"another type":               {`{"A":"1"}`, "cannot unmarshal string"},
		"null":                       {" null ", "null"},
		"not UTF-8":                  {"{\"A\":1,\"b\":\"\xff\"}", "not UTF-8"},
		"a number that is too large": {`{"A":1e40}`, "cannot unmarshal"},
		"deep nesting":               {strings.Repeat("[", 1<<20), "exceeded max depth"},
	} {
		called := false
		h := consumer.JSON(func(_ context.Context, v inner, _ *consumer.Message) error { called = true; return nil })
		err := h(t.Context(), &consumer.Message{Body: []byte(row.body)})
		if called != (row.bad == "") || (err == nil) != called {
			t.Errorf("%s: called %v, %v", name, called, err)
		}
		if err == nil {
			continue
		}
		o := consumer.Decide(err, 1, []retry.Tier{{Delay: time.Second}}, false)
		if o.Verdict != consumer.Parked || o.Reason != retry.ReasonMalformed || !strings.Contains(err.Error(), row.bad) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if err := consumer.JSON(func(_ context.Context, v *inner, _ *consumer.Message) error {
		if v != nil {
			t.Error("null is not nil")
		}
		return nil
	})(t.Context(), &consumer.Message{Body: []byte("null")}); err != nil {
		t.Errorf("null into a pointer: %v", err)
	}
}
