package topology

// The codes of diagnostics. They are wire format: docs/yaml.md lists them, scripts match them.
const (
	// What is not even YAML that we take.
	codeTooLarge     = "too-large"
	codeEncoding     = "bad-encoding"
	codeCharacter    = "bad-character"
	codeSyntax       = "yaml-syntax"
	codeTooDeep      = "too-deep"
	codeTooMany      = "too-many-mistakes"
	codeEmpty        = "empty"
	codeDocuments    = "several-documents"
	codeAlias        = "alias"
	codeMergeKey     = "merge-key"
	codeTag          = "tag"
	codeVariable     = "bad-variable"
	codeUnset        = "unset-variable"
	codeUnknownKey   = "unknown-key"
	codeDuplicateKey = "duplicate-key"
	codeMissingKey   = "missing-key"
	codeWrongType    = "wrong-type"

	// Values.
	codeVersion   = "bad-version"
	codeValue     = "bad-value"
	codeNumber    = "bad-number"
	codeRange     = "out-of-range"
	codeDuration  = "bad-duration"
	codePercent   = "bad-percent"
	codeRate      = "bad-rate"
	codeName      = "bad-name"
	codeReserved  = "reserved-name"
	codeCollision = "name-collision"
	codeArgument  = "bad-argument"
	codeOwnField  = "own-field"

	// How things fit together.
	codeConflict      = "conflict"
	codeNotForType    = "not-for-type"
	codeUndeclared    = "undeclared-exchange"
	codeBinding       = "bad-binding"
	codeDuplicateBind = "duplicate-binding"
	codeTiers         = "too-many-tiers"
	codeJitter        = "bad-jitter"

	// Refused because the broker would lose messages without a word.
	codeOverflow     = "loses-by-overflow"
	codeExpires      = "loses-by-expiry"
	codeLadderOwned  = "ladder-owned"
	codeUnroutable   = "unroutable-dead-letters"
	codeAtMostOnce   = "silently-at-most-once"
	codeDLRK         = "no-dead-letter-exchange"
	codeBroker       = "broker-version"
	codeBrokerTTL    = "broker-message-ttl"
	codeBrokerLength = "broker-max-length"
	codeBrokerLimit  = "broker-delivery-limit"
	codeBrokerArg    = "broker-argument"
)
