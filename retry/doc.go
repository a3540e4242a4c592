// Package retry is the contract between what declares a retry ladder, what consumes through it and
// what works on its dead letters: the names, the stamps, the count of attempts and the headers.
//
// A work queue Q with delays [2s, 8s, 30s] dead-letters into the exchange Q.retry. A rejected message
// waits in a tier queue such as Q.retry.1.2s and comes back to Q through the exchange Q.return,
// stamped with the routing key Q.attempt.2; the stamp decides the next tier and, after the last one,
// the dead-letter queue Q.dlq behind the exchange Q.park.
package retry
