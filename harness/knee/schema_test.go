package knee_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/harness/schema/schematest"
)

func TestSchemaIsCurrent(t *testing.T) {
	schematest.Current(t, "harness/knee/knee.schema.json", knee.Schema(),
		"../..", knee.MakeSchema, "harness/knee", "harness/rundir")
}

// TestSchemaTakesWhatIsWritten, and nothing else.
func TestSchemaTakesWhatIsWritten(t *testing.T) {
	s := schematest.Compile(t, knee.Schema())
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
			if err := s.JSON(changed); (err == nil) != (wrong == "") {
				t.Errorf("%s, %q: %v", name, wrong, err)
			}
		}
	}
}
