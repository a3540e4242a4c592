package consumer

import (
	"bytes"
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/retry"
)

// Handler handles one message. What it returns decides what becomes of the message; see the package
// comment. It is called from several goroutines if Concurrency is more than 1.
//
// ctx ends after HandlerTimeout and, when the worker stops, after DrainTimeout; it does not end when
// the connection is lost, though the broker then delivers the message again. A handler that ignores
// ctx cannot be stopped and keeps its place among the Concurrency.
type Handler func(ctx context.Context, m *Message) error

// Message is what a handler gets: a copy, so that changing it changes nothing else.
type Message struct {
	// Queue is the work queue.
	Queue string
	// Exchange and RoutingKey are those with which the message was first published, at every attempt.
	Exchange, RoutingKey string
	// Attempt counts the handler calls of this message from 1; Attempts is how many there can be.
	Attempt, Attempts int
	// FirstFailure is when the message first failed, or zero.
	FirstFailure time.Time
	// Redelivered says that an earlier delivery of this attempt may have been handled in part.
	Redelivered bool

	// ID is the publisher's message_id, or "".
	ID              string
	Body            []byte
	Headers         map[string]any
	ContentType     string
	ContentEncoding string
	CorrelationID   string
	ReplyTo         string
	Type            string
	AppID           string
	UserID          string
	Priority        uint8
	Timestamp       time.Time
}

// newMessage makes the message of a delivery from its origin and its headers as plain maps.
func newMessage(l retry.Ladder, d amqp.Delivery, o retry.Origin, headers map[string]any) *Message {
	return &Message{
		Queue:           l.Queue,
		Exchange:        o.Exchange,
		RoutingKey:      o.RoutingKey,
		Attempt:         l.Attempt(d.Exchange, d.RoutingKey),
		Attempts:        len(l.Tiers) + 1,
		FirstFailure:    o.FirstFailure,
		Redelivered:     d.Redelivered,
		ID:              d.MessageId,
		Body:            bytes.Clone(d.Body),
		Headers:         headers,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		CorrelationID:   d.CorrelationId,
		ReplyTo:         d.ReplyTo,
		Type:            d.Type,
		AppID:           d.AppId,
		UserID:          d.UserId,
		Priority:        d.Priority,
		Timestamp:       d.Timestamp,
	}
}
