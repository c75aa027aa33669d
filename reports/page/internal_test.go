package page

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
)

// svgOf is the drawing of a figure, "" if there is none.
func svgOf(t *testing.T, f interface{ SVG() (template.HTML, error) }) string {
	t.Helper()
	svg, err := f.SVG()
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// luminance and contrast follow WCAG 2.2, "relative luminance" and "contrast
// ratio".
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	if err != nil || len(hex) != 7 {
		t.Fatalf("colour %q", hex)
	}
	linear := func(c uint64) float64 {
		x := float64(c&0xFF) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestSeriesContrast(t *testing.T) {
	light, dark := chart.Palettes()
	for i := range chart.Slots {
		if c := contrast(t, light[i], "#ffffff"); c < 3 {
			t.Errorf("light series %d %s: %.2f:1", i, light[i], c)
		}
		if c := contrast(t, dark[i], "#14161a"); c < 3 {
			t.Errorf("dark series %d %s: %.2f:1", i, dark[i], c)
		}
	}
}

// Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
// Vision Deficiency", IEEE TVCG 15 (2009), the tables for severity 1.0: what dichromats
// see, by linear red, green and blue.
func deficiencies() map[string][3][3]float64 {
	return map[string][3][3]float64{
		"protanopia": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
			{-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
			{-0.011820, 0.042940, 0.968881}},
	}
}

// seenBy is a colour as somebody with a deficiency sees it.
func seenBy(t *testing.T, m [3][3]float64, hex string) string {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	if err != nil {
		t.Fatalf("colour %q", hex)
	}
	var linear [3]float64
	for i := range linear {
		x := float64(n>>(16-8*i)&0xFF) / 255
		if linear[i] = x / 12.92; x > 0.04045 {
			linear[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	seen := "#"
	for _, row := range m {
		x := min(max(row[0]*linear[0]+row[1]*linear[1]+row[2]*linear[2], 0), 1)
		if x <= 0.0031308 {
			x *= 12.92
		} else {
			x = 1.055*math.Pow(x, 1/2.4) - 0.055
		}
		seen += fmt.Sprintf("%02x", int(math.Round(255*x)))
	}
	return seen
}

// TestSeriesContrastOfDichromats: every series stands out from its background for those
// who do not see red or green. Two series may look alike to them, as the second and the
// fifth do: no two have the same dashes.
func TestSeriesContrastOfDichromats(t *testing.T) {
	light, dark := chart.Palettes()
	for name, m := range deficiencies() {
		if got := seenBy(t, m, "#ffffff"); got != "#ffffff" {
			t.Errorf("%s: white is %s", name, got)
		}
		if c := contrast(t, seenBy(t, m, "#cc0000"), seenBy(t, m, "#556b00")); c > 3 {
			t.Errorf("%s tells red from green: %.2f:1", name, c)
		}
		for i := range chart.Slots {
			for background, colour := range map[string]string{"#ffffff": light[i],
				"#14161a": dark[i]} {
				if c := contrast(t, seenBy(t, m, colour), seenBy(t, m, background)); c < 3 {
					t.Errorf("%s: series %d %s on %s: %.2f:1", name, i, colour, background, c)
				}
			}
			for k := range i {
				if slices.Equal(chart.Dash(i), chart.Dash(k)) {
					t.Errorf("series %d and %d have the same dashes", i, k)
				}
			}
		}
	}
}

// Every text colour keeps 4.5:1 on both backgrounds of its theme.
func TestTextContrast(t *testing.T) {
	css := asset("page.css")
	light, rest, _ := strings.Cut(css, "@media")
	dark, _, _ := strings.Cut(rest, "@media")
	for theme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(text,
			-1) {
			colours[m[1]] = m[2]
		}
		for _, name := range []string{"ink", "ink2", "muted", "good", "bad", "warn", "wrong", "link"} {
			for _, background := range []string{"bg", "panel"} {
				if c := contrast(t, colours[name], colours[background]); c < 4.5 {
					t.Errorf("%s: %s %s on %s: %.2f:1", theme, name, colours[name], background, c)
				}
			}
		}
	}
}

// The dark palette stands twice, for the system's choice and the reader's.
func TestDarkPalettesAgree(t *testing.T) {
	css := asset("page.css")
	blocks := regexp.MustCompile(`(?s)--bg: #14161a.*?hatch-line: #[0-9a-f]+`).FindAllString(css, -1)
	if len(blocks) != 2 || blocks[0] != blocks[1] {
		t.Errorf("%d dark palettes that differ", len(blocks))
	}
}

// Counts are summed over merged buckets, operations in flight are the most of them, and so
// are percentiles where there is nothing else to tell them from.
func TestMergeBuckets(t *testing.T) {
	bucket := func(scheduled, p99, inFlight int64) rundir.Bucket {
		return rundir.Bucket{Load: rundir.Load{Scheduled: scheduled, Dropped: 1}, Ended: scheduled,
			InFlight: inFlight, Response: rundir.Percentiles{Count: scheduled, P50: 1, P99: p99}}
	}
	timeline := rundir.Timeline{BucketNS: 5e8, Kinds: []rundir.KindTimeline{
		{Kind: "buy", Buckets: []rundir.Bucket{
			bucket(10, 5e6, 3), bucket(30, 9e6, 1), bucket(4, 1e6, 0)}},
		{Kind: "stock", Buckets: []rundir.Bucket{bucket(2, 7e9, 4)}},
	}}
	got := merge(timeline, "buy", 2)
	if len(got) != 2 {
		t.Fatalf("%d moments of 3 buckets", len(got))
	}
	if !math.IsNaN(got[0].p999) {
		t.Errorf("of 30 operations the p99.9 is %v", got[0].p999)
	}
	first := moment{start: 0, offered: 42, achieved: 42, dropped: 3, inFlight: 7, p50: 1e-9, p99: 9e-3}
	if got[0].p999 = 0; got[0] != first {
		t.Errorf("got %+v, want %+v", got[0], first)
	}
	if got[1].start != 1 || got[1].offered != 8 || got[1].p99 != 1e-3 {
		t.Errorf("the last, half full: %+v", got[1])
	}
}

// TestWatchedPoints: rows are even, what was not seen stays empty, and no line
// leads over it.
func TestWatchedPoints(t *testing.T) {
	const s = int64(time.Second)
	points := []check.WatchedPoint{{AtNS: 0, Low: 1, High: 2}, {AtNS: s / 4, Low: -1, High: 0},
		{AtNS: s / 2, Low: 3, High: 3, Excused: true}, {AtNS: 2 * s, Low: 5, High: 6}}
	rows := watchedRows(points, 0.5)
	want := []check.WatchedPoint{{AtNS: s / 4, Low: -1, High: 2},
		{AtNS: 3 * s / 4, Low: 3, High: 3, Excused: true}, {AtNS: 5 * s / 4}, {AtNS: 7 * s / 4},
		{AtNS: 9 * s / 4, Low: 5, High: 6}}
	for i, r := range rows {
		if empty := i == 2 || i == 3; empty == seen(r) || r.AtNS != want[i].AtNS ||
			!empty && r != want[i] {
			t.Errorf("row %d is %+v, want %+v", i, r, want[i])
		}
	}
	if parts := unbrokenParts(points); len(parts) != 2 || len(parts[0]) != 3 {
		t.Errorf("%+v is drawn in the parts %+v", points, parts)
	}
	if parts := unbrokenParts(points[:1]); len(parts) != 1 || len(parts[0]) != 1 {
		t.Errorf("one point is drawn in the parts %+v", parts)
	}
}

// TestOneOperationIsNoLine: a chart in which nothing could be drawn is left out.
func TestOneOperationIsNoLine(t *testing.T) {
	h := hdrhistogram.New(1, 1e9, 3)
	for n, want := range map[int64]bool{1: false, 2: true} {
		if err := h.RecordValue(1e6); err != nil {
			t.Fatal(err)
		}
		s := spread{all: answer.Distribution{Finite: h, Total: n}}
		f := percentileFigure("x", "rules", []spread{s}, []float64{1e-3}, nil)
		if f.Drawn() != want || len(f.Rows) == 0 {
			t.Errorf("of %d: %q, %d rows", n, svgOf(t, f), len(f.Rows))
		}
	}
}
