package events

import (
	_ "embed" // events.schema.json
	"reflect"

	"stampede/harness/rundir"
	"stampede/harness/schema"
)

// SchemaID is the identifier of the schema of an event.
const SchemaID = "https://stampede.invalid/schema/events-1.json"

//go:embed events.schema.json
var eventSchema []byte

// Schema returns the committed JSON Schema of one event.
func Schema() []byte { return append([]byte(nil), eventSchema...) }

// MakeSchema makes the JSON Schema of an event from the types.
func MakeSchema(docs schema.Docs) ([]byte, error) {
	var kinds []Type
	var one, named []schema.Schema // exactly one such field, and the one that is named
	for _, p := range new(Event).payloads() {
		kinds = append(kinds, p.kind)
		one = append(one, schema.Schema{"required": []Type{p.kind}})
		named = append(named, schema.Schema{
			"properties": schema.Schema{"type": schema.Schema{"const": p.kind}},
			"required":   []Type{p.kind},
		})
	}
	special := rundir.SpecialSchemas()
	special[reflect.TypeFor[Type]()] = schema.Schema{"enum": kinds}
	special[reflect.TypeFor[PhaseName]()] = schema.Schema{
		"enum": []PhaseName{Prepare, WarmUp, Steady, Drain, Settle, Audit, Judge}}
	b := &schema.Builder{Docs: docs, Required: true, Special: special}
	root, err := b.Of(reflect.ValueOf(Event{}))
	if err != nil {
		return nil, err
	}
	root.Property("schema_version")["pattern"] = schema.Semver
	root["oneOf"], root["anyOf"] = one, named
	return root.Encode(SchemaID, "stampede event")
}
