package scenario

import (
	"encoding/json"
	"fmt"
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
