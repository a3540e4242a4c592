package consumer

import (
	"context"
	"errors"
)

// Worker consumes one work queue. See [New].
type Worker struct {
	cfg Config
}

// New checks a configuration, reports everything that is wrong with it, joined, and does no I/O.
func New(c Config) (*Worker, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Worker{cfg: c.withDefaults()}, nil
}

// Run consumes until ctx ends.
func (w *Worker) Run(ctx context.Context) error { return errors.New("in the making") }

// Ready reports whether messages are being consumed and can be parked; if not, why.
func (w *Worker) Ready() (ok bool, reason string) { return false, "in the making" }
