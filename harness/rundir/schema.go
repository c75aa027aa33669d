package rundir

import (
	_ "embed" // summary.schema.json
	"reflect"

	"stampede/harness/check"
	"stampede/harness/schema"
)

// SchemaID is the identifier of the schema of summary.json.
const SchemaID = "https://stampede.invalid/schema/summary-2.json"

//go:embed summary.schema.json
var summarySchema []byte

// SummarySchema returns the committed JSON Schema of summary.json.
func SummarySchema() []byte { return append([]byte(nil), summarySchema...) }

// MakeSchema makes the JSON Schema of summary.json from the types.
func MakeSchema(docs schema.Docs) ([]byte, error) {
	b := &schema.Builder{Docs: docs, Required: true, Special: SpecialSchemas(docs)}
	root, err := b.Of(reflect.ValueOf(Summary{}))
	if err != nil {
		return nil, err
	}
	root.Property("schema_version")["pattern"] = schema.Semver
	enum := func(of schema.Schema, name string, values []string) {
		of.Property(name).With(schema.Schema{"enum": values})
	}
	verdict, variant := root.Property("verdict"), root.Property("variants")["items"].(schema.Schema)
	repeat := variant.Property("repeats")["items"].(schema.Schema)
	enum(verdict, "overall", verdicts())
	enum(verdict, "correctness", verdicts())
	enum(variant, "correctness", answers())
	for _, of := range []schema.Schema{variant, repeat} {
		enum(of, "verdict", verdicts())
	}
	for _, of := range []schema.Schema{verdict, variant, repeat} {
		enum(of, "timing", timings())
	}
	for _, of := range []schema.Schema{verdict, variant} {
		enum(of, "objectives", objectives())
	}
	return root.Encode(SchemaID, "stampede summary")
}

// SpecialSchemas are those of types in a summary that JSON spells otherwise than
// Go, or whose values are bounded.
func SpecialSchemas(docs schema.Docs) map[reflect.Type]schema.Schema {
	return map[reflect.Type]schema.Schema{
		reflect.TypeFor[check.Status](): {
			"enum": []string{
				check.Undecided.String(), check.Held.String(), check.Broken.String(),
			},
		},
		reflect.TypeFor[Percentiles](): percentilesSchema(docs),
	}
}

// percentilesSchema allows nothing below zero.
func percentilesSchema(docs schema.Docs) schema.Schema {
	count := schema.Schema{"type": "integer", "minimum": 0}
	properties := schema.Schema{}
	names := []string{"count", "max", "p50", "p90", "p99", "p999"}
	for _, name := range names {
		properties[name] = count.Clone()
	}
	return schema.Schema{
		"type": "object", "properties": properties, "required": names,
		"additionalProperties": false,
		"description":          docs.Of(reflect.TypeFor[Percentiles]()),
	}
}
