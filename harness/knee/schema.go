package knee

import (
	_ "embed" // knee.schema.json
	"reflect"

	"stampede/harness/schema"
)

// SchemaID is the identifier of the schema of knee.json.
const SchemaID = "https://stampede.invalid/schema/knee-1.json"

//go:embed knee.schema.json
var summarySchema []byte

// Schema returns the committed JSON Schema of knee.json.
func Schema() []byte { return append([]byte(nil), summarySchema...) }

// MakeSchema makes the JSON Schema of knee.json from the types.
func MakeSchema(docs schema.Docs) ([]byte, error) {
	b := &schema.Builder{Docs: docs, Required: true, Special: map[reflect.Type]schema.Schema{
		reflect.TypeFor[Verdict](): {"enum": []Verdict{Held, Missed, Broke, Undecided}},
		reflect.TypeFor[Step]():    {"enum": []Step{Bracket, Bisect, Confirm}},
		reflect.TypeFor[Outcome](): {
			"enum": []Outcome{Found, Beyond, Nowhere, NotDecided, Stopped},
		},
	}}
	root, err := b.Of(reflect.ValueOf(Summary{}))
	if err != nil {
		return nil, err
	}
	root.Property("schema_version")["pattern"] = schema.Semver
	return root.Encode(SchemaID, "stampede knee")
}
