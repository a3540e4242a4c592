package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/rmqkit/rmqkit/retry"
)

// Verdict is what became of a delivery.
type Verdict string

// The verdicts.
const (
	// Acked: handled.
	Acked Verdict = "acked"
	// Retried: it failed and waits in the next tier.
	Retried Verdict = "retried"
	// Parked: it is in the dead-letter queue.
	Parked Verdict = "parked"
	// Discarded: the handler did not want it.
	Discarded Verdict = "discarded"
	// GivenBack: the worker stopped before it was handled, its handler was cut off, or consuming paused;
	// it is in the work queue again, and this was no attempt.
	GivenBack Verdict = "given_back"
	// Lost: its connection or channel was lost before it was settled, so the broker delivers it again,
	// whatever its handler returned.
	Lost Verdict = "lost"
)

// Settled says what became of one delivery. That an acknowledgement was sent is all that AMQP lets a
// consumer know: after a lost connection a message that was reported as acked or retried may come
// again. One that was reported as parked is in the DLQ.
type Settled struct {
	Queue     string
	MessageID string
	// Exchange and RoutingKey are where the message was first published.
	Exchange, RoutingKey string
	// Attempt is which handler call this was, from 1.
	Attempt int
	Verdict Verdict
	// Reason is why it was parked, or "".
	Reason retry.Reason
	// Category is the kind of failure, or "" if there was none.
	Category retry.Category
	// Delay is how long it waits in its tier; the nominal delay if the tier has jitter.
	Delay time.Duration
	// Duration is how long the handler ran; zero if it was not called.
	Duration time.Duration
	// Err is what the handler returned, or why there is no other outcome.
	Err error
	// DeadLetterID is the dlq.id of a parked message.
	DeadLetterID string
}

// report tells the log and the observer.
func (w *Worker) report(s Settled) {
	level := slog.LevelInfo
	switch {
	case s.Verdict == Lost:
		level = slog.LevelWarn
	case s.Err == nil:
		level = slog.LevelDebug
	}
	if w.cfg.Logger.Enabled(context.Background(), level) {
		attrs := []slog.Attr{
			slog.String("queue", s.Queue), slog.String("exchange", s.Exchange), slog.String("routing_key", s.RoutingKey),
			slog.String("message_id", s.MessageID), slog.Int("attempt", s.Attempt), slog.String("verdict", string(s.Verdict)),
		}
		if s.Reason != "" {
			attrs = append(attrs, slog.String("reason", string(s.Reason)))
		}
		if s.Verdict == Retried {
			attrs = append(attrs, slog.Int64("delay_ms", s.Delay.Milliseconds()))
		}
		if s.Err != nil {
			attrs = append(attrs, slog.String("err", text(s.Err)))
		}
		w.cfg.Logger.LogAttrs(context.Background(), level, "message settled", attrs...)
	}
	if w.cfg.Observe == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			w.log(slog.LevelError, "Observe panicked", &panicError{value: v})
		}
	}()
	w.cfg.Observe(s)
}

// log writes one line about the worker itself.
func (w *Worker) log(level slog.Level, msg string, err error) {
	attrs := []slog.Attr{slog.String("queue", w.cfg.Ladder.Queue)}
	if err != nil {
		attrs = append(attrs, slog.String("err", text(err)))
	}
	w.cfg.Logger.LogAttrs(context.Background(), level, msg, attrs...)
}
