package rundir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/harness/rundir"
	"stampede/harness/schema/schematest"
)

func TestSchemaIsCurrent(t *testing.T) {
	schematest.Current(t, "harness/rundir/summary.schema.json", rundir.SummarySchema(),
		"../..", rundir.MakeSchema, "harness/rundir", "harness/check", "harness/history")
}

// TestSchemaAndDecoderAgree: a summary that is written validates, and one
// that the schema refuses the decoder refuses too.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := schematest.Compile(t, rundir.SummarySchema())
	replace := func(old, with string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, with, 1) }
	}
	for name, change := range map[string]func(string) string{
		"":              func(s string) string { return s },
		"unknown field": replace(`"seed"`, `"seeed"`),
		"verdict":       replace(`"overall": "PASS"`, `"overall": "FINE"`),
		"status":        replace(`"broken"`, `"bent"`),
		"type":          replace(`"seed": 7`, `"seed": "7"`),
		"negative":      replace(`"p50": 1000`, `"p50": -1`),
		"version":       replace(rundir.SchemaVersion, "1"),
	} {
		root := t.TempDir()
		path := finished(t, root)
		spoil(t, path, rundir.SummaryFile, change)
		data, err := os.ReadFile(filepath.Join(path, rundir.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		r, err := rundir.Open(root, path)
		if err != nil {
			t.Fatal(err)
		}
		_, decoded := r.Summary()
		validated := s.JSON(data)
		if good := name == ""; (decoded == nil) != good || (validated == nil) != good {
			t.Errorf("%q: decoder says %v, schema says %v", name, decoded, validated)
		}
	}
}
