package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// headerDeath is where the broker keeps the deaths of a message.
const headerDeath = "x-death"

// reasonRejected is the broker's word for a nack or reject without requeue.
const reasonRejected = "rejected"

// Death is one entry of the x-death header: all deaths of a message in one queue for one reason.
type Death struct {
	Queue  string
	Reason string
	// Exchange and RoutingKeys are those with which the message had come to Queue before the first of
	// these deaths.
	Exchange    string
	RoutingKeys []string
	// Count is how often it died so. Never negative.
	Count int64
	// Time is that of the first of these deaths, in whole seconds.
	Time time.Time
	// OriginalExpiration is the expiration property that the death removed, or "".
	OriginalExpiration string
}

// Deaths reads the x-death header of a message, nested tables being plain maps. The order of the
// result means nothing: RabbitMQ 3.10 shuffles it. A message that never died has none. Entries that
// are not as the broker writes them, which a publisher can cause, are left out and reported, each
// error naming the field.
func Deaths(headers map[string]any) ([]Death, error) {
	v := headers[headerDeath]
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s has type %T; expected an array of tables", headerDeath, v)
	}
	var (
		deaths []Death
		errs   []error
	)
	for i, e := range list {
		where := fmt.Sprintf("%s[%d]", headerDeath, i)
		table, ok := e.(map[string]any)
		if !ok {
			errs = append(errs, fmt.Errorf("%s has type %T; expected a table", where, e))
			continue
		}
		d, err := readDeath(table, where+".")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		deaths = append(deaths, d)
	}
	return deaths, errors.Join(errs...)
}

func readDeath(table map[string]any, where string) (Death, error) {
	f := fields{table: table, where: where}
	text := func(name string) string {
		s, found := f.text(name)
		if !found && table[name] == nil {
			f.missing(name)
		}
		return s
	}
	d := Death{Queue: text("queue"), Reason: text("reason"), Exchange: text("exchange")}
	d.RoutingKeys, _ = f.texts("routing-keys")
	d.OriginalExpiration, _ = f.text("original-expiration")
	count, found := f.integer("count")
	switch {
	case table["count"] == nil:
		f.missing("count")
	case found && count < 0:
		f.errs = append(f.errs, fmt.Errorf("%scount is %d; expected 0 or more", where, count))
	}
	d.Count = count
	switch t := table["time"].(type) {
	case nil:
	case time.Time:
		d.Time = t
	default:
		f.wrong("time", t, "a timestamp")
	}
	return d, f.err()
}

// Rejections returns how often the broker says that the message was rejected from the work queue. It
// is a cross-check only: a message that was moved by hand brings old deaths along, and a copy that a
// client published may have lost them. What decides is [Ladder.Attempt]. Entries that cannot be read
// do not count.
func (l Ladder) Rejections(headers map[string]any) int64 {
	deaths, _ := Deaths(headers)
	var n int64
	for _, d := range deaths {
		if d.Queue != l.Queue || d.Reason != reasonRejected {
			continue
		}
		if n > math.MaxInt64-d.Count {
			return math.MaxInt64
		}
		n += d.Count
	}
	return n
}

// rejected returns the entry of the work queue for rejections: the oldest, should a client have
// written several.
func (l Ladder) rejected(deaths []Death) (Death, bool) {
	var (
		out   Death
		found bool
	)
	for _, d := range deaths {
		if d.Queue != l.Queue || d.Reason != reasonRejected {
			continue
		}
		if !found || d.Time.Before(out.Time) {
			out, found = d, true
		}
	}
	return out, found
}
