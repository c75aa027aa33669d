package scenario

import (
	"slices"
	"strconv"
)

// kind is the type of a node.
type kind uint8

const (
	null kind = iota
	boolean
	integer
	float
	text
	list
	mapping
)

// String names k as an error message would, with its article.
func (k kind) String() string {
	return [...]string{
		"nothing", "a boolean", "a whole number", "a number", "text", "a list", "a mapping",
	}[k]
}

// node is a value of a scenario file that knows where it came from. The tree
// has no anchors, tags or merge keys: parse refuses them.
type node struct {
	kind kind
	// where is the value's place, key the place of the key it belongs to.
	where, key Where
	origin     string
	// text is a scalar's text as written, without quotes.
	text string
	// quoted says that the text is in quotes, which where points at.
	quoted bool
	items  []*node
	fields []field
}

// field is one entry of a mapping, in the order of the file.
type field struct {
	name  string
	value *node
}

// get returns the value of a mapping's field, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// set replaces or appends a mapping's field.
func (n *node) set(name string, value *node) {
	for i := range n.fields {
		if n.fields[i].name == name {
			n.fields[i].value = value
			return
		}
	}
	n.fields = append(n.fields, field{name, value})
}

// remove deletes a mapping's field, if it is there.
func (n *node) remove(name string) {
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.name == name })
}

// child returns the value under one step of a path: a field's name or an
// item's index.
func (n *node) child(step string) *node {
	if n == nil {
		return nil
	}
	if n.kind != list {
		return n.get(step)
	}
	i, err := strconv.Atoi(step)
	if err != nil || i < 0 || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// place is where something is shown that a node lacks: its key, or else its beginning.
func (n *node) place() Where {
	if n.key != (Where{}) {
		return n.key
	}
	return n.where
}

// clone copies the tree.
func (n *node) clone() *node {
	if n == nil {
		return nil
	}
	c := *n
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	c.fields = make([]field, len(n.fields))
	for i, f := range n.fields {
		c.fields[i] = field{f.name, f.value.clone()}
	}
	return &c
}

// show is the node as an error message would quote it.
func (n *node) show() string {
	switch n.kind {
	case text:
		return strconv.Quote(n.text)
	case boolean, integer, float:
		return n.text
	}
	return n.kind.String()
}
