package scenario

import (
	"fmt"
	"slices"
	"strings"

	"stampede/harness/schema"
)

// shapes says which fields a mapping has for each value of one of them.
type shapes struct {
	// by is the field that decides, and each lists what belongs to all of its values.
	by   string
	each []string
	list []shape
}

// shape is what belongs to one value: the fields that it needs and those that it may have.
type shape struct{ value, needs, may string }

// arrivalShapes are the arrival processes.
func arrivalShapes() shapes {
	return shapes{"process", nil, []shape{
		{"constant", "rate over", "poisson"},
		{"ramp", "rate to over", "poisson"},
		{"step", "steps", "poisson"},
		{"spike", "rate to for over", "at poisson"},
		{"sine", "rate to period over", "poisson"},
		{"poisson", "rate over", ""},
		{"burst", "ops over", "over_least over_most at_once peak poisson"},
		{"trace", "trace", ""},
	}}
}

// faultShapes are the kinds of faults.
func faultShapes() shapes {
	return shapes{"kind", []string{"name", "target", "at"}, []shape{
		{"kill", "for", "wipe"},
		{"pause", "for", ""},
		{"restart", "", ""},
		{"latency", "for latency", "jitter"},
		{"partition", "for", "from"},
		{"lost-ack", "for", ""},
		{"lost-request", "for", ""},
		{"power-loss", "for", "loses"},
		{"lag", "for", ""},
		{"crash", "for place", "passage"},
		{"churn", "for", "every how"},
	}}
}

// values lists what the field that decides may be.
func (s shapes) values() []string {
	var values []string
	for _, shape := range s.list {
		values = append(values, shape.value)
	}
	return values
}

// fields lists what belongs to a value, and what of it is needed.
func (s shapes) fields(of shape) (known, needs []string) {
	needs = strings.Fields(of.needs)
	return slices.Concat([]string{s.by}, s.each, needs, strings.Fields(of.may)), needs
}

// shaped checks that the mapping at a path has one of the shapes. It says whether the field
// that decides is there and known.
func (v *validation) shaped(s shapes, path ...string) bool {
	n, _ := v.at(path...)
	v.missing(n, s.by, oneOf(s.values()))
	by := n.get(s.by)
	if by == nil || by.kind != text {
		return false
	}
	i := slices.Index(s.values(), by.text)
	if i < 0 {
		v.unknownName(by.where, s.by, by.text, s.values())
		return false
	}
	known, needs := s.fields(s.list[i])
	for _, name := range needs {
		v.missing(n, name, "it for "+s.by+" "+by.text)
	}
	for _, f := range n.fields {
		if slices.Contains(known, f.name) || v.seen[f.value.key] || v.seen[f.value.where] {
			continue
		}
		what := fmt.Sprintf("%s does not belong to %s %s", f.name, s.by, by.text)
		if f.name == "rate" && slices.Contains(known, "ops") {
			what += ", which has a number of operations (--set load.arrival.ops=...)"
		}
		v.wrong(f.value, what, oneOf(known))
	}
	return true
}

// refine says in a schema what shaped checks; more adds to what holds for a value.
func (s shapes) refine(object schema.Schema, more func(value string, then schema.Schema)) {
	object.Property(s.by).With(enum(s.values()))
	required, _ := object["required"].([]string)
	object["required"] = append(required, s.by)
	var conditions []schema.Schema
	for _, shape := range s.list {
		known, needs := s.fields(shape)
		then := schema.Schema{"required": needs, "propertyNames": enum(known)}
		more(shape.value, then)
		conditions = append(conditions, when(s.by, shape.value, then))
	}
	object["allOf"] = conditions
}
