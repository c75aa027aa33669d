package api

import (
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
	if err := complete(audit.Type(), raw, "", false); err != nil {
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

// complete says what is missing in the rows of a value that lies at a path, which is in a row
// itself or not.
func complete(t reflect.Type, raw json.RawMessage, at string, inRow bool) error {
	if absent(raw) || decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return complete(t.Elem(), raw, at, inRow)
	case reflect.Slice:
		if k := t.Elem().Kind(); k != reflect.Struct && k != reflect.Slice {
			return nil
		}
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for i, element := range list {
			if err := complete(t.Elem(), element, fmt.Sprintf("%s[%d]", at, i), true); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var given map[string]json.RawMessage
		if err := json.Unmarshal(raw, &given); err != nil {
			return err
		}
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "" || name == "-" {
				continue
			}
			path := strings.TrimPrefix(at+"."+name, ".")
			if inRow && absent(given[name]) && !strings.Contains(options, "omit") {
				return fmt.Errorf("%s: it is missing", path)
			}
			if err := complete(f.Type, given[name], path, inRow); err != nil {
				return err
			}
		}
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
