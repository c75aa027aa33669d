package scenario

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a scenario file, so that a wrong file is refused at once.
const (
	maxBytes = 1 << 20
	maxDepth = 32
	// maxOpen bounds the brackets and dashes that are open at once before
	// the parser sees them: its time grows with the square of their number.
	maxOpen = 200
)

// The scalars of YAML 1.2's core schema, decimal only: an octal or a number
// with underscores is text here and therefore an error where a number is due.
var (
	integerForm = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatForm   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// parsing turns YAML into nodes and collects what is wrong.
type parsing struct {
	// at makes the Where of a position; origin labels every node.
	at     func(line, column int) Where
	origin string
	// form says what a document is, for the error of an empty one.
	form string
	problems
}

// document parses one YAML document. The node is nil if there is no tree at
// all.
func (p *parsing) document(src []byte) *node {
	if len(src) > maxBytes {
		p.fault(1, 1, "the file is too large", fmt.Sprintf("at most %d MiB", maxBytes>>20))
		return nil
	}
	if line, column, ok := shallow(src); !ok {
		p.fault(line, column, "nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		return nil
	}
	return p.tree(src)
}

// tree parses a document whose size and depth are known to be bounded.
func (p *parsing) tree(src []byte) *node {
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		p.syntax(err)
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		p.fault(1, 1, "the file is empty", p.form)
		return nil
	}
	if len(file.Docs) > 1 {
		line, column := 1, 1
		if body := file.Docs[1].Body; body != nil {
			line, column = position(body)
		}
		p.fault(line, column, "a second document begins here", "one document in a file")
	}
	return p.value(file.Docs[0].Body, 0)
}

// shallow says whether a text stays below maxOpen open brackets, and runs
// of as many dashes, or where it does not. It takes brackets in
// texts and comments for real ones: no sane file has that many open.
func shallow(src []byte) (line, column int, ok bool) {
	line, open, dashes := 1, 0, 0
	for _, c := range src {
		column++
		switch c {
		case '\n':
			line, column, dashes = line+1, 0, 0
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		case '-', '?':
			dashes++
		case ' ':
		default:
			dashes = 0
		}
		if open > maxOpen || dashes > maxOpen {
			return line, column, false
		}
	}
	return 0, 0, true
}

func (p *parsing) fault(line, column int, what, expected string) {
	p.add(Problem{Where: p.at(line, column), What: what, Expected: expected})
}

func (p *parsing) syntax(err error) {
	line, column := 1, 1
	what := err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		what = syntax.GetMessage()
		if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
			line, column = tk.Position.Line, tk.Position.Column
		}
	}
	p.fault(line, column, "not valid YAML: "+what, "")
}

// position is where a value begins. A block mapping begins at its first key,
// while the AST points at the colon.
func position(n ast.Node) (line, column int) {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return position(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(v.Key)
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line, tk.Position.Column
	}
	return 1, 1
}

func (p *parsing) value(n ast.Node, depth int) *node {
	line, column := position(n)
	out := &node{where: p.at(line, column), origin: p.origin}
	if depth > maxDepth {
		p.fault(line, column, "nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		return out
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		out.kind = mapping
		for _, entry := range v.Values {
			p.entry(out, entry, depth)
		}
	case *ast.MappingValueNode:
		out.kind = mapping
		p.entry(out, v, depth)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range v.Values {
			out.items = append(out.items, p.value(item, depth+1))
		}
	default:
		p.scalar(out, n)
	}
	return out
}

// entry adds one key and its value to a mapping.
func (p *parsing) entry(to *node, entry *ast.MappingValueNode, depth int) {
	line, column := position(entry.Key)
	key, ok := keyName(entry.Key)
	if !ok {
		p.fault(line, column, "this kind of key is not supported", "a plain name")
		return
	}
	if first := to.get(key); first != nil {
		p.fault(line, column, fmt.Sprintf("%q appears twice, first on line %d", key,
			first.key.Line), "each name once")
		return
	}
	value := p.value(entry.Value, depth+1)
	value.key = p.at(line, column)
	to.fields = append(to.fields, field{key, value})
}

func keyName(key ast.Node) (name string, ok bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, true
	}
	return "", false
}

func (p *parsing) scalar(out *node, n ast.Node) {
	switch v := n.(type) {
	case *ast.NullNode:
		out.kind = null
	case *ast.LiteralNode:
		out.kind, out.text = text, v.Value.Value
	case *ast.StringNode:
		out.kind, out.text = text, v.Value
		out.quoted = v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType
		if !out.quoted {
			out.kind = plainKind(v.Value)
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.text = n.GetToken().Value
		out.kind = plainKind(out.text)
	default:
		line, column := position(n)
		p.fault(line, column, "anchors, aliases, tags and merge keys are not supported",
			"the value written out")
	}
}

// plainKind is the type of an unquoted scalar.
func plainKind(s string) kind {
	switch {
	case s == "true" || s == "false":
		return boolean
	case integerForm.MatchString(s):
		return integer
	case floatForm.MatchString(s):
		return float
	}
	return text
}
