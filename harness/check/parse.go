package check

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxObjective bounds the text of an objective in bytes.
const maxObjective = 500

// ParseObjective parses an objective; see Objective for what it may say. The
// error is a *ParseError with the column, what was expected and the nearest
// known word. Names of kinds and faults are checked by Resolve.
func ParseObjective(text string) (Objective, error) {
	if len(text) > maxObjective {
		return Objective{}, &ParseError{Text: text[:20] + "...", Column: maxObjective,
			Expected: fmt.Sprintf("at most %d bytes", maxObjective),
			Found:    fmt.Sprintf("%d", len(text))}
	}
	p := &parser{text: text, tokens: lex(text)}
	o := Objective{Part: wholeRun()}
	for _, step := range []func(*Objective) error{
		p.function, p.arguments, p.comparison, p.limit, p.part,
	} {
		if err := step(&o); err != nil {
			return Objective{}, err
		}
	}
	if t := p.peek(); t.kind != endToken {
		return Objective{}, p.unexpected(t, "the end")
	}
	return o, nil
}

// parser consumes tokens; the last one, an endToken, is never consumed.
type parser struct {
	text   string
	tokens []token
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != endToken {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) unexpected(t token, expected string, known ...string) error {
	e := &ParseError{Text: p.text, Column: t.column, Expected: expected, Found: t.found()}
	if t.kind == wordToken {
		e.Nearest = Nearest(strings.ToLower(t.text), known)
	}
	return e
}

// mark consumes a mark.
func (p *parser) mark(mark string) error {
	t := p.next()
	switch {
	case t.is(mark):
		return nil
	case mark == "(":
		return p.unexpected(t, `"(", as in p99(response) <= 5ms`)
	default:
		return p.unexpected(t, strconv.Quote(mark))
	}
}

// oneOf consumes one of the known words.
func (p *parser) oneOf(known ...string) (string, error) {
	t := p.next()
	if t.kind == wordToken {
		for _, word := range known {
			if t.text == word {
				return word, nil
			}
		}
	}
	return "", p.unexpected(t, oneOf(known), known...)
}

// name consumes a name, such as a kind's or a fault's.
func (p *parser) name(what string) (name string, column int, err error) {
	t := p.next()
	if t.kind != wordToken {
		return "", 0, p.unexpected(t, what)
	}
	return t.text, t.column, nil
}

func (p *parser) function(o *Objective) error {
	t := p.next()
	switch f := Func(t.text); f {
	case Max, Share, Rate, Count:
		o.Func = f
		return nil
	}
	percent, ok := parsePercentile(t.text)
	if !ok {
		return p.unexpected(t, "a percentile such as p99 or p99.9, max, share, rate or count",
			"p99", "max", "share", "rate", "count")
	}
	o.Func, o.Percent = Quantile, percent
	return nil
}

// percentile matches p50, p99.9 and the habit of writing the latter p999.
var percentile = regexp.MustCompile(`^p(99)(9+)$|^p([0-9]{1,2}(?:\.[0-9]+)?)$`)

func parsePercentile(text string) (float64, bool) {
	m := percentile.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	digits := m[3]
	if digits == "" {
		digits = m[1] + "." + m[2]
	}
	v, err := strconv.ParseFloat(digits, 64)
	// So many nines that they round to a hundred are none.
	return v, err == nil && 0 < v && v < 100
}

func (p *parser) arguments(o *Objective) error {
	if err := p.mark("("); err != nil {
		return err
	}
	known := []string{"ok", "refused", "unknown", "dropped"}
	switch o.Func {
	case Quantile, Max:
		known = []string{"response", "service", "lag"}
	case Rate, Count:
		known = append(known, "scheduled", "started")
	}
	var err error
	if o.Of, err = p.oneOf(known...); err != nil {
		return err
	}
	if p.peek().is(",") {
		p.next()
		if o.Kind, o.kindColumn, err = p.name("an operation kind"); err != nil {
			return err
		}
	}
	return p.mark(")")
}

func (p *parser) comparison(o *Objective) error {
	t := p.next()
	switch {
	case t.is("<"), t.is("<="):
	case !o.latency() && (t.is(">") || t.is(">=")):
	case o.latency():
		return p.unexpected(t, "< or <=")
	default:
		return p.unexpected(t, "<, <=, > or >=")
	}
	o.Op = t.text
	return nil
}

// limit parses the limit, which some value must miss and some must meet: a
// check that cannot fail is none.
func (p *parser) limit(o *Objective) error {
	t := p.next()
	if err := p.value(t, o); err != nil {
		return err
	}
	top := math.Inf(1)
	if o.Func == Share {
		top = 100
	}
	switch {
	case o.meets(0) && o.meets(top):
		return p.unexpected(t, "a limit that can be missed")
	case !o.meets(0) && !o.meets(top):
		return p.unexpected(t, "a limit that can be met")
	}
	return nil
}

// value parses the limit's value in the unit of the objective's function.
func (p *parser) value(t token, o *Objective) error {
	expected, unit := "a number such as 10", ""
	switch o.Func {
	case Quantile, Max:
		d, err := parseSpan(t.text)
		if err != nil {
			return p.unexpected(t, "a duration such as 500ms or 2s")
		}
		o.Limit = float64(d)
		return nil
	case Share:
		expected, unit = "a percentage such as 0.1%", "%"
	case Rate:
		expected, unit = "a rate such as 1000/s", "/s"
	}
	v, err := parseAmount(t.text, unit)
	if err != nil || o.Func == Share && v > 100 || o.Func == Count && v != math.Trunc(v) {
		return p.unexpected(t, expected)
	}
	o.Limit = v
	return nil
}

// maxSpan bounds durations, so that they are exact in a float64.
const maxSpan = 365 * 24 * time.Hour / 4

// parseSpan parses a duration of zero or more.
func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d < 0 || d > maxSpan || text == "0":
		return 0, fmt.Errorf("%s is negative, too long or has no unit", text)
	}
	return d, nil
}

