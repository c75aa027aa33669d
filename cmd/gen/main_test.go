package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
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

// TestGrowth: each line of a benchmark is a point of each series, whose colours a reader's
// preference changes.
func TestGrowth(t *testing.T) {
	line := func(docs string) string {
		return "BenchmarkSearch/" + docs + "-2 1 8 and-p50-us 9 or-p50-us 80 and-bleve-p50-us " +
			"90 or-bleve-p50-us\n"
	}
	svg, err := growth(strings.NewReader("goos: linux\n" + line("10000") + line("100000") + "PASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"all words", "any word, Bleve", "100k", "10 µs",
		"prefers-color-scheme: dark", `xmlns="http://www.w3.org/2000/svg"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the chart has no %q", want)
		}
	}
	if _, err := growth(strings.NewReader("PASS\n")); err == nil {
		t.Error("a chart was drawn of nothing")
	}
}
