package scenario

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Tree parses YAML into what encoding/json would give.
func Tree(src []byte) (any, error) {
	n, err := parsed(src)
	if err != nil {
		return nil, err
	}
	return n.plain(), nil
}

// Merge overlays values given as encoding/json gives them.
func Merge(base, patch any) any { return overlay(fromPlain(base), fromPlain(patch)).plain() }

// Normal is a tree as Merge returns it.
func Normal(tree any) any { return fromPlain(tree).plain() }

func parsed(src []byte) (*node, error) {
	p := &parsing{at: func(line, column int) Where { return Where{Line: line, Column: column} }}
	n := p.document(src)
	return n, p.err()
}

func fromPlain(v any) *node {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fromPlain: %v", err))
	}
	n, err := parsed(data)
	if err != nil {
		panic(fmt.Sprintf("fromPlain: %s: %v", data, err))
	}
	return n
}

// plain is the node as encoding/json would decode it. Numbers keep their
// text where JSON allows it.
func (n *node) plain() any {
	switch n.kind {
	case boolean:
		return n.text == "true"
	case integer, float:
		if json.Valid([]byte(n.text)) {
			return json.Number(n.text)
		}
		f, _ := strconv.ParseFloat(n.text, 64) // floatForm matched: never fails
		return f
	case text:
		return n.text
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.plain()
		}
		return items
	case mapping:
		fields := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			fields[f.name] = f.value.plain()
		}
		return fields
	}
	return nil
}
