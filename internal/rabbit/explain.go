package rabbit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errTimeout = errors.New("no answer in time")

// refusalDelay is what RabbitMQ (3.10 to 4.3) waits at least before it drops a connection whose user or
// password is wrong: 3 s, less what a clock may be off. It says nothing, since the client library does not
// tell it that it may.
const refusalDelay = 2500 * time.Millisecond

// sniffer notes how a peer's first answer begins, and how long it was silent.
type sniffer struct {
	net.Conn
	// head holds the first bytes that arrived, most significant first, and how many they are.
	head atomic.Uint32
	// silent is the longest time that a read has waited. The last one would not do: over TLS a peer that
	// closes says so, which ends its silence.
	silent atomic.Int64
}

func (s *sniffer) Read(b []byte) (int, error) {
	began := time.Now()
	n, err := s.Conn.Read(b)
	s.silent.Store(max(s.silent.Load(), int64(time.Since(began))))
	if n > 0 && s.head.Load() == 0 {
		// The library reads a frame header of 7 bytes, which has come whole or not at all.
		head := uint32(min(n, 3))
		for i := range 3 {
			head <<= 8
			if i < n {
				head |= uint32(b[i])
			}
		}
		s.head.Store(head)
	}
	return n, err
}

// answered reports whether the peer said anything.
func (s *sniffer) answered() bool { return s != nil && s.head.Load() != 0 }

// broke reports whether it was never silent for as long as it takes to refuse a user.
func (s *sniffer) broke() bool { return s != nil && time.Duration(s.silent.Load()) < refusalDelay }

// isTLS reports whether it answered with a TLS alert or handshake.
func (s *sniffer) isTLS() bool {
	const alert, handshake, major = 0x15, 0x16, 0x03
	if s == nil {
		return false
	}
	head := s.head.Load()
	kind := head >> 16 & 0xff
	return (kind == alert || kind == handshake) && head>>8&0xff == major
}

// explain turns what the client library says about a dial into what a person can act on.
func explain(ctx context.Context, err error, uri amqp.URI, socket *sniffer) error {
	var answer *amqp.Error
	switch {
	case ctx.Err() != nil:
		// The library takes every end of a handshake for refused credentials or an unknown vhost.
		return fmt.Errorf("%w%s", context.Cause(ctx), unless(socket.answered(), " (is it an AMQP port? with or without TLS?)"))
	case uri.Scheme == "amqp" && socket.isTLS():
		return fmt.Errorf("%w: the port speaks TLS; use amqps:// or the broker's port without TLS", ErrTLS)
	case uri.Scheme == "amqps":
		if err := explainTLS(err); err != nil {
			return err
		}
	}
	switch {
	case errors.As(err, &answer) && answer.Server:
		return explainAnswer(answer, uri)
	case errors.Is(err, amqp.ErrCredentials) && socket.broke():
		// The library's guess when there was no answer.
		return errors.New("the broker closed the connection without a word")
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("%w (user %q)", ErrCredentials, uri.Username)
	case errors.Is(err, amqp.ErrVhost):
		// The library's guess when there was no answer; RabbitMQ always gives one (530) about a vhost.
		return errors.New("the broker closed the connection without a word")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens there: %w", err)
	case errors.As(err, &answer) && uri.Scheme == "amqps" && strings.Contains(answer.Reason, "tls: "):
		// With TLS 1.3 a refused client certificate shows only when the broker's first bytes are read.
		return fmt.Errorf("%w: %s", ErrTLS, answer.Reason)
	case errors.As(err, &answer) && uri.Scheme == "amqps":
		// The alert can get lost when the broker closes the socket right behind it.
		return fmt.Errorf("the peer closed the connection after the TLS handshake (%s): a broker that starts or stops, or that wants a client certificate", answer.Reason)
	case errors.As(err, &answer) && !socket.answered():
		return fmt.Errorf("the peer closed the connection without a word (%s): a broker that starts or stops, or a port that wants TLS", answer.Reason)
	case errors.As(err, &answer):
		return fmt.Errorf("the peer's answer is not AMQP 0-9-1 (%s)", answer.Reason)
	}
	return err
}

// unless returns text unless cond holds.
func unless(cond bool, text string) string {
	if cond {
		return ""
	}
	return text
}

// explainTLS returns nil for what is not about TLS.
func explainTLS(err error) error {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		operation *net.OpError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("%w: the port does not speak TLS; use amqp:// or the broker's TLS port", ErrTLS)
	case errors.As(err, &authority):
		return fmt.Errorf("%w: %w; give the broker's CA file", ErrTLS, err)
	case errors.As(err, &verify), errors.As(err, &alert):
		return fmt.Errorf("%w: %w", ErrTLS, err)
	case errors.As(err, &operation) && operation.Op == "remote error":
		// An alert from the peer, such as that it wants a client certificate.
		return fmt.Errorf("%w: %w", ErrTLS, err)
	}
	return nil
}

// explainAnswer explains the broker's own words.
func explainAnswer(answer *amqp.Error, uri amqp.URI) error {
	switch {
	case answer.Code == amqp.AccessRefused:
		return fmt.Errorf("%w (user %q): %s", ErrCredentials, uri.Username, answer.Reason)
	case refusesVHost(answer):
		return fmt.Errorf("%w (vhost %q, user %q)", ErrVHost, uri.Vhost, uri.Username)
	}
	return fmt.Errorf("the broker refused: %w", answer)
}

// refusesVHost reports whether a vhost is missing or closed to the user (RabbitMQ 3.10 to 4.3:
// "NOT_ALLOWED - vhost x not found", "NOT_ALLOWED - access to vhost 'x' refused for user 'y'"). A limit
// on connections is also 530, with more text behind it, and passes.
func refusesVHost(answer *amqp.Error) bool {
	return answer.Code == amqp.NotAllowed &&
		(strings.HasSuffix(answer.Reason, " not found") || strings.HasSuffix(answer.Reason, "'") && strings.Contains(answer.Reason, "access to vhost"))
}
