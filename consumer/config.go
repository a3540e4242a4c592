package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// Defaults of [Config].
const (
	DefaultConcurrency    = 1
	DefaultHandlerTimeout = 5 * time.Minute
	DefaultCrashLimit     = 5
	DefaultDrainTimeout   = 25 * time.Second
)

const (
	// NoHandlerTimeout lets handlers run as long as they like. The broker does not: after 30 min
	// (RabbitMQ's default consumer timeout) it takes the message back and delivers it again.
	NoHandlerTimeout time.Duration = -1
	// NoCrashLimit lets a message that kills its workers come back for ever.
	NoCrashLimit = math.MaxInt
	// MaxPrefetch is the largest prefetch that AMQP can say.
	MaxPrefetch = math.MaxUint16
)

const maxName = 128

// Config says what a [Worker] consumes and how. URL, Ladder and Handler are required; the zero value
// of everything else is the safe choice.
type Config struct {
	// URL is the broker's: amqp:// or amqps://, with user and vhost.
	URL string
	// VHost replaces the vhost of URL where it is not empty.
	VHost string
	// CAFile is a PEM file with the authorities to trust instead of the system's. For amqps only.
	CAFile string
	// CertFile and KeyFile are PEM files with a client certificate. Both or neither; for amqps only.
	CertFile, KeyFile string

	// Ladder is the retry ladder of the work queue, as topology.Topology.Ladder returns it.
	Ladder retry.Ladder
	// Handler handles one message.
	Handler Handler

	// Concurrency is how many handlers run at the same time, those included that still run for a
	// connection that was lost. Zero means 1: in order, one after the other.
	Concurrency int
	// Prefetch is how many messages the broker hands out ahead of their acknowledgement, at least
	// Concurrency. Zero means Concurrency: nothing waits in the worker, so that a crash of the process
	// or a shutdown touches only messages that handlers had. Raise it where handlers are much faster
	// than a round trip to the broker.
	Prefetch int
	// HandlerTimeout ends the handler's context; what the handler returns then has category "timeout".
	// Zero means 5 min; see [NoHandlerTimeout].
	HandlerTimeout time.Duration
	// CrashLimit is how often the processes that had a message may die before it is parked, unseen,
	// with reason "crashed". Only quorum queues count; before RabbitMQ 4.3 they also count each time a
	// message was given back, and on 4.0 to 4.2 one more is needed for each attempt before. Zero means 5;
	// see [NoCrashLimit].
	CrashLimit int
	// DrainTimeout bounds how long handlers may go on after the context of [Worker.Run] has ended. Zero
	// means 25 s.
	DrainTimeout time.Duration

	// Name and Version say who consumes, and which build: in the broker's tools and on parked messages.
	// Empty means the work queue's name, and no version.
	Name, Version string
	// Logger is for what the worker does. Nil means no log.
	Logger *slog.Logger
	// Observe is called once for every delivery that a handler had, that was parked unseen or that was
	// given back, with what became of it. It is called from the handlers' goroutines, so it must be
	// quick and safe for concurrent use. Nil is allowed.
	Observe func(Settled)
}

// broker returns what the connection for a purpose needs.
func (c Config) broker(purpose string) rabbit.Config {
	return rabbit.Config{
		URL: c.URL, VHost: c.VHost, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile,
		Name: c.Name + " (" + purpose + ")",
	}
}

// withDefaults returns c with every zero value replaced by what it means.
func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Prefetch == 0 {
		c.Prefetch = c.Concurrency
	}
	if c.HandlerTimeout == 0 {
		c.HandlerTimeout = DefaultHandlerTimeout
	}
	if c.CrashLimit == 0 {
		c.CrashLimit = DefaultCrashLimit
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.Name == "" {
		c.Name = c.Ladder.Queue
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check reports everything that is wrong with a Config as it was given.
func (c Config) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := c.broker("consume").Check(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Ladder.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Handler == nil {
		wrong("Handler is nil; expected a function")
	}
	if c.Concurrency < 0 || c.Concurrency > MaxPrefetch {
		wrong("Concurrency is %d; expected 1 to %d, or 0 for %d", c.Concurrency, MaxPrefetch, DefaultConcurrency)
	}
	switch {
	case c.Prefetch < 0 || c.Prefetch > MaxPrefetch:
		// amqp091-go 1.16 sends the low 16 bits only: 65536 would be 0, which is no limit at all.
		wrong("Prefetch is %d; expected 1 to %d, or 0 for Concurrency", c.Prefetch, MaxPrefetch)
	case c.Prefetch > 0 && c.Prefetch < c.Concurrency && c.Concurrency <= MaxPrefetch:
		wrong("Prefetch is %d, less than Concurrency %d: some handlers would never have work", c.Prefetch, c.Concurrency)
	}
	if c.HandlerTimeout < 0 && c.HandlerTimeout != NoHandlerTimeout {
		wrong("HandlerTimeout is %v; expected a duration, 0 for %v, or NoHandlerTimeout", c.HandlerTimeout, DefaultHandlerTimeout)
	}
	if c.CrashLimit < 0 {
		wrong("CrashLimit is %d; expected 1 or more, 0 for %d, or NoCrashLimit", c.CrashLimit, DefaultCrashLimit)
	}
	if c.DrainTimeout < 0 {
		wrong("DrainTimeout is %v; expected a duration, or 0 for %v", c.DrainTimeout, DefaultDrainTimeout)
	}
	for _, f := range []struct{ name, value string }{{"Name", c.Name}, {"Version", c.Version}} {
		if len(f.value) > maxName {
			wrong("%s has %d bytes; expected at most %d", f.name, len(f.value), maxName)
		}
	}
	return errors.Join(errs...)
}
