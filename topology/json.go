package topology

import "encoding/json"

// The types with arguments are written and read through a twin whose arguments keep the difference
// between an integer and a float.

type exchangeJSON struct {
	Name       string    `json:"name"`
	Type       string    `json:"type"`
	Durable    bool      `json:"durable"`
	AutoDelete bool      `json:"auto_delete,omitempty"`
	Internal   bool      `json:"internal,omitempty"`
	Arguments  arguments `json:"arguments,omitempty"`
}

type queueJSON struct {
	Name       string    `json:"name"`
	Durable    bool      `json:"durable"`
	AutoDelete bool      `json:"auto_delete,omitempty"`
	Arguments  arguments `json:"arguments,omitempty"`
}

type bindingJSON struct {
	Source          string          `json:"source"`
	Destination     string          `json:"destination"`
	DestinationKind DestinationKind `json:"destination_type"`
	RoutingKey      string          `json:"routing_key"`
	Arguments       arguments       `json:"arguments,omitempty"`
}

// MarshalJSON writes the exchange; a float among the arguments has a point or an exponent.
func (e Exchange) MarshalJSON() ([]byte, error) {
	return json.Marshal(exchangeJSON{e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, e.Arguments})
}

// UnmarshalJSON reads what MarshalJSON wrote; integers among the arguments are int64.
func (e *Exchange) UnmarshalJSON(data []byte) error {
	var x exchangeJSON
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	*e = Exchange{x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, x.Arguments}
	return nil
}

// MarshalJSON writes the queue; a float among the arguments has a point or an exponent.
func (q Queue) MarshalJSON() ([]byte, error) {
	return json.Marshal(queueJSON{q.Name, q.Durable, q.AutoDelete, q.Arguments})
}

// UnmarshalJSON reads what MarshalJSON wrote; integers among the arguments are int64.
func (q *Queue) UnmarshalJSON(data []byte) error {
	var x queueJSON
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	*q = Queue{x.Name, x.Durable, x.AutoDelete, x.Arguments}
	return nil
}

// MarshalJSON writes the binding; a float among the arguments has a point or an exponent.
func (b Binding) MarshalJSON() ([]byte, error) {
	return json.Marshal(bindingJSON{b.Source, b.Destination, b.DestinationKind, b.RoutingKey, b.Arguments})
}

// UnmarshalJSON reads what MarshalJSON wrote; integers among the arguments are int64.
func (b *Binding) UnmarshalJSON(data []byte) error {
	var x bindingJSON
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	*b = Binding{x.Source, x.Destination, x.DestinationKind, x.RoutingKey, x.Arguments}
	return nil
}
