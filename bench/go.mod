module github.com/rmqkit/rmqkit/bench

go 1.26

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/rmqkit/rmqkit v0.0.0
)

require gopkg.in/yaml.v3 v3.0.1 // indirect

replace github.com/rmqkit/rmqkit => ../
