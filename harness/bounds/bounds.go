// Package bounds checks values by the limits that the tags of their fields state, so that a
// decoder, a message and a schema cannot differ about them.
//
// The tags are min and max, both inclusive, enum, a list with commas, and form, the name of a
// form that a text has. On numbers min and max are numbers, on durations they are durations
// such as "1ms", on texts they are lengths in bytes and on lists numbers of elements.
// The elements of lists, and structures in structures, are checked too. What JSON may leave
// out is left out if it is zero. A field is called by its name in JSON.
package bounds

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Field is what a field's tags state.
type Field struct {
	// Min and Max are the limits: of a number itself, of a duration in nanoseconds, of a text
	// its bytes, of a list its elements. HasMin and HasMax say which there are.
	Min, Max       float64
	HasMin, HasMax bool
	// Enum lists all values of a text or a signed whole number, if there is such a list.
	Enum []string
	// Pattern is a regular expression that a text matches, and words describe it; "" if any
	// text will do.
	Pattern, words string
	match          *regexp.Regexp

	// low and high are Min and Max of whole numbers, which a float64 rounds.
	low  int64
	high uint64
	// duration says that it is of a duration.
	duration bool
}

// Of reads the tags of a field. A tag that cannot be read is a defect of the program: it
// panics.
func Of(f reflect.StructField) Field {
	b := Field{low: math.MinInt64, high: math.MaxUint64, duration: isDuration(f.Type)}
	if text, has := f.Tag.Lookup("min"); has {
		b.HasMin, b.Min = true, limit(f, text)
		b.low, _ = strconv.ParseInt(text, 10, 64)
	}
	if text, has := f.Tag.Lookup("max"); has {
		b.HasMax, b.Max = true, limit(f, text)
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			b.high = n
		}
	}
	if text, has := f.Tag.Lookup("enum"); has {
		b.Enum = strings.Split(text, ",")
	}
	if form, has := f.Tag.Lookup("form"); has {
		b.Pattern, b.words = pattern(f, form)
		b.match = regexp.MustCompile(b.Pattern)
	}
	return b
}

// pattern is what a form is called for, and how messages describe it.
func pattern(f reflect.StructField, form string) (pattern, words string) {
	switch form {
	case "name":
		return `^[a-z0-9]+([-_][a-z0-9]+)*$`, "lower-case letters, digits and hyphens"
	case "text":
		return `^[^\x00]*$`, "UTF-8 without the character 0, which not every store takes"
	case "filled":
		return `\S`, "text that is not blank"
	}
	panic(fmt.Sprintf("bounds: field %s: there is no form %q", f.Name, form))
}

// Least and Most are the limits as JSON has them: whole numbers of whole numbers, and none of
// durations, which are texts there.
func (b Field) Least() (limit any, has bool) { return b.number(b.HasMin, b.Min, b.low) }

// Most is the upper limit. See Least.
func (b Field) Most() (limit any, has bool) { return b.number(b.HasMax, b.Max, b.high) }

func (b Field) number(has bool, limit float64, whole any) (any, bool) {
	switch {
	case !has || b.duration:
		return nil, false
	case limit == math.Trunc(limit):
		return whole, true
	}
	return limit, true
}

func limit(f reflect.StructField, text string) float64 {
	if isDuration(f.Type) {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("bounds: field %s: %v", f.Name, err))
		}
		return float64(d)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("bounds: field %s: %v", f.Name, err))
	}
	return x
}

// isDuration says whether a type is time.Duration or one like it.
func isDuration(t reflect.Type) bool {
	return t.Kind() == reflect.Int64 && t.Name() == "Duration"
}

// Check returns every value in v that is out of its bounds, each as "name: expected …, got
// …", or nil. v is a structure or a pointer to one.
func Check(v any) error {
	t := reflect.Indirect(reflect.ValueOf(v)).Type()
	c, known := checkers().Load(t)
	if !known {
		c, _ = checkers().LoadOrStore(t, For(t))
	}
	return c.(*Checker).Check(v)
}

// checkers are those that Check has made, by type.
var checkers = sync.OnceValue(func() *sync.Map { return &sync.Map{} })

// Checker checks the values of one type.
type Checker struct{ rules []rule }

// For makes a checker of a structure's type.
func For(t reflect.Type) *Checker { return checkerOf(t, false, map[reflect.Type]*Checker{}) }

// Lower makes a checker that leaves upper limits out.
func Lower(t reflect.Type) *Checker { return checkerOf(t, true, map[reflect.Type]*Checker{}) }

// Check is as the function Check, for values of the checker's type.
func (c *Checker) Check(v any) error {
	return errors.Join(c.check(nil, "", reflect.Indirect(reflect.ValueOf(v)))...)
}

// check adds what is wrong in a structure that lies at a path.
func (c *Checker) check(errs []error, at string, v reflect.Value) []error {
	for i := range c.rules {
		r := &c.rules[i]
		errs = r.check(errs, at+r.name, v.FieldByIndex(r.index))
	}
	return errs
}

// rule is how one field of a structure is checked, and the structures in it.
type rule struct {
	Field
	name  string
	index []int
	// optional says that zero stands for what is left out.
	optional bool
	inner    *Checker // nil if there are none
}

