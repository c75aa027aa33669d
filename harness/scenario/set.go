package scenario

import (
	"fmt"
	"strconv"
	"strings"
)

// assign applies one --set flag, path=value, to the tree; null removes the
// field. Mappings on the way are made, list items must exist.
func (p *parsing) assign(root *node, flag string) {
	where := Where{Flag: "--set " + flag}
	path, value, ok := strings.Cut(flag, "=")
	if !ok || path == "" {
		p.add(Problem{
			Where: where, What: "this is not path=value",
			Expected: "for example --set load.arrival.rate=500",
		})
		return
	}
	if root, _, _ := strings.Cut(path, "."); root == "profiles" {
		p.add(Problem{Where: where,
			What: "profiles cannot be set; set the value itself, or use --profile"})
		return
	}
	inner := &parsing{at: func(int, int) Where { return where }, origin: where.Flag}
	leaf := inner.setting(value)
	if len(inner.list) > 0 {
		p.add(inner.list[0])
		return
	}
	leaf.key = where
	p.place(root, strings.Split(path, "."), leaf, where)
}

// setting parses the value of a flag. What begins like a list, a mapping or a
// quoted text is YAML; anything else is one scalar as it stands, so that
// "why, and: how?" needs no quotes.
func (p *parsing) setting(value string) *node {
	value = strings.TrimSpace(value)
	if value != "" && strings.ContainsRune("[{\"'", rune(value[0])) {
		if n := p.document([]byte(value)); n != nil {
			return n
		}
	}
	scalar := &node{kind: plainKind(value), text: value, where: p.at(1, 1), origin: p.origin}
	if value == "null" || value == "~" {
		scalar.kind = null
	}
	return scalar
}

func (p *parsing) place(at *node, path []string, leaf *node, where Where) {
	for i, step := range path[:len(path)-1] {
		next := at.child(step)
		if next == nil && at.kind == mapping {
			next = &node{kind: mapping, where: where, key: where, origin: leaf.origin}
			at.set(step, next)
		}
		if next == nil || (next.kind != mapping && next.kind != list) {
			p.noPlace(at, path[:i+1], where)
			return
		}
		at = next
	}
	last := path[len(path)-1]
	switch {
	case at.kind == list && at.child(last) != nil:
		i, _ := strconv.Atoi(last) // child has parsed it already
		at.items[i] = leaf
	case at.kind == mapping && leaf.kind == null:
		at.remove(last)
	case at.kind == mapping:
		at.set(last, leaf)
	default:
		p.noPlace(at, path, where)
	}
}

func (p *parsing) noPlace(at *node, path []string, where Where) {
	name := strings.Join(path, ".")
	switch {
	case at.kind == list && len(at.items) == 0:
		p.add(Problem{Where: where, What: fmt.Sprintf("there is no %q: the list is empty", name)})
	case at.kind == list:
		p.add(Problem{
			Where: where, What: fmt.Sprintf("there is no %q", name),
			Expected: fmt.Sprintf("an index from 0 to %d", len(at.items)-1),
		})
	default:
		p.add(Problem{
			Where: where, What: fmt.Sprintf("%q is a value, not a mapping or a list", name),
			Expected: "a path that ends there",
		})
	}
}
