package provision

import (
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

// NoLockWait as [Options.LockWait] means one try for the lock.
const NoLockWait time.Duration = -1

// Options says how to reach the broker and how patient to be. Only Rabbit.URL is needed.
type Options struct {
	// Rabbit is the broker. Its VHost, where set, wins over the URL's and the topology's.
	Rabbit rabbit.Config
	// URLVHost lets the vhost of the URL win where the URL and the topology name different ones. Without
	// it that is refused.
	URLVHost bool
	// Wait is how long to wait for a broker that does not answer. Zero means one try.
	Wait time.Duration
	// LockWait is how long to wait while another apply of the same topology runs. Zero means 1 minute;
	// [NoLockWait] means one try.
	LockWait time.Duration
	// Channels is how many channels work at the same time. Zero means 8.
	Channels int
	// KeepDeliveryLimit leaves existing dead-letter queues alone that differ in x-delivery-limit only,
	// with a warning, instead of refusing. Meant for a broker whose policy sets delivery-limit to -1.
	KeepDeliveryLimit bool
	// AdoptLadders says, where there is no record of what was applied, that ladders that exist are those of
	// the topology. Without it that is refused: AMQP cannot list bindings, and with a forgotten one every
	// failure is copied.
	AdoptLadders bool
	// Logger hears that apply waits, and for what. Nil means silence.
	Logger *slog.Logger
	// Progress, if not nil, is called after each object or binding of a step is done, from one goroutine
	// at a time.
	Progress func(step string, done, total int)

	// hook, if not nil, is called before each thing that changes the broker; its error ends the run as
	// a crash there would. For tests.
	hook func(step string) error
	// done, if not nil, is called just before the connection, and with it the lock, is given up. For
	// tests.
	done func()
	// answer bounds every call to the broker. Zero means 30 s. For tests.
	answer time.Duration
}

func (o Options) withDefaults() Options {
	if o.LockWait == 0 {
		o.LockWait = time.Minute
	}
	if o.Channels <= 0 {
		o.Channels = 8
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if o.hook == nil {
		o.hook = func(string) error { return nil }
	}
	if o.done == nil {
		o.done = func() {}
	}
	if o.answer == 0 {
		o.answer = 30 * time.Second
	}
	if o.Rabbit.Name == "" {
		o.Rabbit.Name = "rmq-provision"
	}
	return o
}

// resolveVHost decides which vhost is meant. "/" is what a topology says that says nothing.
func resolveVHost(o Options, inFile string) (string, error) {
	inURL := urlVHost(o.Rabbit.URL)
	given := inFile != "" && inFile != "/"
	switch {
	case o.Rabbit.VHost != "":
		return o.Rabbit.VHost, nil
	case inURL == "" && !given:
		return "/", nil
	case inURL == "":
		return inFile, nil
	case !given, inURL == inFile, o.URLVHost:
		return inURL, nil
	}
	return "", refusef("the broker URL names vhost %q and the topology vhost %q: say with --vhost which one is meant", inURL, inFile)
}

// urlVHost returns the vhost that a broker URL names, or "" if it names none.
func urlVHost(brokerURL string) string {
	u, err := url.Parse(brokerURL)
	if err != nil {
		return "" // rabbit.Dial says so without quoting a password
	}
	return strings.TrimPrefix(u.Path, "/")
}
