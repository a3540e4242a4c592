package topology

import (
	"fmt"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/rmqkit/rmqkit/retry"
)

// checker knows the file as a whole: what one thing says about another is checked here.
type checker struct {
	*decoder
	file *fileText
	// exchanges are those of the file, external ones included.
	exchanges map[string]*exchangeText
	queues    map[string]*queueText
	// from is the bindings by their exchange.
	from  map[string][]edge
	names []string
	// owners are the generated objects and the work queues that they belong to.
	owners map[sourceKey]*queueText
}

// check reports what does not fit together, and fills in the places of objects.
func (d *decoder) check(f *fileText) {
	c := &checker{
		decoder: d, file: f, exchanges: map[string]*exchangeText{}, queues: map[string]*queueText{},
		owners: map[sourceKey]*queueText{}, from: map[string][]edge{},
	}
	for _, x := range f.exchanges {
		c.exchanges[x.Name] = x
		c.names = append(c.names, x.Name)
		c.exchangeSource(x)
		c.exchange(x)
	}
	for _, q := range f.queues {
		c.queues[q.Name] = q
		c.finish(q)
		c.queueSource(q)
	}
	if !c.fewEnough() {
		return
	}
	c.collisions()
	for _, q := range f.queues {
		c.queue(q)
	}
	for _, x := range f.exchanges {
		c.bindings(ToExchange, x.Name, x.Bind, x.binds)
		if n := x.values["alternate_exchange"]; n != nil && !d.bad[n] {
			c.known(n, "alternate exchange", x.AlternateExchange)
		}
	}
	for _, q := range f.queues {
		c.bindings(ToQueue, q.Name, q.Bind, q.binds)
	}
	for _, q := range f.queues {
		c.deadLetters(q)
	}
}

// fewEnough reports whether the queues, generated ones included, are few enough for one broker, and
// reports if not. A few hundred kilobytes can ask for millions: 16 tiers of 32 slots for each queue.
func (c *checker) fewEnough() bool {
	n := 0
	for _, q := range c.file.queues {
		n++
		if q.Laddered() {
			n++
			for _, t := range q.Ladder().Tiers {
				n += max(1, len(t.Slots))
			}
		}
		if n > maxExpanded {
			c.refuse(q.name, Diagnostic{
				Code: codeTooLarge, Message: fmt.Sprintf("with this queue and its ladder there are more than %d queues", maxExpanded),
				Expected: "fewer", Hint: "fewer jitter slots or delays make fewer queues; or split the topology into files of their own names",
			})
			return false
		}
	}
	return true
}

func (c *checker) exchange(x *exchangeText) {
	if x.External {
		for key, v := range x.values {
			if key != "external" && key != "type" {
				c.refuse(v, Diagnostic{
					Code: codeConflict, Message: fmt.Sprintf("external exchange %q has %s", shown(x.Name), key), Expected: "nothing but its type",
					Hint: "an external exchange exists elsewhere and is not declared here",
				})
			}
		}
		if predeclared[x.Name] == "" {
			c.name(x.name, KindExchange, x.Name, maxName)
		}
		return
	}
	c.name(x.name, KindExchange, x.Name, maxName)
	if x.values != nil && x.values["type"] == nil {
		c.add(Diagnostic{
			Position: c.of(x.name), Code: codeMissingKey, Message: fmt.Sprintf("exchange %q has no type", shown(x.Name)),
			Expected: `the key "type"`, Hint: "such as type: topic; for an exchange that exists elsewhere write external: true",
		})
	}
	c.hashed(x)
	if x.Type == "x-delayed-message" && x.Arguments["x-delayed-type"] == nil {
		c.refuse(x.values["type"], Diagnostic{
			Code: codeArgument, Message: fmt.Sprintf("exchange %q is x-delayed-message and says not how it routes", shown(x.Name)),
			Expected: "the argument x-delayed-type", Hint: "such as arguments: {x-delayed-type: topic}",
		})
	}
}

// hashed refuses what the broker refuses of a consistent hash exchange, which would be in the middle of an
// apply.
func (c *checker) hashed(x *exchangeText) {
	property, set := x.Arguments[argHashProperty]
	if x.Type != string(retry.SpreadHash) || !set {
		return
	}
	properties := []string{"message_id", "correlation_id", "timestamp"}
	for k, v := range pairs(x.values["arguments"]) {
		switch {
		case k.Value != argHashProperty:
		case x.Arguments[argHashHeader] != nil:
			c.refuse(v, Diagnostic{
				Code: codeConflict, Message: fmt.Sprintf("exchange %q has both %s and %s", shown(x.Name), argHashHeader, argHashProperty), Expected: "one of them",
			})
		case !slices.Contains(properties, fmt.Sprint(property)):
			c.refuse(v, Diagnostic{
				Code: codeArgument, Message: fmt.Sprintf("%s is %s", argHashProperty, quoted(v)), Expected: oneOf(properties),
				Hint: c.didYouMean(v.Value, properties),
			})
		}
	}
}

