// Package schematest holds documents against the schemas that stampede publishes, with a
// validator that is not ours.
package schematest

import (
	"bytes"
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

// Current fails the test if the schema that is committed in a file is not what is made of
// the types now; see schema.Made.
func Current(t testing.TB, file string, committed []byte, root string,
	of func(schema.Docs) ([]byte, error), packages ...string,
) {
	t.Helper()
	want, err := schema.Made(root, of, packages...)
	if err != nil {
		t.Fatal(err)
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
