package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// YAML writes the resolved scenario, every default included, such that
// Decode with the same systems gives the same value back.
func (s Scenario) YAML() ([]byte, error) {
	tree, err := treeOf(s)
	if err != nil {
		return nil, err
	}
	return written(tree), nil
}

// ToYAML writes a value of another kind, such that DecodeInto gives it back.
func ToYAML(v any) ([]byte, error) {
	tree, err := jsonTree(v)
	if err != nil {
		return nil, err
	}
	return written(tree), nil
}

func written(tree *node) []byte {
	var b bytes.Buffer
	emit(&b, tree, 0)
	return b.Bytes()
}

// jsonTree turns a value into nodes by way of its JSON.
func jsonTree(v any) (*node, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	p := &parsing{at: inFile("JSON")}
	tree := p.tree(data)
	if err := p.err(); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return tree, nil
}

// treeOf turns a scenario into nodes by way of its JSON, which has the fields
// in their order and is YAML too.
func treeOf(s Scenario) (*node, error) {
	tree, err := jsonTree(s)
	if err != nil {
		return nil, err
	}
	if s.Load.Arrival.Process == "" {
		tree.get("load").remove("arrival") // a closed loop has none
	}
	for i, f := range s.Faults {
		if f.Kind == "restart" {
			tree.get("faults").items[i].remove("for") // a restart has no duration
		}
	}
	return tree, nil
}

// emit writes a mapping or list in block style, and lists of scalars and
// empty values in flow style.
func emit(b *bytes.Buffer, n *node, indent int) {
	pad := strings.Repeat("  ", indent)
	for _, f := range n.fields {
		b.WriteString(pad)
		emitField(b, f, indent)
	}
	for _, item := range n.items {
		b.WriteString(pad + "- ")
		if inline(item) {
			b.WriteString(flow(item) + "\n")
			continue
		}
		var inner bytes.Buffer
		emit(&inner, item, indent+1)
		b.Write(bytes.TrimLeft(inner.Bytes(), " "))
	}
}

func emitField(b *bytes.Buffer, f field, indent int) {
	b.WriteString(quote(f.name) + ":")
	if inline(f.value) {
		b.WriteString(" " + flow(f.value) + "\n")
		return
	}
	b.WriteString("\n")
	emit(b, f.value, indent+1)
}

// inline says whether a value is written on one line.
func inline(n *node) bool {
	if n.kind == mapping {
		return len(n.fields) == 0
	}
	for _, item := range n.items {
		if item.kind == mapping || item.kind == list {
			return false
		}
	}
	return true
}

func flow(n *node) string {
	switch n.kind {
	case null:
		return "null"
	case text:
		return quote(n.text)
	case mapping:
		return "{}"
	case list:
		items := make([]string, len(n.items))
		for i, item := range n.items {
			items[i] = flow(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return n.text
}

// plainForm matches text that means itself without quotes in every context
// of YAML; reserved matches the words that do not.
var (
	plainForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_./ -]*[A-Za-z0-9_./])?$`)
	reserved  = regexp.MustCompile(`(?i)^(null|true|false|yes|no|on|off|y|n|[0-9.e_+-]+|0[xob].*)$`)
)

// quote writes text plain where that is safe, else in double quotes with the
// escapes of JSON, which are escapes of YAML too.
func quote(s string) string {
	if plainForm.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return strconv.Quote(s) // a string always encodes
	}
	return strings.TrimRight(b.String(), "\n")
}

// origins lists the leaves of the resolved scenario with where each is from.
func origins(s Scenario, tree *node) []Origin {
	resolved, err := treeOf(s)
	if err != nil {
		return nil // YAML reports it
	}
	return leaves(nil, resolved, tree, "")
}

func leaves(out []Origin, n, source *node, path string) []Origin {
	from := fromDefaults
	if source != nil {
		from = source.origin
	}
	step := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	if inline(n) {
		return append(out, Origin{Path: path, Value: flow(n), From: from})
	}
	for i, item := range n.items {
		index := strconv.Itoa(i)
		out = leaves(out, item, source.child(index), step(index))
	}
	for _, f := range n.fields {
		out = leaves(out, f.value, source.child(f.name), step(f.name))
	}
	return out
}
