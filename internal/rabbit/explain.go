package rabbit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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
	)
	switch {
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("%w (user %q)", ErrCredentials, uri.Username)
	case errors.Is(err, amqp.ErrVhost):
		return fmt.Errorf("%w (vhost %q, user %q)", ErrVHost, uri.Vhost, uri.Username)
	case errors.As(err, &record):
		return fmt.Errorf("%w: the port does not speak TLS; use amqp:// or the broker's TLS port", ErrTLS)
	case errors.As(err, &alert), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid), errors.As(err, &verify):
		return fmt.Errorf("%w: %w", ErrTLS, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there: %w", err)
	case uri.Scheme == "amqp" && (errors.Is(err, io.EOF) || errors.Is(err, amqp.ErrSyntax) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("the peer closed the connection during the AMQP handshake (is it a TLS port? then use amqps://): %w", err)
	}
	return err
}
