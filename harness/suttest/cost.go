package suttest

import (
	"cmp"
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
)

// What a claim costs is the median of claimsEach of them, of ClaimBatch each, after
// firstClaims whose statements are planned and whose pages are read for the first time:
// as many as fewestPending are enough for.
const (
	firstClaims   = 10
	claimsEach    = 80
	fewestPending = 1000
	// ClaimBatch is how much one claim takes.
	ClaimBatch = 10
)

// Backlog is what waits to be claimed in one variant.
type Backlog struct {
	// Fill adds n that wait, and lets the store come to rest.
	Fill func(n int) error
	// Claim takes ClaimBatch of them.
	Claim func() error
}

// ClaimCost benchmarks claims from backlogs of 1,000 up to STAMPEDE_PENDING (ten
// million take minutes and 4 GB; a million if it is not set), ten times as many each
// time, for each variant. The aim is that the cost does not grow: at no size is it twice
// that of a smaller one, whichever was the cheapest. So one that was measured high, as the
// first may be, hides nothing; less than twice is noise. That costs fall is no growth. It
// draws the curves into the folder STAMPEDE_PLOTS, which should be absolute (a test runs in
// its package's folder), or among the artifacts of the test, which Go removes unless it is
// told -artifacts, in a file that is called after the package.
func ClaimCost(b *testing.B, variants []string, open func(b *testing.B, variant string) Backlog) {
	b.Helper()
	most, curves := mostPending(b), map[string]plotter.XYs{}
	for _, name := range variants {
		log := open(b, name)
		for pending, left := fewestPending, 0; pending <= most; pending *= 10 {
			if err := log.Fill(pending - left); err != nil {
				b.Fatalf("filling %s: %v", name, err)
			}
			cost := log.cost(b)
			left = pending - (firstClaims+claimsEach)*ClaimBatch
			curves[name] = append(curves[name], plotter.XY{X: float64(pending), Y: cost})
			tellCost(b, fmt.Sprintf("%s/pending=%d", name, pending), cost, growth(curves[name]))
		}
	}
	here, err := os.Getwd() // a test runs in its package's folder
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(plotsFolder(b), "claim-cost-"+filepath.Base(here)+".svg")
	if err := drawCosts(path, curves); err != nil {
		b.Fatal(err)
	}
	b.Logf("drawn in %s", path)
}

// growth is how many times the last cost is the least of all.
func growth(costs plotter.XYs) float64 {
	least := slices.MinFunc(costs, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) })
	return costs[len(costs)-1].Y / least.Y
}

// tellCost reports what was measured before.
func tellCost(b *testing.B, name string, cost, ratio float64) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(0, "ns/op")
		}
		b.ReportMetric(cost, "µs/claim")
		b.ReportMetric(ratio, "ratio")
		b.ReportMetric(2, "aim")
		b.ReportMetric(map[bool]float64{true: 1}[ratio < 2], "met")
	})
}

// cost is the median of some claims, in microseconds.
func (l Backlog) cost(b *testing.B) float64 {
	b.Helper()
	var costs []float64
	for i := range firstClaims + claimsEach {
		begin := time.Now()
		if err := l.Claim(); err != nil {
			b.Fatal(err)
		}
		if i >= firstClaims {
			costs = append(costs, float64(time.Since(begin).Nanoseconds())/1e3)
		}
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// mostPending is STAMPEDE_PENDING.
func mostPending(b *testing.B) int {
	b.Helper()
	text := os.Getenv("STAMPEDE_PENDING")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < fewestPending {
		b.Fatalf("STAMPEDE_PENDING: expected a number of %d or more, got %q", fewestPending, text)
	}
	return n
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

// drawCosts draws cost over what was pending, the latter on a logarithmic scale.
func drawCosts(path string, curves map[string]plotter.XYs) error {
	p := plot.New()
	p.Title.Text = "What a claim of ten costs"
	p.X.Label.Text, p.Y.Label.Text = "pending", "median, microseconds"
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
