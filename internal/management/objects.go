package management

import (
	"context"
	"net/http"
	"slices"
)

// Overview is what the broker says about itself.
type Overview struct {
	// Version is that of RabbitMQ, such as "4.0.5".
	Version       string `json:"rabbitmq_version"`
	ExchangeTypes []struct {
		Name string `json:"name"`
	} `json:"exchange_types"`
}

// HasExchangeType reports whether exchanges of that type can be declared.
func (o Overview) HasExchangeType(name string) bool {
	for _, t := range o.ExchangeTypes {
		if t.Name == name {
			return true
		}
	}
	return false
}

// Overview asks what broker this is.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	err := c.do(ctx, http.MethodGet, "/overview", nil, &o)
	return o, err
}

// PutVHost creates a vhost, or leaves an existing one as it is.
func (c *Client) PutVHost(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPut, path("vhosts", name), struct{}{}, nil)
}

// DeleteVHost deletes a vhost and everything in it.
func (c *Client) DeleteVHost(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, path("vhosts", name), nil, nil)
}

// PutUser creates a user without tags, or changes the password of an existing one.
func (c *Client) PutUser(ctx context.Context, name, password string) error {
	return c.do(ctx, http.MethodPut, path("users", name), map[string]string{"password": password, "tags": ""}, nil)
}

// DeleteUser deletes a user.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, path("users", name), nil, nil)
}

// Permissions are three regular expressions over names.
type Permissions struct {
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// PutPermissions sets the rights of a user in a vhost.
func (c *Client) PutPermissions(ctx context.Context, vhost, user string, p Permissions) error {
	return c.do(ctx, http.MethodPut, path("permissions", vhost, user), p, nil)
}

// Exchange is an exchange as the broker describes it.
type Exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
}

// Exchanges lists the exchanges of a vhost, the broker's own included.
func (c *Client) Exchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	var out []Exchange
	err := c.do(ctx, http.MethodGet, path("exchanges", vhost), nil, &out)
	return out, err
}

// Queue is a queue as the broker describes it. The counts are samples, some seconds old.
type Queue struct {
	Name           string         `json:"name"`
	Type           string         `json:"type"`
	Durable        bool           `json:"durable"`
	AutoDelete     bool           `json:"auto_delete"`
	Exclusive      bool           `json:"exclusive"`
	Arguments      map[string]any `json:"arguments"`
	Policy         string         `json:"policy"`
	State          string         `json:"state"`
	Messages       int64          `json:"messages"`
	Ready          int64          `json:"messages_ready"`
	Unacknowledged int64          `json:"messages_unacknowledged"`
	// DeadLettering counts the messages that wait for their dead-letter target, which at-least-once
	// dead-lettering keeps.
	DeadLettering int64 `json:"messages_dlx"`
	Consumers     int64 `json:"consumers"`
}

// Queue describes one queue.
func (c *Client) Queue(ctx context.Context, vhost, name string) (Queue, error) {
	var q Queue
	err := c.do(ctx, http.MethodGet, path("queues", vhost, name), nil, &q)
	return q, err
}

// Queues lists the queues of a vhost.
func (c *Client) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	var out []Queue
	err := c.do(ctx, http.MethodGet, path("queues", vhost), nil, &out)
	return out, err
}

// Binding is a binding as the broker describes it.
type Binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"`
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
	// PropertiesKey names the binding among those of one source and destination.
	PropertiesKey string `json:"properties_key"`
}

// Bindings lists the bindings of a vhost, those of the default exchange included.
func (c *Client) Bindings(ctx context.Context, vhost string) ([]Binding, error) {
	var out []Binding
	err := c.do(ctx, http.MethodGet, path("bindings", vhost), nil, &out)
	return out, err
}

// Connection is an open connection.
type Connection struct {
	Name  string `json:"name"`
	VHost string `json:"vhost"`
	User  string `json:"user"`
	// Properties are what the client said of itself.
	Properties struct {
		ConnectionName string `json:"connection_name"`
	} `json:"client_properties"`
}

// Connections lists the connections to a vhost. One that was just opened may be missing for some
// seconds.
func (c *Client) Connections(ctx context.Context, vhost string) ([]Connection, error) {
	var out []Connection
	err := c.do(ctx, http.MethodGet, path("vhosts", vhost, "connections"), nil, &out)
	return out, err
}

// CloseConnection closes a connection by its name.
func (c *Client) CloseConnection(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, path("connections", name), nil, nil)
}

// EnabledPlugins lists the plugins of the broker's nodes that are on, each once, sorted.
func (c *Client) EnabledPlugins(ctx context.Context) ([]string, error) {
	var nodes []struct {
		Enabled []string `json:"enabled_plugins"`
	}
	if err := c.do(ctx, http.MethodGet, "/nodes", nil, &nodes); err != nil {
		return nil, err
	}
	var out []string
	for _, n := range nodes {
		out = append(out, n.Enabled...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
