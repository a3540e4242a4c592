//go:build race

package topology_test

import "github.com/rmqkit/rmqkit/topology"

// Under the race detector, which takes ten times as long, files are smaller and nothing is timed.
const (
	raceEnabled = true
	largest     = topology.MaxFileSize / 8
)
