package knee_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/harness/schema"
)

func TestSchemaIsCurrent(t *testing.T) {
	docs, err := schema.ReadDocs("stampede", "../..", "harness/knee", "harness/rundir")
	if err != nil {
		t.Fatal(err)
	}
	want, err := knee.MakeSchema(docs)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(knee.Schema(), want) {
		t.Error("harness/knee/knee.schema.json is stale: run `make gen`")
	}
}

// TestSchemaTakesWhatIsWritten, and nothing else.
func TestSchemaTakesWhatIsWritten(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(knee.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(knee.SchemaID, document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(knee.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	for name, plan := range map[string]float64{"found": 700, "nowhere": 1, "beyond": 1e9} {
		result, err := knee.Search(t.Context(), usual(), step(plan))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(knee.Summary{SchemaVersion: knee.SchemaVersion,
			Objectives: []knee.Objective{}, Warnings: []string{}, Search: knee.Info{Argv: []string{}},
			Environment: rundir.Environment{Components: map[string]rundir.Component{}},
			Variants:    []knee.Variant{{Name: "v", Result: result}}})
		if err != nil {
			t.Fatal(err)
		}
		for wrong, change := range map[string][2]string{
			"": {"", ""}, "outcome": {`"outcome":"`, `"outcome":"un`},
			"verdict": {`"verdict":"`, `"verdict":"un`}, "version": {`"1.0.0"`, `"1"`},
			"null": {`"warnings":[]`, `"warnings":null`},
		} {
			changed := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
			instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(changed))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(instance); (err == nil) != (wrong == "") {
				t.Errorf("%s, %q: %v", name, wrong, err)
			}
		}
	}
}
