//go:build !race

package topology_test

import "github.com/rmqkit/rmqkit/topology"

const (
	raceEnabled = false
	largest     = topology.MaxFileSize
)
