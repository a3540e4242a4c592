package retry

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Failure is the evidence on a parked message.
type Failure struct {
	// ID is the unique id of this parking; see [NewID].
	ID string
	// SourceQueue is where it failed; SourceExchange and SourceRoutingKey are where it was first
	// published.
	SourceQueue      string
	SourceExchange   string
	SourceRoutingKey string
	// OriginUnknown says that nothing tells SourceExchange and SourceRoutingKey: an empty exchange is
	// otherwise the default exchange.
	OriginUnknown bool
	// ConsumerName and ConsumerVersion are who gave up, and which build.
	ConsumerName    string
	ConsumerVersion string
	// Attempts is the number of handler calls.
	Attempts int64
	// FirstFailure and LastFailure have milliseconds; zero is unknown.
	FirstFailure time.Time
	LastFailure  time.Time
	Category     Category
	// Class is the Go type of the innermost error, Message its text, Stack that of a panic.
	Class   string
	Message string
	Stack   string
	Reason  Reason
	// UserID and Expiration are properties that a parked message cannot keep: the broker refuses
	// another user's name, and an expiration would empty the DLQ.
	UserID     string
	Expiration string
	// Cut names the headers that were shortened or left out, and Floats the message's own values that
	// are strings since the broker cannot carry them. [ReadFailure] fills them; Write ignores them.
	Cut    []string
	Floats []string
}

// Limits of single headers in bytes. Together with the names they keep all that is ours under 8 KiB.
const (
	maxName     = 255 // what AMQP allows queue, exchange, routing key and properties
	maxID       = 64
	maxCategory = 64
	maxReason   = 32
	maxConsumer = 128
	maxClass    = 255
	maxMessage  = 512
	maxStack    = 4096
)

// Write returns the headers of a parked message: own, the headers as received, type for type, and the
// headers dlq.* of the failure in place of any that own has. Nothing in the result is shared with own,
// and equal arguments give equal results.
//
// limit is the frame_max of the connection; 0 or less is none, and less than 4096 counts as that, the
// least AMQP knows. The whole header frame, the other properties taken at their largest but without
// user_id and expiration, stays within it. What does not fit is cut in this order, each header no more
// than needed: dlq.error.stack, dlq.error.message, dlq.error.class, dlq.consumer.version,
// dlq.consumer.name, dlq.floats; then, and only if a message arrived with headers that fill a frame by
// themselves, its own: x-death first, then the largest. cut names the headers that were shortened or
// left out, and the header dlq.cut says the same to whoever reads the DLQ.
//
// NaN and infinite floats in own, at any depth, become the strings "NaN", "+Inf" and "-Inf", since the
// broker ends a connection that publishes one; dlq.floats says where.
func (f Failure) Write(own map[string]any, limit int) (headers map[string]any, cut []string) {
	c := copier{}
	headers = make(map[string]any, len(own)+len(writeOrder))
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if !strings.HasPrefix(k, Prefix) {
			headers[k] = c.at(k, own[k])
		}
	}
	cut = f.put(headers)
	if len(c.floats) > 0 {
		headers[HeaderFloats] = names(c.floats)
	}
	if limit > 0 {
		cut = fit(headers, cut, max(limit, minFrame)-frameOverhead)
	}
	if len(cut) > 0 {
		headers[HeaderCut] = names(cut)
	}
	return headers, cut
}

// header is one header of ours in the making.
type header struct {
	name  string
	value string
	max   int
	// raw text is an identity that must survive byte for byte; other text is made valid UTF-8.
	raw bool
	// required headers are written even when they are empty.
	required bool
}