// checkerOf makes a checker, of lower limits alone or of all; known has those of the types
// around it.
func checkerOf(t reflect.Type, lower bool, known map[reflect.Type]*Checker) *Checker {
	if c, has := known[t]; has {
		return c
	}
	c := &Checker{}
	known[t] = c
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" || !reachable(t, f.Index) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		r := rule{Field: Of(f), name: name, index: f.Index,
			optional: strings.Contains(options, "omit")}
		if lower {
			r.HasMax, r.high = false, math.MaxUint64
		}
		if inner := structIn(f.Type); inner != nil {
			r.inner = checkerOf(inner, lower, known)
		}
		if r.HasMin || r.HasMax || r.Enum != nil || r.Pattern != "" || r.inner != nil {
			c.rules = append(c.rules, r)
		}
	}
	return c
}

// reachable says whether no pointer lies on the way to a field, which may be nil.
func reachable(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() != reflect.Struct {
			return false
		}
	}
	return true
}

// structIn is the structure that a value is, points to or lists, nil if there is none.
func structIn(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return structIn(t.Elem())
	case reflect.Struct:
		if t != reflect.TypeFor[time.Time]() {
			return t
		}
	}
	return nil
}

func (r *rule) check(errs []error, name string, v reflect.Value) []error {
	if r.optional && v.IsZero() {
		return errs
	}
	if want := r.Unmet(v); want != "" {
		return append(errs, fmt.Errorf("%s: expected %s", name, want))
	}
	if r.inner == nil {
		return errs
	}
	return r.inside(errs, name, v)
}

// inside checks what lies in a value.
func (r *rule) inside(errs []error, name string, v reflect.Value) []error {
	switch v.Kind() {
	case reflect.Struct:
		return r.inner.check(errs, name+".", v)
	case reflect.Pointer:
		if !v.IsNil() {
			return r.inside(errs, name, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			errs = r.inside(errs, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	}
	return errs
}

// Unmet says what was expected of a value and what it is, "1 to 5, got 7"; "" if it is in
// its bounds.
func (b Field) Unmet(v reflect.Value) string {
	want := b.Want(v)
	if want == "" {
		return ""
	}
	return want + ", got " + b.shown(v)
}

// Want says what was expected of a value; "" if it is in its bounds.
func (b Field) Want(v reflect.Value) string {
	switch {
	case isDuration(v.Type()):
		if b.outside(float64(v.Int())) {
			return "a duration " + b.span(func(x float64) string { return time.Duration(x).String() })
		}
	case v.CanInt():
		n := v.Int()
		if b.Enum != nil && !slices.Contains(b.Enum, strconv.FormatInt(n, 10)) {
			return b.listed()
		}
		if n < b.low || n > 0 && uint64(n) > b.high {
			return b.whole()
		}
	case v.CanUint():
		n := v.Uint()
		if b.low > 0 && n < uint64(b.low) || n > b.high {
			return b.whole()
		}
	case v.CanFloat():
		if b.outside(v.Float()) {
			return "a number " + b.span(func(x float64) string {
				return strconv.FormatFloat(x, 'g', -1, 64)
			})
		}
	case v.Kind() == reflect.String:
		return b.text(v.String())
	case v.Kind() == reflect.Slice:
		if b.outside(float64(v.Len())) {
			return b.whole()
		}
	}
	return ""
}

func (b Field) text(text string) string {
	switch {
	case b.Enum != nil && !slices.Contains(b.Enum, text):
		return b.listed()
	case b.match != nil && !(utf8.ValidString(text) && b.match.MatchString(text)):
		return b.words
	case b.outside(float64(len(text))):
		return b.whole() + " bytes"
	}
	return ""
}

func (b Field) listed() string {
	last := len(b.Enum) - 1
	return strings.Join(b.Enum[:last], ", ") + " or " + b.Enum[last]
}

// shown is a value as a message quotes it: of what has a limit on its length, the length.
func (b Field) shown(v reflect.Value) string {
	switch {
	case isDuration(v.Type()):
		return time.Duration(v.Int()).String()
	case v.Kind() == reflect.String && b.Enum == nil && b.Pattern == "", v.Kind() == reflect.Slice:
		return strconv.Itoa(v.Len())
	case v.Kind() == reflect.String:
		return fmt.Sprintf("%.40q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

// outside is also true of NaN, which compares false with everything.
func (b Field) outside(x float64) bool {
	return b.HasMin && !(x >= b.Min) || b.HasMax && !(x <= b.Max)
}

// whole writes limits that are whole numbers.
func (b Field) whole() string {
	switch {
	case !b.HasMax:
		return fmt.Sprintf("%d or more", b.low)
	case !b.HasMin:
		return fmt.Sprintf("at most %d", b.high)
	}
	return fmt.Sprintf("%d to %d", b.low, b.high)
}

func (b Field) span(write func(float64) string) string {
	switch {
	case b.duration && b.Min == 1 && b.HasMax: // a nanosecond stands for anything above zero
		return "of more than zero and at most " + write(b.Max)
	case !b.HasMax:
		return "of " + write(b.Min) + " or more"
	case !b.HasMin:
		return "of at most " + write(b.Max)
	}
	return "from " + write(b.Min) + " to " + write(b.Max)
}
