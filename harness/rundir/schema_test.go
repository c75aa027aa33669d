package rundir_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/harness/rundir"
	"stampede/harness/schema"
)

func TestSchemaIsCurrent(t *testing.T) {
	docs, err := schema.ReadDocs("stampede", "../..",
		"harness/rundir", "harness/check", "harness/history")
	if err != nil {
		t.Fatal(err)
	}
	want, err := rundir.MakeSchema(docs)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rundir.SummarySchema(), want) {
		t.Error("harness/rundir/summary.schema.json is stale: run `make gen`")
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(rundir.SummarySchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(rundir.SchemaID, document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(rundir.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaAndDecoderAgree: a summary that is written validates, and one
// that the schema refuses the decoder refuses too.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := compile(t)
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
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r, err := rundir.Open(root, path)
		if err != nil {
			t.Fatal(err)
		}
		_, decoded := r.Summary()
		validated := s.Validate(document)
		if good := name == ""; (decoded == nil) != good || (validated == nil) != good {
			t.Errorf("%q: decoder says %v, schema says %v", name, decoded, validated)
		}
	}
}
