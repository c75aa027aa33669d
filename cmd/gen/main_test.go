package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const systems = "../../systems"

func TestListIsCurrent(t *testing.T) {
	want, err := generate(systems)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(systems, "all_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("systems/all_gen.go is stale: run `make gen`")
	}
}

func TestGenerateFindsOnlySystems(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"beta/beta.go", "alpha/alpha.go", "gen/main.go"} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	alpha := bytes.Index(text, []byte("alpha.System()"))
	beta := bytes.Index(text, []byte("beta.System()"))
	if alpha < 0 || beta < alpha || bytes.Contains(text, []byte("gen.System()")) {
		t.Errorf("unexpected list:\n%s", text)
	}
}
