package suttest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/plotter"

	"stampede/harness/suttest"
)

// TestCostsAreDrawn: the plot has a line for each variant.
func TestCostsAreDrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim-cost.svg")
	curve := plotter.XYs{{X: 1000, Y: 300}, {X: 10_000, Y: 310}, {X: 100_000, Y: 290}}
	err := suttest.DrawCosts(path, map[string]plotter.XYs{"batched": curve, "partitioned": curve})
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", ">batched<", ">partitioned<", ">pending<"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("there is no %q in the plot", want)
		}
	}
}
