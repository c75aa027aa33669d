package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/check"
	"stampede/harness/sut"
)

// decoder fills Go values from nodes strictly: an unknown field, a wrong type
// or a number out of range is a problem, and decoding goes on after it.
type decoder struct {
	*problems
	// typos holds, for each mapping, the known names that unknown ones were
	// probably meant to be, so that they are not reported missing as well.
	typos map[*node][]string
}

// into decodes n into v, which must be settable. Fields of v that n does not
// mention keep their value; that is how defaults work.
func (d *decoder) into(n *node, v reflect.Value) {
	switch {
	case n.kind == null:
		d.wrong(n, "a value is missing", expected(v.Type()))
	case v.Type() == reflect.TypeFor[Over]() && n.kind == text && n.text == fitText:
		v.SetInt(int64(Fit))
	case v.Type() == reflect.TypeFor[Duration](), v.Type() == reflect.TypeFor[Over]():
		d.duration(n, v)
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		// The system's own part, decoded by Decode into the system's type.
	default:
		d.kind(n, v)
	}
}

func (d *decoder) kind(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v)
	case reflect.Slice:
		d.slice(n, v)
	case reflect.Map:
		d.dictionary(n, v)
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		d.into(n, fresh.Elem())
		v.Set(fresh)
	default:
		d.scalar(n, v)
	}
}

func (d *decoder) wrong(n *node, what, want string) {
	d.add(Problem{Where: n.where, What: what, Expected: want})
}

func (d *decoder) mismatch(n *node, v reflect.Value) {
	d.wrong(n, "unexpected "+n.show(), expected(v.Type()))
}

func (d *decoder) structure(n *node, v reflect.Value) {
	if n.kind != mapping {
		d.mismatch(n, v)
		return
	}
	known := writable(v.Type())
	for _, f := range n.fields {
		of, ok := fieldOf(v.Type(), f.name)
		if !ok {
			d.unknown(n, f, known)
			continue
		}
		before, to := len(d.list), v.FieldByIndex(of.Index)
		d.into(f.value, to)
		if len(d.list) == before {
			d.bounded(f, bounds.Of(of), to)
		}
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if want, must := f.Tag.Lookup("required"); must {
			d.missing(n, jsonName(f), want)
		}
	}
}

// bounded checks a value by the limits that the tags of its field state.
func (d *decoder) bounded(f field, limits bounds.Field, v reflect.Value) {
	want := limits.Want(reflect.Indirect(v))
	switch {
	case want == "":
	case limits.Enum != nil && f.value.kind == text:
		d.unknownName(f.value.where, f.name, f.value.text, limits.Enum)
	case f.value.kind == list:
		d.wrong(f.value, fmt.Sprintf("%s has %d elements", f.name, v.Len()), want)
	case v.Kind() == reflect.String:
		d.wrong(f.value, f.name+" is "+f.value.show(), want)
	default:
		d.wrong(f.value, f.name+" is "+f.value.text, want)
	}
}

// missing reports that a mapping has no field of a name, unless it has one that is misspelt.
func (d *decoder) missing(n *node, name, want string) {
	if n.get(name) == nil && !slices.Contains(d.typos[n], name) {
		d.add(Problem{Where: n.place(), What: name + " is missing", Expected: want})
	}
}

// unknownName reports a name that is none of the known ones.
func (d *decoder) unknownName(where Where, what, name string, known []string) {
	d.add(Problem{
		Where: where, What: fmt.Sprintf("unknown %s %q", what, name),
		Expected: oneOf(known), Suggestion: check.Nearest(name, known),
	})
}

// writable lists the fields that people write. Of a scenario that is profiles
// rather than profile, which only Scenario.YAML writes.
func writable(t reflect.Type) []string {
	names := fieldNames(t)
	if t == reflect.TypeFor[Scenario]() {
		names[slices.Index(names, "profile")] = "profiles"
	}
	return names
}

func (d *decoder) unknown(n *node, f field, known []string) {
	meant := check.Nearest(f.name, known)
	if meant != "" {
		if d.typos == nil {
			d.typos = make(map[*node][]string)
		}
		d.typos[n] = append(d.typos[n], meant)
	}
	d.add(Problem{
		Where: f.value.key, What: fmt.Sprintf("unknown field %q", f.name),
		Expected: oneOf(known), Suggestion: meant,
	})
}

func (d *decoder) slice(n *node, v reflect.Value) {
	if n.kind != list {
		d.mismatch(n, v)
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.into(item, items.Index(i))
	}
	v.Set(items)
}

