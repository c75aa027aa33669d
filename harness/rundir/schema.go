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
	b := &schema.Builder{Docs: docs, Required: true, Special: SpecialSchemas()}
	root, err := b.Of(reflect.ValueOf(Summary{}))
	if err != nil {
		return nil, err
	}
	root.Property("schema_version")["pattern"] = schema.Semver
	root.Property("variants")["items"].(schema.Schema).Property("correctness")["enum"] = answers()
	return root.Encode(SchemaID, "stampede summary")
}

// SpecialSchemas are those of types in a summary that JSON spells otherwise than Go.
func SpecialSchemas() map[reflect.Type]schema.Schema {
	return map[reflect.Type]schema.Schema{
		reflect.TypeFor[check.Status](): {
			"enum": []string{
				check.Undecided.String(), check.Held.String(), check.Broken.String(),
			},
		},
	}
}
