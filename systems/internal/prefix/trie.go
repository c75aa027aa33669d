package prefix

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Trie is a radix trie of which every node has the best phrases at it and below it. What can be
// seen of it is never changed: a batch of changes copies the nodes on the way to them.
type Trie struct {
	root  *node
	batch uint64
}

// node is a node of the trie.
type node struct {
	label string  // from its parent to it
	self  *Phrase // that ends here
	kids  []*node // by the first byte of their labels
	top   Top
	batch uint64 // that made it
}

// best are the best phrases at a node or below it.
func (n *node) best() Top {
	if n.top == nil && n.self != nil { // a leaf needs no list
		return Top{n.self}
	}
	return n.top
}

// kid finds the child whose label begins with a byte.
func (n *node) kid(b byte) (int, bool) {
	return slices.BinarySearchFunc(n.kids, b, func(k *node, b byte) int {
		return cmp.Compare(k.label[0], b)
	})
}

// Prepare makes changes, of which nobody sees anything before publish is called. A score of 0 takes
// a phrase away.
func (t *Trie) Prepare(list []Phrase) (publish func()) {
	t.batch++
	root := t.root
	if root == nil {
		root = &node{}
	}
	for _, p := range list {
		if p.Score == 0 {
			root = t.put(root, p.Text, nil)
		} else {
			root = t.put(root, p.Text, &p)
		}
	}
	t.settle(root)
	return func() { t.root = root }
}

// copied is a node of this batch in the place of another one.
func (t *Trie) copied(n *node) *node {
	if n.batch == t.batch {
		return n
	}
	next := *n
	next.batch, next.kids = t.batch, slices.Clone(n.kids)
	return &next
}

// put puts a phrase below a node, or takes it away.
func (t *Trie) put(n *node, rest string, p *Phrase) *node {
	n = t.copied(n)
	if rest == "" {
		n.self = p
		return n
	}
	i, is := n.kid(rest[0])
	if !is {
		if p != nil {
			n.kids = slices.Insert(n.kids, i, &node{label: rest, self: p, batch: t.batch})
		}
		return n
	}
	kid := n.kids[i]
	common := commonPrefix(kid.label, rest)
	if common < len(kid.label) {
		if p == nil {
			return n
		}
		lower := t.copied(kid)
		lower.label = kid.label[common:]
		kid = &node{label: rest[:common], kids: []*node{lower}, batch: t.batch}
	}
	n.put(i, t.put(kid, rest[common:], p), t)
	return n
}

// put replaces a child, unless nothing is left of it, or one child that can take its place.
func (n *node) put(i int, kid *node, t *Trie) {
	switch {
	case kid.self != nil || len(kid.kids) > 1:
		n.kids[i] = kid
	case len(kid.kids) == 1:
		only := t.copied(kid.kids[0])
		only.label = kid.label + only.label
		n.kids[i] = only
	default:
		n.kids = slices.Delete(n.kids, i, i+1)
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// settle makes the lists of the nodes of this batch, lowest first.
func (t *Trie) settle(n *node) {
	if n.batch != t.batch {
		return
	}
	var top Top
	if n.self != nil {
		top.Add(n.self)
	}
	for _, k := range n.kids {
		t.settle(k)
		top.addAll(k.best())
	}
	n.top = nil
	if len(n.kids) > 0 {
		n.top = slices.Clone(top) // as long as it is
	}
}

// Best walks along the prefix, or along all that are like it.
func (t *Trie) Best(q Typed) []Phrase {
	var top Top
	if t.root == nil {
		return nil
	}
	if q.dfa != nil {
		t.root.near(q, q.dfa.Start(), &top)
	} else if n, _ := t.root.find(q.Prefix); n != nil {
		top = n.best()
	}
	return top.List()
}

// find is the highest node all of whose phrases have a prefix, and what its label has beyond it.
func (n *node) find(prefix string) (at *node, beyond string) {
	for prefix != "" {
		i, is := n.kid(prefix[0])
		if !is {
			return nil, ""
		}
		n = n.kids[i]
		if strings.HasPrefix(n.label, prefix) {
			return n, n.label[len(prefix):]
		}
		if !strings.HasPrefix(prefix, n.label) {
			return nil, ""
		}
		prefix = prefix[len(n.label):]
	}
	return n, ""
}

// near adds the phrases below a node, where the automaton is in a state.
func (n *node) near(q Typed, state int, top *Top) {
	for _, k := range n.kids {
		switch at := q.along(state, k.label); at {
		case matched:
			top.addAll(k.best())
		case dead:
		default:
			k.near(q, at, top)
		}
	}
}

// Get finds a phrase.
func (t *Trie) Get(phrase string) (Phrase, bool) {
	if t.root != nil {
		if n, beyond := t.root.find(phrase); n != nil && beyond == "" && n.self != nil {
			return *n.self, true
		}
	}
	return Phrase{}, false
}

// Bytes is about how much memory the trie takes, with the phrases.
func (t *Trie) Bytes() int64 {
	if t.root == nil {
		return 0
	}
	return t.root.bytes()
}

func (n *node) bytes() int64 {
	sum := size[node]() + int64(cap(n.kids)+cap(n.top))*size[*node]()
	if n.self != nil {
		sum += n.self.Bytes() // labels are parts of texts
	}
	for _, k := range n.kids {
		sum += k.bytes()
	}
	return sum
}

func size[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }
