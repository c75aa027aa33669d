package apitest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"testing"
)

// written fails the test unless openapi.yaml is this description, where there is such a file. With
// UPDATE_OPENAPI=1 it writes it.
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
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.Fatal(err)
	case !bytes.Equal(text, description):
		t.Errorf("%s is stale: run `make gen`", file)
	}
}
