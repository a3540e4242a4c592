package view

import (
	"fmt"

	"github.com/rmqkit/rmqkit/provision"
)

// Applied is what an apply did, or what one would do.
type Applied struct {
	*provision.Report
	// Incomplete is true if an error ended it: some of the changes may not have been made.
	Incomplete bool `json:"incomplete,omitempty"`
}

func (a Applied) text(p *printer) {
	if a.Resumed {
		p.printf("An earlier apply was interrupted; this one completes it.\n")
	}
	step := ""
	for _, c := range a.Changes {
		if c.Step != step {
			step = c.Step
			p.printf("%s\n", p.in(bold, step))
		}
		p.printf("  %s\n", c)
	}
	for _, r := range a.Retired {
		p.printf("left alone: %s %q: %s\n", r.Kind, r.Name, r.Why)
	}
	for _, w := range a.Warnings {
		p.printf("%s %s\n", p.in(bold, "warning:"), w)
	}
	p.printf("%s\n", a.summary(p))
}

func (a Applied) summary(p *printer) string {
	where := fmt.Sprintf("vhost %q of RabbitMQ %s", a.VHost, a.BrokerVersion)
	changes := plural(len(a.Changes), "change")
	there := plural(a.Unchanged.Exchanges, "exchange") + " and " + plural(a.Unchanged.Queues, "queue")
	switch {
	case a.Incomplete:
		return p.in(red, "stopped") + ": some of these " + changes + " may have been made in " + where
	case !a.Changed():
		return p.in(green, "nothing to change") + ": " + there + " in " + where + " are as they should be"
	case a.DryRun:
		return p.in(green, "dry run") + ": " + changes + " to make in " + where + ", none made; " + there + " are as they should be"
	}
	return p.in(green, "done") + ": " + changes + " made in " + where + "; " + there + " were as they should be"
}