// dictionary decodes a map with text keys. Values of type string may be
// written as any scalar, as settings are: max_connections: 200.
func (d *decoder) dictionary(n *node, v reflect.Value) {
	if n.kind != mapping {
		d.mismatch(n, v)
		return
	}
	entries := reflect.MakeMapWithSize(v.Type(), len(n.fields))
	for _, f := range n.fields {
		value := reflect.New(v.Type().Elem()).Elem()
		if value.Kind() == reflect.String && (f.value.kind == boolean || numeric(f.value)) {
			value.SetString(f.value.text)
		} else {
			d.into(f.value, value)
		}
		entries.SetMapIndex(reflect.ValueOf(f.name).Convert(v.Type().Key()), value)
	}
	v.Set(entries)
}

func numeric(n *node) bool { return n.kind == integer || n.kind == float }

func (d *decoder) scalar(n *node, v reflect.Value) {
	ok := false
	switch {
	case v.Kind() == reflect.String && n.kind == text:
		v.SetString(n.text)
		ok = true
	case v.Kind() == reflect.Bool && n.kind == boolean:
		v.SetBool(n.text == "true")
		ok = true
	case v.CanInt() && numeric(n):
		ok = d.signed(n, v)
	case v.CanUint() && numeric(n):
		ok = d.unsigned(n, v)
	case v.CanFloat() && numeric(n):
		f, err := strconv.ParseFloat(n.text, 64)
		if ok = err == nil && !math.IsInf(f, 0); ok {
			v.SetFloat(f)
		}
	}
	if !ok {
		d.mismatch(n, v)
	}
}

// signed also takes numbers such as 1e5 that are whole, as JSON Schema does.
func (d *decoder) signed(n *node, v reflect.Value) bool {
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(n.text, 64)
		if n.kind != float || ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return false
		}
		i = int64(f)
	}
	if v.OverflowInt(i) {
		return false
	}
	v.SetInt(i)
	return true
}

func (d *decoder) unsigned(n *node, v reflect.Value) bool {
	u, err := strconv.ParseUint(strings.TrimPrefix(n.text, "+"), 10, 64)
	if err != nil || v.OverflowUint(u) {
		return false
	}
	v.SetUint(u)
	return true
}

const durationForm = `a duration with a unit such as "500ms" or "2s"`

func (d *decoder) duration(n *node, v reflect.Value) {
	if numeric(n) || (n.kind == text && floatForm.MatchString(n.text)) {
		d.add(Problem{
			Where: n.where, What: fmt.Sprintf("the unit of %s is missing", n.text),
			Expected: durationForm, Suggestion: withUnit(n.text),
		})
		return
	}
	if n.kind != text {
		d.wrong(n, "unexpected "+n.show(), durationForm)
		return
	}
	parsed, err := time.ParseDuration(n.text)
	switch {
	case err != nil:
		d.wrong(n, fmt.Sprintf("%q is not a duration", n.text), durationForm)
	case parsed < 0:
		d.wrong(n, fmt.Sprintf("%q is negative", n.text), "a duration of zero or more")
	default:
		v.SetInt(int64(parsed))
	}
}

// withUnit guesses the unit of a number without one: most durations below mostSeconds are
// meant in seconds, larger ones in milliseconds.
func withUnit(number string) string {
	number = strings.TrimPrefix(number, "+")
	if x, err := strconv.ParseFloat(number, 64); err == nil && x < mostSeconds {
		return number + "s"
	}
	return number + "ms"
}

const mostSeconds = 100

// expected describes the values of a type.
func expected(t reflect.Type) string {
	if t == reflect.TypeFor[sut.Duration]() || t == reflect.TypeFor[Over]() {
		return durationForm
	}
	switch t.Kind() {
	case reflect.Struct:
		return "a mapping with " + strings.Join(writable(t), ", ")
	case reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of zero or more"
	case reflect.Pointer:
		return expected(t.Elem())
	}
	return "a whole number"
}

// fieldNames lists the JSON names of a struct's fields in their order.
func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func fieldOf(t reflect.Type, name string) (of reflect.StructField, ok bool) {
	for _, f := range reflect.VisibleFields(t) {
		if jsonName(f) == name {
			return f, name != ""
		}
	}
	return of, false
}

// jsonName is the name of a field in JSON, or "" if it has none, as an embedded struct, whose
// fields are those of the struct around it.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case !f.IsExported() || name == "-" || f.Anonymous && name == "":
		return ""
	case name == "":
		return f.Name
	}
	return name
}
