// Package schematest holds documents against the schemas that stampede publishes, with a
// validator that is not ours.
package schematest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/harness/schema"
)

// Schema is a compiled JSON Schema.
type Schema struct{ *jsonschema.Schema }

// Compile compiles the text of a JSON Schema, or fails the test.
func Compile(t testing.TB, text []byte) Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return Schema{s}
}

// Made is a schema as it is made of types with the comments of some packages, folders of the
// module that lies at root.
func Made(t testing.TB, root string, of func(schema.Docs) ([]byte, error), packages ...string,
) []byte {
	t.Helper()
	docs, err := schema.ReadDocs("stampede", root, packages...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := of(docs)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Current fails the test if the schema that is committed in a file is not what is made of
// the types now; see Made. With UPDATE_SCHEMA=1 it writes the file.
func Current(t testing.TB, file string, committed []byte, root string,
	of func(schema.Docs) ([]byte, error), packages ...string,
) {
	t.Helper()
	want := Made(t, root, of, packages...)
	if os.Getenv("UPDATE_SCHEMA") != "" {
		if err := os.WriteFile(filepath.Join(root, file), want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(committed, want) {
		t.Errorf("%s is stale: run `make gen`", file)
	}
}

// JSON validates a document: it returns what is wrong with it, or with its JSON.
func (s Schema) JSON(document []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return s.Validate(value)
}
