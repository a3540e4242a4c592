// Package provision makes a broker have what a topology says, over AMQP alone: no management plugin
// and no administrator rights are needed.
//
// [Apply] takes a lock in the broker, looks at everything without changing anything, refuses with
// every difference it found or else writes down what it is about to do, does it in an order that is
// safe to interrupt anywhere, and writes down that it is done. [Preview] stops after the looking.
// Nothing is ever deleted but bindings that an earlier apply made and nobody wants any more.
package provision
