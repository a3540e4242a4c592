package management

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fake(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(strings.Replace(s.URL, "http://", "http://ann:s%2Fcret@", 1) + "/prefix/")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryNameIsOneSegment(t *testing.T) {
	t.Parallel()
	var path, user, password string
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		user, password, _ = r.BasicAuth()
		_, _ = io.WriteString(w, `{"name":"a%/b c","messages":3,"messages_dlx":1,"arguments":{"x-message-ttl":2000}}`)
	})
	got, err := c.Queue(t.Context(), "/", "a%/b c?#é")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/prefix/api/queues/%2F/a%25%2Fb%20c%3F%23%C3%A9"; path != want {
		t.Errorf("path = %q, want %q", path, want)
	}
	if user != "ann" || password != "s/cret" {
		t.Errorf("credentials = %q, %q; want those of the URL", user, password)
	}
	want := Queue{Name: "a%/b c", Messages: 3, DeadLettering: 1, Arguments: map[string]any{"x-message-ttl": json.Number("2000")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Queue() mismatch (-want +got):\n%s", diff)
	}
}

func TestAnswersOtherThanSuccessAreErrors(t *testing.T) {
	t.Parallel()
	c := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "{\"error\":\"bad_request\",\n \"reason\":\"why\"}")
	})
	if _, err := c.Queue(t.Context(), "v", "gone"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Queue() of a missing queue: %v, want ErrNotFound", err)
	}
	err := c.PutVHost(t.Context(), "v")
	if want := `PUT /vhosts/v: 400 {"error":"bad_request", "reason":"why"}`; err == nil || err.Error() != want {
		t.Errorf("PutVHost() error = %v, want %s", err, want)
	}
}

func TestNewRefusesWhatIsNoURLWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:15672", "amqp://u:hunter2@h/", "http://u:hunter2@h:port", "http://u:hunter2@"} {
		_, err := New(address)
		if err == nil {
			t.Errorf("New(%q) takes it", address)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%q) error %q quotes the password", address, err)
		}
	}
}
