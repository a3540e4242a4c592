// Package management is the one place for RabbitMQ's management HTTP API.
package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrNotFound is wrapped by the error of a call about something that does not exist.
var ErrNotFound = errors.New("not found")

// maxAnswer bounds how much of an answer is read.
const maxAnswer = 256 << 20

// Client calls one broker's management API. It keeps no connection open between calls and is safe for
// concurrent use.
type Client struct {
	base     string
	user     string
	password string
	http     *http.Client
}

// New returns a client for a URL such as http://guest:guest@localhost:15672, which may have a path
// prefix. It does no I/O.
func New(address string) (*Client, error) {
	u, err := url.Parse(address)
	// The library's own error would quote the URL with its password.
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("not a management URL: expected http://user:password@host:port or https://…")
	}
	c := &Client{user: "guest", password: "guest"}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	c.base = strings.TrimRight(u.String(), "/") + "/api"
	c.http = &http.Client{
		Timeout:   2 * time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
	}
	return c, nil
}

// StatusError is an answer other than success.
type StatusError struct {
	Method string
	Path   string
	Code   int
	// Reason is what the broker said, at most 1 KiB of it.
	Reason string
}

// Error returns the call and the broker's answer on one line.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Code, strings.Join(strings.Fields(e.Reason), " "))
}

// Unwrap returns [ErrNotFound] for a 404.
func (e *StatusError) Unwrap() error {
	if e.Code == http.StatusNotFound {
		return ErrNotFound
	}
	return nil
}

// path joins names into a path, each escaped so that it is one segment whatever it holds.
func path(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(n))
	}
	return b.String()
}

// do sends body as JSON, if there is one, and decodes the answer into answer, if there is one.
// Integers in an answer of type any are json.Number.
func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: encode: %w", method, path, err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return &StatusError{Method: method, Path: path, Code: resp.StatusCode, Reason: string(reason)}
	}
	if answer == nil {
		return nil
	}
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	dec.UseNumber()
	if err := dec.Decode(answer); err != nil {
		return fmt.Errorf("%s %s: decode: %w", method, path, err)
	}
	return nil
}
