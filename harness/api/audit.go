package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"stampede/harness/bounds"
)

// DecodeAudit reads an audit, which is a structure, by the tags of its fields: json, min, max
// and enum, as the API's description has them. A list of the audit itself that is left out
// stays nil, so that judges can say what they miss; in a row everything has to be there but
// what encoding may omit. Fields that it does not know are skipped. An audit whose pointer has
// a method Check() error checks there what bounds cannot say. An error names a bad field by
// its path: orders[3].state.
func DecodeAudit[A any](raw json.RawMessage) (A, error) {
	audit, err := decodeAudit[A](raw)
	if err != nil {
		var none A
		return none, fmt.Errorf("decoding the audit: %w", err)
	}
	return audit, nil
}

func decodeAudit[A any](raw json.RawMessage) (audit A, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return audit, errors.New("there is none")
	}
	if err := json.Unmarshal(raw, &audit); err != nil {
		return audit, err
	}
	if err := rowsComplete(reflect.TypeFor[A](), raw); err != nil {
		return audit, err
	}
	if err := bounds.Check(&audit); err != nil {
		return audit, err
	}
	if c, can := any(&audit).(interface{ Check() error }); can {
		return audit, c.Check()
	}
	return audit, nil
}

// rowsComplete says what is missing in the parts of a structure, if not of the structure
// itself.
func rowsComplete(t reflect.Type, raw json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if err := complete(f.Type, given[name], name); err != nil {
			return err
		}
	}
	return nil
}

// complete says what is missing in a value that lies at a path.
func complete(t reflect.Type, raw json.RawMessage, at string) error {
	if absent(raw) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return complete(t.Elem(), raw, at)
	case reflect.Slice:
		if k := t.Elem().Kind(); k != reflect.Struct && k != reflect.Slice {
			return nil
		}
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for i, element := range list {
			if err := complete(t.Elem(), element, fmt.Sprintf("%s[%d]", at, i)); err != nil {
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
			if absent(given[name]) && !strings.Contains(options, "omit") {
				return fmt.Errorf("%s.%s: it is missing", at, name)
			}
			if err := complete(f.Type, given[name], at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
