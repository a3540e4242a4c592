// Package topology turns a topology.yaml into what should exist on a broker.
//
// [Parse] reads the file and reports every mistake in it with its place; [Topology.Expand] makes the
// [Manifest]: each exchange, queue and binding in the broker's own terms, the retry ladders included.
// The package does no I/O but reads the environment for ${NAME} in the file.
package topology
