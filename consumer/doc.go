// Package consumer runs workers whose handlers return an error and nothing else. What becomes of the
// message follows from that error and from the retry ladder of the work queue:
//
//   - nil: acknowledged.
//   - an error: into the next tier of the ladder by a plain nack, or parked in the dead-letter queue
//     with its evidence when no tier is left.
//   - [Permanent]: parked at once. [Malformed], also from [JSON]: parked at once.
//   - [Discard]: acknowledged, and reported as discarded.
//   - a panic: an error of category "panic" with its stack.
//
// A handler may be called more than once for one message, also at the same time in two workers, after
// a connection was lost: what it does must bear that.
package consumer