// known reports whether an exchange can be referred to, and reports if not.
func (c *checker) known(n *yaml.Node, what, name string) bool {
	if c.exchanges[name] != nil || predeclared[name] != "" {
		return true
	}
	x := Diagnostic{
		Code: codeUndeclared, Message: fmt.Sprintf("%s %q is not declared", what, shown(name)), Expected: "an exchange of this file",
		Hint: c.didYouMean(name, c.names),
	}
	if q := c.owners[sourceKey{KindExchange, name, ""}]; q != nil {
		x.Code = codeLadderOwned
		x.Message = fmt.Sprintf("%s %q belongs to the ladder of queue %q", what, shown(name), shown(q.Name))
	} else if name == "" {
		x.Code, x.Message = codeBinding, what+" is the default exchange"
		x.Hint = "every queue is bound to the default exchange by its own name, and in no other way"
	} else if x.Hint == "" {
		x.Hint = "if it exists elsewhere, add it under exchanges with external: true"
	}
	c.refuse(n, x)
	return false
}

// kind returns the type of an exchange, or "" if it is not known.
func (c *checker) kind(exchange string) string {
	if x := c.exchanges[exchange]; x != nil && x.Type != "" {
		return x.Type
	}
	return predeclared[exchange]
}

var weight = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)

// bindings checks what leads to one exchange or queue.
func (c *checker) bindings(kind DestinationKind, destination string, specs []BindSpec, nodes []bindNode) {
	for i, b := range specs {
		n := nodes[i]
		source := n.values["exchange"]
		if source == nil || c.bad[source] || c.bad[n.Node] {
			continue
		}
		if !c.known(source, "exchange", b.Exchange) {
			continue
		}
		if kind == ToExchange && b.Exchange == destination {
			c.refuse(source, Diagnostic{
				Code: codeBinding, Message: fmt.Sprintf("exchange %q is bound to itself", shown(destination)), Expected: "another exchange",
			})
			continue
		}
		c.bindingKey(n, b)
		if !c.clean(n.Node) {
			continue
		}
		id := Binding{Source: b.Exchange, Destination: destination, DestinationKind: kind, RoutingKey: b.Key, Arguments: b.Arguments}.identity()
		if first, ok := c.file.sources.bindings[id]; ok {
			c.refuse(n.Node, Diagnostic{
				Code: codeDuplicateBind, Message: "the same binding is given twice", Expected: "each binding once",
				Hint: fmt.Sprintf("the first is in line %d", first.Line),
			})
			continue
		}
		c.file.sources.bindings[id] = c.of(n.Node)
		c.from[b.Exchange] = append(c.from[b.Exchange], edge{kind, destination, b})
	}
}

// bindingKey checks that a binding says what its exchange routes by.
func (c *checker) bindingKey(n bindNode, b BindSpec) {
	kind := c.kind(b.Exchange)
	key, headers := n.values["key"], n.values["headers"]
	if headers != nil && kind != "" && kind != "headers" && kind[0] != 'x' {
		c.refuse(headers, Diagnostic{
			Code: codeBinding, Message: fmt.Sprintf("headers in a binding from the %s exchange %q", kind, shown(b.Exchange)), Expected: "a key",
			Hint: "only an exchange of type headers looks at headers",
		})
	}
	missing := func(what, hint string) {
		c.add(Diagnostic{
			Position: c.of(n.Node), Code: codeMissingKey, Message: fmt.Sprintf("binding from the %s exchange %q has no %s", kind, shown(b.Exchange), what),
			Expected: fmt.Sprintf("the key %q", what), Hint: hint,
		})
	}
	switch kind {
	case "direct":
		if key == nil {
			missing("key", `such as key: order.created; an empty key is ""`)
		}
	case "topic":
		if key == nil {
			missing("key", `such as key: order.*; "#" is everything`)
		}
	case "headers":
		if headers == nil && n.values["arguments"] == nil && n.values["match"] == nil {
			missing("headers", "such as headers: {format: pdf}; {} is everything")
		}
	case "x-consistent-hash":
		if key == nil {
			missing("key", `the key is a weight: "1" for an equal share`)
		} else if !weight.MatchString(b.Key) && !c.bad[key] {
			c.refuse(key, Diagnostic{
				Code: codeBinding, Message: fmt.Sprintf("key is %q", shown(b.Key)), Expected: `a weight such as "1": the exchange is x-consistent-hash`,
			})
		}
	}
}
