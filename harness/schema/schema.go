// Package schema makes JSON Schemas (draft 2020-12) of Go types, so that the
// files people write and programs read are described by the code that decodes
// them and by nothing else.
package schema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"stampede/harness/bounds"
)

// Draft is the dialect of every schema that is made here.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Semver is the pattern of a version of three numbers, as documents carry theirs.
const Semver = `^[0-9]+\.[0-9]+\.[0-9]+$`

// Schema is a JSON Schema. Its JSON has its keys in alphabetical order, so
// equal schemas are equal bytes.
type Schema map[string]any

// Builder makes schemas. The zero value knows no comments and no special
// types.
type Builder struct {
	// Docs has the descriptions of types and fields. A doc tag on a field
	// goes before it.
	Docs Docs
	// Special replaces what would be made of a type.
	Special map[reflect.Type]Schema
	// Named, if set, takes the schemas of structures that have a name, to which references of
	// the form "#/components/schemas/Name" are made, as in OpenAPI.
	Named map[string]Schema
	// Open lets objects have properties that are not described.
	Open bool
	// Required makes every field required that is not marked omitempty or
	// omitzero, as is right for what a program writes. A field with a tag required always is.
	Required bool
	// Defaults adds the values in the given Go value as defaults of their fields; Zeros says
	// that zeros are defaults too.
	Defaults, Zeros bool
}

// Of makes the schema of a value's type, without any reference. The value's
// fields are the defaults. A type that JSON cannot hold, a recursive one or a
// map without text keys is an error.
func (b *Builder) Of(v reflect.Value) (Schema, error) { return b.of(v, 0) }

// maxDepth is deeper than any file format of ours; a recursive type reaches it.
const maxDepth = 24

func (b *Builder) of(v reflect.Value, depth int) (Schema, error) {
	t := v.Type()
	if depth > maxDepth {
		return nil, fmt.Errorf("schema: %s is nested too deeply or recursive", t)
	}
	if special, ok := b.Special[t]; ok {
		return special.Clone(), nil
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return Schema{}, nil
	case t == reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}, nil
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return Schema{"type": "string"}, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		if b.Named != nil && t.Name() != "" {
			return b.reference(v, depth)
		}
		return b.object(v, depth)
	case reflect.Pointer:
		return b.of(reflect.Zero(t.Elem()), depth+1)
	case reflect.Slice, reflect.Array:
		return b.list(t, depth)
	case reflect.Map:
		return b.dictionary(t, depth)
	}
	return scalar(t)
}

// reference describes a structure by its name.
func (b *Builder) reference(v reflect.Value, depth int) (Schema, error) {
	name := v.Type().Name()
	if _, has := b.Named[name]; !has {
		b.Named[name] = nil // of a recursive type the reference is enough
		s, err := b.object(v, depth)
		if err != nil {
			return nil, err
		}
		b.Named[name] = s
	}
	return Schema{"$ref": "#/components/schemas/" + name}, nil
}

// Scalar makes the schema of a number, a text or a truth value within bounds.
func Scalar(t reflect.Type, limits bounds.Field) (Schema, error) {
	s, err := scalar(t)
	if err == nil {
		s.bound(limits)
	}
	return s, err
}

// bound adds the limits of a field.
func (s Schema) bound(limits bounds.Field) {
	low, high := "", ""
	switch s["type"] {
	case "integer", "number":
		low, high = "minimum", "maximum"
	case "string":
		low, high = "minLength", "maxLength"
	case "array":
		low, high = "minItems", "maxItems"
	}
	if least, has := limits.Least(); has && low != "" {
		s[low] = least
	}
	if most, has := limits.Most(); has && high != "" {
		s[high] = most
	}
	switch {
	case limits.Enum != nil && s["type"] == "integer":
		s["enum"] = json.RawMessage("[" + strings.Join(limits.Enum, ",") + "]")
	case limits.Enum != nil:
		s["enum"] = limits.Enum
	}
	if limits.Pattern != "" {
		s["pattern"] = limits.Pattern
	}
}

func scalar(t reflect.Type) (Schema, error) {
	switch t.Kind() {
	case reflect.Bool:
		return Schema{"type": "boolean"}, nil
	case reflect.String:
		return Schema{"type": "string"}, nil
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}, nil
	}
	return nil, fmt.Errorf("schema: %s has no place in JSON", t)
}

func (b *Builder) list(t reflect.Type, depth int) (Schema, error) {
	if t == reflect.TypeFor[[]byte]() {
		return Schema{"type": "string", "contentEncoding": "base64"}, nil
	}
	items, err := b.of(reflect.Zero(t.Elem()), depth+1)
	if err != nil {
		return nil, err
	}
	s := Schema{"type": "array", "items": items}
	if t.Kind() == reflect.Array {
		s["minItems"], s["maxItems"] = t.Len(), t.Len()
	}
	return s, nil
}

