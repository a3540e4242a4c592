package retry

// Prefix begins the name of every header that is written when a message is parked. All names under it
// are reserved: parking replaces whatever a message carries there.
const Prefix = "dlq."

// The headers of a parked message, written by [Failure.Write] and read by [ReadFailure].
const (
	HeaderID               = Prefix + "id"
	HeaderSourceQueue      = Prefix + "source.queue"
	HeaderSourceExchange   = Prefix + "source.exchange"
	HeaderSourceRoutingKey = Prefix + "source.routing_key"
	HeaderConsumerName     = Prefix + "consumer.name"
	HeaderConsumerVersion  = Prefix + "consumer.version"
	HeaderAttempts         = Prefix + "attempts"
	HeaderFirstFailure     = Prefix + "first_failure"
	HeaderLastFailure      = Prefix + "last_failure"
	HeaderErrorCategory    = Prefix + "error.category"
	HeaderErrorClass       = Prefix + "error.class"
	HeaderErrorMessage     = Prefix + "error.message"
	HeaderErrorStack       = Prefix + "error.stack"
	HeaderReason           = Prefix + "reason"
	HeaderUserID           = Prefix + "user_id"
	HeaderExpiration       = Prefix + "expiration"
	// HeaderCut lists the headers, ours or the message's own, that were shortened or left out.
	HeaderCut = Prefix + "cut"
	// HeaderFloats lists the message's own values that are strings because the broker cannot carry
	// them as what they were: NaN and the infinities.
	HeaderFloats = Prefix + "floats"
)

// The headers of a copy that was published into a tier, since the broker's memory of a message ends
// where a client publishes it.
const (
	HeaderRetryExchange     = "retry.exchange"
	HeaderRetryRoutingKey   = "retry.routing_key"
	HeaderRetryFirstFailure = "retry.first_failure"
)

// The headers of a redriven message.
const (
	HeaderRedriveID         = "redrive.id"
	HeaderRedriveOf         = "redrive.of"
	HeaderRedriveCount      = "redrive.count"
	HeaderRedriveBy         = "redrive.by"
	HeaderRedriveAt         = "redrive.at"
	HeaderRedriveEdited     = "redrive.edited"
	HeaderRedriveExchange   = "redrive.exchange"
	HeaderRedriveRoutingKey = "redrive.routing_key"
)

// Category says what kind of failure it was. A caller may use its own; the values here are wire format.
type Category string

// The categories that are known everywhere.
const (
	CategoryDeserialization Category = "deserialization"
	CategoryValidation      Category = "validation"
	CategoryDependency      Category = "dependency"
	CategoryTimeout         Category = "timeout"
	CategoryPanic           Category = "panic"
	CategoryBug             Category = "bug"
	CategoryExpired         Category = "expired"
	CategoryUnknown         Category = "unknown"
)

// Reason says why a message was parked. The values are wire format.
type Reason string

// The reasons.
const (
	// ReasonExhausted: it failed after the last tier.
	ReasonExhausted Reason = "exhausted"
	// ReasonPermanent: the handler said that no retry can help.
	ReasonPermanent Reason = "permanent"
	// ReasonMalformed: the body could not be decoded.
	ReasonMalformed Reason = "malformed"
	// ReasonCrashed: its consumers died too often while they had it.
	ReasonCrashed Reason = "crashed"
	// ReasonExpired: it was too old to be handled.
	ReasonExpired Reason = "expired"
)
