package rabbit

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The texts are those of RabbitMQ 3.10.8, 4.0.5 and 4.3.6.
func TestExplain(t *testing.T) {
	t.Parallel()
	plain := amqp.URI{Scheme: "amqp", Username: "shop", Vhost: "orders"}
	reply := func(code int, reason string) error { return &amqp.Error{Code: code, Reason: reason, Server: true} }
	for name, tt := range map[string]struct {
		err       error
		is        error
		temporary bool
		want      string
	}{
		"credentials":      {amqp.ErrCredentials, ErrCredentials, false, `the broker refused user and password (user "shop")`},
		"an unknown vhost": {reply(530, "NOT_ALLOWED - vhost orders not found"), ErrVHost, false, `the vhost does not exist or the user has no access to it (vhost "orders", user "shop")`},
		"a vhost refused":  {reply(530, "NOT_ALLOWED - access to vhost 'orders' refused for user 'shop'"), ErrVHost, false, `the vhost does not exist or the user has no access to it (vhost "orders", user "shop")`},
		"a full vhost":     {reply(530, "NOT_ALLOWED - access to vhost 'orders' refused for user 'shop': connection limit (1) is reached"), nil, true, `the broker refused: Exception (530) Reason: "NOT_ALLOWED - access to vhost 'orders' refused for user 'shop': connection limit (1) is reached"`},
		"no answer":        {amqp.ErrVhost, nil, true, "the broker closed the connection without a word"},
		"a shutdown":       {reply(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"), nil, true, `the broker refused: Exception (320) Reason: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"`},
		"nothing listens":  {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), syscall.ECONNREFUSED, true, "nothing listens there: dial: connection refused"},
		"bad credentials":  {reply(403, "ACCESS_REFUSED - Login was refused"), ErrCredentials, false, `the broker refused user and password (user "shop"): ACCESS_REFUSED - Login was refused`},
		"a closed door":    {&amqp.Error{Code: 501, Reason: "EOF"}, nil, true, "the peer closed the connection without a word (EOF): a broker that starts or stops, or a port that wants TLS"},
		"something else":   {io.ErrNoProgress, io.ErrNoProgress, true, io.ErrNoProgress.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := explain(t.Context(), tt.err, plain, nil)
			if got.Error() != tt.want || tt.is != nil && !errors.Is(got, tt.is) || Temporary(got) != tt.temporary {
				t.Errorf("explain() = %q, temporary %v; want %q", got, Temporary(got), tt.want)
			}
		})
	}
}
