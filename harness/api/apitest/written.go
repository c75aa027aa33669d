package apitest

import (
	"bytes"
	"os"
	"testing"
)

// written fails the test unless openapi.yaml is this description. With UPDATE_OPENAPI=1 it writes
// it.
func written(t *testing.T, description []byte) {
	t.Helper()
	const file = "openapi.yaml"
	if os.Getenv("UPDATE_OPENAPI") != "" {
		if err := os.WriteFile(file, description, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, description) {
		t.Errorf("%s is stale: run `make gen`", file)
	}
}
