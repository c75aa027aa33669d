package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"stampede/harness/bounds"
)

// DecodeAudit reads an audit, which is a structure, by the tags of its fields. What is left
// out of the audit itself stays zero, so that judges can say what they miss; in a row of a list
// everything has to be there but what encoding may omit. Texts that are not in an enum and
// numbers below a min are refused; what is beyond a max is for the judges to see. Fields that
// it does not know are skipped. An audit whose pointer has a method Check() error checks there
// what tags cannot say. An error names a bad field by its path: orders[3].state.
func DecodeAudit[A any](raw json.RawMessage) (audit A, err error) {
	if err := readAudit(raw, reflect.ValueOf(&audit).Elem()); err != nil {
		var none A
		return none, fmt.Errorf("decoding the audit: %w", err)
	}
	return audit, nil
}

// LeftIn makes a Table.Left of how much an audit says is left, and of what. A list that an audit
// lacks has nothing left; that it lacks it is for the judges to say.
func LeftIn[A any](
	left func(*A) (n int64, what string),
) func(ctx context.Context, c *Client, params any) (int64, string, error) {
	return func(ctx context.Context, c *Client, _ any) (int64, string, error) {
		raw, err := c.Audit(ctx)
		if err != nil {
			return 0, "", err
		}
		var a A // which is for the judges to check
		if err := json.Unmarshal(raw, &a); err != nil {
			return 0, "", fmt.Errorf("reading the audit at %s: %w", c.Base(), err)
		}
		n, what := left(&a)
		if n == 0 {
			what = ""
		}
		return n, what, nil
	}
}

// CheckAudit says what is wrong with an audit, as DecodeAudit does.
func (t *Table[S]) CheckAudit(raw json.RawMessage) error {
	return readAudit(raw, reflect.New(reflect.TypeOf(t.Audit)).Elem())
}

func readAudit(raw json.RawMessage, audit reflect.Value) error {
	if absent(raw) {
		return errors.New("there is none")
	}
	p := audit.Addr().Interface()
	if err := json.Unmarshal(raw, p); err != nil {
		return err
	}
	if err := needsOf(audit.Type()).complete(raw, false); err != nil {
		return err
	}
	if err := bounds.Lower(audit.Type()).Check(p); err != nil {
		return err
	}
	if c, can := p.(interface{ Check() error }); can {
		return c.Check()
	}
	return nil
}

// decodesItself says whether a type has its own idea of its JSON.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// needs is what has to be in a value of some type: in the fields of a structure, or in each element
// of a list. A nil one asks for nothing.
type needs struct {
	fields []needed
	each   *needs
}

// needed is a field: whether a row may leave it out, and what has to be in it.
type needed struct {
	name     string
	optional bool
	inner    *needs
}

func needsOf(t reflect.Type) *needs {
	if decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return needsOf(t.Elem())
	case reflect.Slice:
		if each := needsOf(t.Elem()); each != nil {
			return &needs{each: each}
		}
	case reflect.Struct:
		var fields []needed
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.Anonymous && name != "" && name != "-" {
				fields = append(fields, needed{name, strings.Contains(options, "omit"), needsOf(f.Type)})
			}
		}
		return &needs{fields: fields}
	}
	return nil
}

// missing is the path of a field that is not there.
type missing struct{ path string }

func (m *missing) Error() string { return strings.TrimPrefix(m.path, ".") + ": it is missing" }

// located says where the value lies in which a field is missing.
func located(place string, err error) error {
	if m := (*missing)(nil); errors.As(err, &m) {
		m.path = place + m.path
	}
	return err
}

// complete says what is missing in a value, which is in a row or not.
func (n *needs) complete(raw json.RawMessage, inRow bool) error {
	switch {
	case n == nil || absent(raw):
		return nil
	case n.each != nil:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for i, element := range list {
			if err := n.each.complete(element, true); err != nil {
				return located(fmt.Sprintf("[%d]", i), err)
			}
		}
		return nil
	}
	given := make(map[string]json.RawMessage, len(n.fields))
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	for _, f := range n.fields {
		if inRow && !f.optional && absent(given[f.name]) {
			return &missing{"." + f.name}
		}
		if err := f.inner.complete(given[f.name], inRow); err != nil {
			return located("."+f.name, err)
		}
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