// maxAmount bounds limits, so that numbers up to it are exact in a float64.
const maxAmount = 1 << 53

// parseAmount parses a decimal number of zero or more with its unit.
func parseAmount(text, unit string) (float64, error) {
	digits, ok := strings.CutSuffix(text, unit)
	if !ok || strings.Trim(digits, "0123456789.") != "" {
		return 0, fmt.Errorf("expected a number with unit %q", unit)
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err == nil && v > maxAmount {
		err = fmt.Errorf("%s is more than %d", digits, maxAmount)
	}
	return v, err
}

func (p *parser) part(o *Objective) error {
	if p.peek().kind == endToken {
		return nil
	}
	relation, err := p.oneOf("in", "before", "during", "after")
	if err != nil {
		return err
	}
	o.Part = Part{Relation: relation}
	switch {
	case relation != "in":
		o.Part.Name, o.faultColumn, err = p.name("a fault's name")
	case p.peek().is("["):
		err = p.span(&o.Part)
	default:
		o.Part.Name, err = p.oneOf("run", "steady", "warm-up", "drain")
	}
	return err
}

// span parses "[2s, 8s]".
func (p *parser) span(part *Part) error {
	p.next()
	var err error
	if part.From, err = p.duration(); err != nil {
		return err
	}
	if err := p.mark(","); err != nil {
		return err
	}
	end := p.peek()
	if part.To, err = p.duration(); err != nil {
		return err
	}
	if part.To <= part.From {
		return p.unexpected(end, "a time after "+part.From.String())
	}
	return p.mark("]")
}

func (p *parser) duration() (time.Duration, error) {
	t := p.next()
	d, err := parseSpan(t.text)
	if err != nil {
		return 0, p.unexpected(t, "a time from the run's base such as 0s or 2s")
	}
	return d, nil
}