func (b *Builder) dictionary(t reflect.Type, depth int) (Schema, error) {
	if t.Key().Kind() != reflect.String {
		return nil, fmt.Errorf("schema: %s has keys that are not text", t)
	}
	values, err := b.of(reflect.Zero(t.Elem()), depth+1)
	if err != nil {
		return nil, err
	}
	return Schema{"type": "object", "additionalProperties": values}, nil
}

func (b *Builder) object(v reflect.Value, depth int) (Schema, error) {
	t := v.Type()
	properties, required := Schema{}, []string{}
	if err := b.fields(v, depth, properties, &required); err != nil {
		return nil, err
	}
	s := Schema{"type": "object", "properties": properties}
	if !b.Open {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if text := b.Docs.Of(t); text != "" {
		s["description"] = text
	}
	return s, nil
}

// fields adds the fields of a structure, and those of structures embedded in it.
func (b *Builder) fields(
	v reflect.Value, depth int, properties Schema, required *[]string,
) error {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct {
			if err := b.fields(v.Field(i), depth, properties, required); err != nil {
				return err
			}
			continue
		}
		name, optional := jsonField(f)
		if name == "" || f.Tag.Get("header") != "" || f.Tag.Get("status") != "" {
			continue // it is not in a body: see package api
		}
		property, err := b.of(v.Field(i), depth+1)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.Name(), f.Name, err)
		}
		if text := b.describe(t, f); text != "" {
			property["description"] = text
		}
		property.bound(bounds.Of(f))
		if b.Defaults && b.isDefault(v.Field(i)) && property["type"] != "object" {
			property["default"] = json.RawMessage(mustJSON(v.Field(i)))
		}
		properties[name] = property
		if _, must := f.Tag.Lookup("required"); must || b.Required && !optional {
			*required = append(*required, name)
		}
	}
	return nil
}

// isDefault says whether a value is a default to show: nil never is.
func (b *Builder) isDefault(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return !v.IsNil()
	}
	return b.Zeros || !v.IsZero()
}

func (b *Builder) describe(t reflect.Type, f reflect.StructField) string {
	if text := f.Tag.Get("doc"); text != "" {
		return text
	}
	return b.Docs.Field(t, f.Name)
}

// mustJSON encodes a default. The type has been found to fit into JSON, so
// only a NaN can fail, which is no default.
func mustJSON(v reflect.Value) []byte {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		panic(fmt.Sprintf("schema: the default of %s: %v", v.Type(), err))
	}
	return data
}

// jsonField is the name of a field in JSON, "" if it has none, and whether it
// may be left out.
func jsonField(f reflect.StructField) (name string, optional bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" {
		return "", false
	}
	if name == "" {
		name = f.Name
	}
	return name, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
}

// Clone copies a schema deeply.
func (s Schema) Clone() Schema { return clone(s).(Schema) }

func clone(v any) any {
	switch v := v.(type) {
	case Schema:
		out := make(Schema, len(v))
		for key, value := range v {
			out[key] = clone(value)
		}
		return out
	case []Schema:
		out := make([]Schema, len(v))
		for i, item := range v {
			out[i] = item.Clone()
		}
		return out
	}
	return v
}

// Property is the schema of a field, at any depth of objects. It panics if
// there is none: the caller names fields of a type it knows.
func (s Schema) Property(path ...string) Schema {
	at := s
	for _, name := range path {
		properties, ok := at["properties"].(Schema)
		if !ok {
			panic(fmt.Sprintf("schema: no object where %q is looked for", name))
		}
		if at, ok = properties[name].(Schema); !ok {
			panic(fmt.Sprintf("schema: no property %q", name))
		}
	}
	return at
}

// With sets keywords and returns s.
func (s Schema) With(keywords Schema) Schema {
	for key, value := range keywords {
		s[key] = value
	}
	return s
}

// Patch is the schema of a JSON merge patch (RFC 7396) to documents of s:
// nothing is required, and every field of an object may be null, which
// removes it. Lists are replaced as a whole and stay as they are.
func (s Schema) Patch() Schema {
	patched := s.Clone()
	if patched["type"] != "object" {
		return patched
	}
	for _, keyword := range []string{"required", "allOf", "oneOf", "not"} {
		delete(patched, keyword)
	}
	if properties, ok := patched["properties"].(Schema); ok {
		for name, property := range properties {
			properties[name] = orNull(property.(Schema).Patch())
		}
	}
	if values, ok := patched["additionalProperties"].(Schema); ok {
		patched["additionalProperties"] = orNull(values.Patch())
	}
	return patched
}

// orNull allows null beside what s allows. The description stays outside,
// where editors look for it.
func orNull(s Schema) Schema {
	out := Schema{"anyOf": []Schema{s, {"type": "null"}}}
	if text, ok := s["description"]; ok {
		out["description"] = text
		delete(s, "description")
	}
	return out
}

// Encode writes a schema as a document of its own.
func (s Schema) Encode(id, title string) ([]byte, error) {
	document := s.Clone().With(Schema{"$schema": Draft, "$id": id, "title": title})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document); err != nil {
		return nil, fmt.Errorf("encode schema %s: %w", title, err)
	}
	return b.Bytes(), nil
}