// put adds the headers of the failure and returns the names of those that are over their own limit.
func (f Failure) put(headers map[string]any) (cut []string) {
	for _, h := range []header{
		{name: HeaderID, value: f.ID, max: maxID, required: true},
		{name: HeaderSourceQueue, value: f.SourceQueue, max: maxName, raw: true, required: true},
		{name: HeaderSourceExchange, value: f.SourceExchange, max: maxName, raw: true, required: !f.OriginUnknown},
		{name: HeaderSourceRoutingKey, value: f.SourceRoutingKey, max: maxName, raw: true, required: !f.OriginUnknown},
		{name: HeaderConsumerName, value: f.ConsumerName, max: maxConsumer},
		{name: HeaderConsumerVersion, value: f.ConsumerVersion, max: maxConsumer},
		{name: HeaderErrorCategory, value: string(f.Category), max: maxCategory, required: true},
		{name: HeaderErrorClass, value: f.Class, max: maxClass},
		{name: HeaderErrorMessage, value: f.Message, max: maxMessage},
		{name: HeaderErrorStack, value: f.Stack, max: maxStack},
		{name: HeaderReason, value: string(f.Reason), max: maxReason, required: true},
		{name: HeaderUserID, value: f.UserID, max: maxName, raw: true},
		{name: HeaderExpiration, value: f.Expiration, max: maxName, raw: true},
	} {
		if h.value == "" && !h.required {
			continue
		}
		text, shortened := h.value, len(h.value) > h.max
		if shortened || !h.raw {
			text, shortened = shorten(h.value, h.max)
		}
		headers[h.name] = text
		if shortened {
			cut = append(cut, h.name)
		}
	}
	headers[HeaderAttempts] = f.Attempts
	for name, t := range map[string]time.Time{HeaderFirstFailure: f.FirstFailure, HeaderLastFailure: f.LastFailure} {
		if !t.IsZero() {
			headers[name] = t.UnixMilli()
		}
	}
	return cut
}

// ReadFailure reads what [Failure.Write] wrote. found is false if the message has none of these
// headers, as when the broker dead-lettered it by itself. Headers of a wrong type are left out and
// reported, each error naming the header.
func ReadFailure(headers map[string]any) (f Failure, found bool, err error) {
	for _, name := range writeOrder {
		if _, ok := headers[name]; ok {
			found = true
		}
	}
	if !found {
		return Failure{}, false, nil
	}
	r := fields{table: headers}
	text := func(name string) string { s, _ := r.text(name); return s }
	millis := func(name string) time.Time {
		if ms, found := r.integer(name); found {
			return fromMillis(ms)
		}
		return time.Time{}
	}
	f = Failure{
		ID:               text(HeaderID),
		SourceQueue:      text(HeaderSourceQueue),
		SourceExchange:   text(HeaderSourceExchange),
		SourceRoutingKey: text(HeaderSourceRoutingKey),
		OriginUnknown:    headers[HeaderSourceExchange] == nil || headers[HeaderSourceRoutingKey] == nil,
		ConsumerName:     text(HeaderConsumerName),
		ConsumerVersion:  text(HeaderConsumerVersion),
		FirstFailure:     millis(HeaderFirstFailure),
		LastFailure:      millis(HeaderLastFailure),
		Category:         Category(text(HeaderErrorCategory)),
		Class:            text(HeaderErrorClass),
		Message:          text(HeaderErrorMessage),
		Stack:            text(HeaderErrorStack),
		Reason:           Reason(text(HeaderReason)),
		UserID:           text(HeaderUserID),
		Expiration:       text(HeaderExpiration),
	}
	f.Attempts, _ = r.integer(HeaderAttempts)
	f.Cut, _ = r.texts(HeaderCut)
	f.Floats, _ = r.texts(HeaderFloats)
	return f, true, r.err()
}

// writeOrder is every header that Write may set.
var writeOrder = []string{
	HeaderID, HeaderSourceQueue, HeaderSourceExchange, HeaderSourceRoutingKey, HeaderConsumerName,
	HeaderConsumerVersion, HeaderAttempts, HeaderFirstFailure, HeaderLastFailure, HeaderErrorCategory,
	HeaderErrorClass, HeaderErrorMessage, HeaderErrorStack, HeaderReason, HeaderUserID,
	HeaderExpiration, HeaderCut, HeaderFloats,
}
