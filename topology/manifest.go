package topology

// DestinationKind says what a binding leads to. The values are those of the management API.
type DestinationKind string

// The kinds of destination.
const (
	ToQueue    DestinationKind = "queue"
	ToExchange DestinationKind = "exchange"
)

// Manifest is everything that exists, or should, in one vhost: flat, in the broker's own terms. What
// [Topology.Expand] makes and what is read from a broker are both a Manifest. Argument values are
// int64, float64, bool, string, []any and map[string]any only. As JSON it comes back as it was: an
// integer stays an int64 and a float64 a float64, whatever its value.
type Manifest struct {
	VHost     string     `json:"vhost"`
	Exchanges []Exchange `json:"exchanges,omitempty"`
	Queues    []Queue    `json:"queues,omitempty"`
	Bindings  []Binding  `json:"bindings,omitempty"`
}

// Exchange is one exchange.
type Exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete,omitempty"`
	Internal   bool           `json:"internal,omitempty"`
	Arguments  map[string]any `json:"arguments,omitempty"`
}

// Queue is one queue.
type Queue struct {
	Name       string         `json:"name"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete,omitempty"`
	Arguments  map[string]any `json:"arguments,omitempty"`
}

// Binding leads from an exchange to a queue or to another exchange. All its fields together are its
// identity: two bindings that differ in arguments only are two bindings.
type Binding struct {
	Source          string          `json:"source"`
	Destination     string          `json:"destination"`
	DestinationKind DestinationKind `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       map[string]any  `json:"arguments,omitempty"`
}
