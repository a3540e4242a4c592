// Command rmq-provision declares on RabbitMQ what a topology.yaml describes.
package main

import (
	"os"

	"github.com/rmqkit/rmqkit/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.Provision))
}
