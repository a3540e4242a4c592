package view

import "github.com/rmqkit/rmqkit/topology"

// Validation is what checking a topology found.
type Validation struct {
	File        string               `json:"file"`
	Valid       bool                 `json:"valid"`
	Exchanges   int                  `json:"exchanges"`
	Queues      int                  `json:"queues"`
	Bindings    int                  `json:"bindings"`
	Diagnostics topology.Diagnostics `json:"diagnostics,omitempty"`
}

// Count sets how many objects the topology leads to.
func (v *Validation) Count(m topology.Manifest) {
	v.Exchanges, v.Queues, v.Bindings = len(m.Exchanges), len(m.Queues), len(m.Bindings)
}

func (v Validation) text(p *printer) {
	if v.Valid {
		p.printf("%s is %s: %s, %s, %s\n", v.File, p.in(green, "valid"),
			plural(v.Exchanges, "exchange"), plural(v.Queues, "queue"), plural(v.Bindings, "binding"))
		return
	}
	for _, d := range v.Diagnostics {
		p.printf("%s: %s", p.in(bold, d.Position.String()), d.Message)
		if d.Expected != "" {
			p.printf("; expected %s", d.Expected)
		}
		if d.Hint != "" {
			p.printf("; %s", d.Hint)
		}
		p.printf(" %s\n", p.in(dim, "["+d.Code+"]"))
	}
	p.printf("%s is %s: %s\n", v.File, p.in(red, "not valid"), plural(len(v.Diagnostics), "mistake"))
}
