package consumer

import (
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rmqkit/rmqkit/internal/rabbit"
	"github.com/rmqkit/rmqkit/retry"
)

// parked returns the message that goes to the DLQ: as received, with the evidence.
func (r *run) parked(m *delivery, o Outcome, id string) amqp.Publishing {
	now := time.Now()
	// Not the handler's headers: it may have changed them.
	own := rabbit.Plain(m.d.Headers)
	if r.cfg.Ladder.QueueType() == retry.Quorum {
		// Written by the broker for this delivery; published, they would be taken for the DLQ's own count.
		delete(own, headerDeliveryCount)
		delete(own, headerAcquiredCount)
	}
	f := retry.Failure{
		ID:               id,
		SourceQueue:      r.cfg.Ladder.Queue,
		SourceExchange:   m.origin.Exchange,
		SourceRoutingKey: m.origin.RoutingKey,
		OriginUnknown:    errors.Is(m.originErr, retry.ErrOriginUnknown),
		ConsumerName:     r.cfg.Name,
		ConsumerVersion:  r.cfg.Version,
		Attempts:         int64(r.cfg.Ladder.Attempt(m.d.Exchange, m.d.RoutingKey)),
		FirstFailure:     m.origin.FirstFailure,
		LastFailure:      now,
		Category:         o.Category,
		Class:            classOf(o.Err),
		Message:          text(o.Err),
		Stack:            stackOf(o.Err),
		Reason:           o.Reason,
		UserID:           m.d.UserId,
		Expiration:       expiration(r.cfg.Ladder, m.d.Expiration, own),
	}
	if f.FirstFailure.IsZero() {
		f.FirstFailure = now
	}
	headers, _ := f.Write(own, m.s.conn.Config.FrameSize)
	return amqp.Publishing{
		Headers:         rabbit.Table(headers),
		ContentType:     m.d.ContentType,
		ContentEncoding: m.d.ContentEncoding,
		DeliveryMode:    amqp.Persistent,
		Priority:        m.d.Priority,
		CorrelationId:   m.d.CorrelationId,
		ReplyTo:         m.d.ReplyTo,
		MessageId:       m.d.MessageId,
		Timestamp:       m.d.Timestamp,
		Type:            m.d.Type,
		AppId:           m.d.AppId,
		Body:            m.d.Body,
	}
}

// expiration returns the expiration that the message was published with: the broker takes it away with
// the first death and keeps it in x-death.
func expiration(l retry.Ladder, own string, headers map[string]any) string {
	if own != "" {
		return own
	}
	deaths, _ := retry.Deaths(headers)
	for _, d := range deaths {
		if d.Queue == l.Queue && d.OriginalExpiration != "" {
			return d.OriginalExpiration
		}
	}
	return ""
}
