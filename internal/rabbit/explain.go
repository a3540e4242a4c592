package rabbit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

// explain turns what the client library says about a dial into what a person can act on.
func explain(err error, uri amqp.URI) error {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		reply     *amqp.Error
	)
	switch {
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("%w (user %q)", ErrCredentials, uri.Username)
	case errors.Is(err, amqp.ErrVhost):
		// The library's guess when there was no answer; RabbitMQ always gives one (530) about a vhost.
		return errors.New("the broker closed the connection without a word")
	case errors.As(err, &reply) && reply.Server:
		if refusesVHost(reply) {
			return fmt.Errorf("%w (vhost %q, user %q)", ErrVHost, uri.Vhost, uri.Username)
		}
		return fmt.Errorf("the broker refused: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w: the port does not speak TLS; use amqp:// or the broker's TLS port", ErrTLS)
	case errors.As(err, &alert), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid), errors.As(err, &verify):
		return fmt.Errorf("%w: %w", ErrTLS, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there: %w", err)
	case uri.Scheme == "amqp" && (errors.Is(err, io.EOF) || isEOF(reply) || errors.Is(err, amqp.ErrSyntax) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("the peer closed the connection during the AMQP handshake (is it a TLS port? then use amqps://): %w", err)
	}
	return err
}

// refusesVHost reports whether a vhost is missing or closed to the user (RabbitMQ 3.10 to 4.3:
// "NOT_ALLOWED - vhost x not found", "NOT_ALLOWED - access to vhost 'x' refused for user 'y'"). A limit
// on connections is also 530, with more text behind it, and passes.
func refusesVHost(reply *amqp.Error) bool {
	return reply.Code == amqp.NotAllowed &&
		(strings.HasSuffix(reply.Reason, " not found") || strings.HasSuffix(reply.Reason, "'") && strings.Contains(reply.Reason, "access to vhost"))
}

// isEOF reports whether the library made an error of its own of a connection that ended while it read.
func isEOF(err *amqp.Error) bool {
	return err != nil && !err.Server && err.Code == amqp.FrameError && strings.Contains(err.Reason, io.EOF.Error())
}
