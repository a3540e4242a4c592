package provision

import (
	"errors"
	"testing"

	"github.com/rmqkit/rmqkit/internal/rabbit"
)

func TestResolveVHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, url, flag, file string
		urlWins               bool
		want                  string
	}{
		{"nobody says", "amqp://h", "", "", false, "/"},
		{"only the URL says", "amqp://h/a%2Fb", "", "/", false, "a/b"},
		{"only the file says", "amqp://h/", "", "prod", false, "prod"},
		{"both say the same", "amqp://h/%2F%25%20%40", "", "/% @", false, "/% @"},
		{"they differ", "amqp://h/test", "", "prod", false, ""},
		{"they differ and the URL is to win", "amqp://h/test", "", "prod", true, "test"},
		{"a third is to win", "amqp://h/test", "other", "prod", false, "other"},
		{"the URL names the default", "amqp://h/%2F", "", "prod", false, ""},
		{"what is no URL is not for us to say", "amqp://h:port/x", "", "prod", false, "prod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := resolveVHost(Options{Rabbit: rabbit.Config{URL: tc.url, VHost: tc.flag}, URLVHost: tc.urlWins}, tc.file)
			if got != tc.want || (err != nil) != (tc.want == "") || err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("resolveVHost() = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
