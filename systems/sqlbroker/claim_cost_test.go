package sqlbroker_test

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"stampede/systems/sqlbroker"
)

const (
	// claimsEach is how many claims of claimBatch are measured: as many as 1,000
	// messages are enough for.
	claimsEach = 90
	claimBatch = 10
)

// mostPending is STAMPEDE_PENDING, or a million: ten million take minutes and 4 GB.
func mostPending(b *testing.B) int {
	b.Helper()
	text := os.Getenv("STAMPEDE_PENDING")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		b.Fatalf("STAMPEDE_PENDING: expected a number of 1000 or more, got %q", text)
	}
	return n
}

// BenchmarkClaimCost claims batches of ten out of a queue that has more and more
// messages pending, from 1,000 to STAMPEDE_PENDING. The aim is that the cost is flat:
// the most is less than twice that of 1,000. It draws the curve into the folder
// STAMPEDE_PLOTS, or among the artifacts of the test.
func BenchmarkClaimCost(b *testing.B) {
	most, curves := mostPending(b), map[string]plotter.XYs{}
	for _, name := range []string{"batched", "partitioned"} {
		s, _ := openStation(b, name, benchWorkers)
		for pending, filled := 1000, 0; pending <= most; pending *= 10 {
			if err := s.Fill(b.Context(), labQueue, pending-filled); err != nil {
				b.Fatal(err)
			}
			cost := s.claimCost(b)
			filled = pending - claimsEach*claimBatch
			curves[name] = append(curves[name], plotter.XY{X: float64(pending), Y: cost})
			b.Run(fmt.Sprintf("%s/pending=%d", name, pending), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(0, "ns/op") // it was measured before
				}
				ratio := cost / curves[name][0].Y
				b.ReportMetric(cost, "µs/claim")
				b.ReportMetric(ratio, "ratio")
				b.ReportMetric(2, "aim")
				b.ReportMetric(map[bool]float64{true: 1}[ratio < 2], "met")
			})
		}
	}
	path := filepath.Join(plotsFolder(b), "claim-cost.svg")
	if err := drawClaimCost(path, curves); err != nil {
		b.Fatal(err)
	}
	b.Logf("drawn in %s", path)
}

// claimCost is the median of some claims, in microseconds.
func (s *station) claimCost(b *testing.B) float64 {
	b.Helper()
	var costs []float64
	for range claimsEach {
		begin := time.Now()
		got, err := s.Receive(b.Context(), labQueue, sqlbroker.Demand{Most: claimBatch})
		if err != nil || len(got) != claimBatch {
			b.Fatalf("%d messages, %v", len(got), err)
		}
		costs = append(costs, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	return median(costs)
}

func plotsFolder(b *testing.B) string {
	b.Helper()
	folder := os.Getenv("STAMPEDE_PLOTS")
	if folder == "" {
		return b.ArtifactDir()
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		b.Fatal(err)
	}
	return folder
}

// drawClaimCost draws cost over pending messages, the latter on a logarithmic scale.
func drawClaimCost(path string, curves map[string]plotter.XYs) error {
	p := plot.New()
	p.Title.Text = "What a claim of ten messages costs"
	p.X.Label.Text, p.Y.Label.Text = "messages pending", "median, microseconds"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Y.Min = 0
	names := make([]string, 0, len(curves))
	for name := range curves {
		names = append(names, name)
	}
	slices.Sort(names)
	colours := []color.Color{color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff},
		color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}}
	for i, name := range names {
		line, points, err := plotter.NewLinePoints(curves[name])
		if err != nil {
			return fmt.Errorf("drawing %s: %w", name, err)
		}
		line.Color, points.Color = colours[i%len(colours)], colours[i%len(colours)]
		p.Add(line, points)
		p.Legend.Add(name, line, points)
	}
	p.Add(plotter.NewGrid())
	if err := p.Save(16*vg.Centimeter, 9*vg.Centimeter, path); err != nil {
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// TestClaimCostIsDrawn: the plot has a line for each variant.
func TestClaimCostIsDrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim-cost.svg")
	curve := plotter.XYs{{X: 1000, Y: 300}, {X: 10_000, Y: 310}, {X: 100_000, Y: 290}}
	err := drawClaimCost(path, map[string]plotter.XYs{"batched": curve, "partitioned": curve})
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", ">batched<", ">partitioned<", "messages pending"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("there is no %q in the plot", want)
		}
	}
}
