package reports

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/plain"
	"stampede/harness/rundir"
)

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
	for i := range slots {
		if c := contrast(t, lightSlots[i], "#ffffff"); c < 3 {
			t.Errorf("light series %d %s: %.2f:1", i, lightSlots[i], c)
		}
		if c := contrast(t, darkSlots[i], "#14161a"); c < 3 {
			t.Errorf("dark series %d %s: %.2f:1", i, darkSlots[i], c)
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
	for name, m := range deficiencies() {
		if got := seenBy(t, m, "#ffffff"); got != "#ffffff" {
			t.Errorf("%s: white is %s", name, got)
		}
		if c := contrast(t, seenBy(t, m, "#cc0000"), seenBy(t, m, "#556b00")); c > 3 {
			t.Errorf("%s tells red from green: %.2f:1", name, c)
		}
		for i := range slots {
			for background, colour := range map[string]string{"#ffffff": lightSlots[i],
				"#14161a": darkSlots[i]} {
				if c := contrast(t, seenBy(t, m, colour), seenBy(t, m, background)); c < 3 {
					t.Errorf("%s: series %d %s on %s: %.2f:1", name, i, colour, background, c)
				}
			}
			for k := range i {
				if slices.Equal(dash(i), dash(k)) {
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
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(text, -1) {
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

func TestInkRoundTrip(t *testing.T) {
	for r := role(0); r < roleSoft+slots; r++ {
		for _, variant := range []int{0, 7, noVariant} {
			c := ink(r, variant)
			red, green, blue, _ := c.RGBA()
			hex := "#" + strconv.FormatUint(uint64(1<<24|red>>8<<16|green>>8<<8|blue>>8), 16)[1:]
			if gotRole, gotVariant, ok := decode(hex); !ok || gotRole != r || gotVariant != variant {
				t.Errorf("%s decodes to %d %d %v", hex, gotRole, gotVariant, ok)
			}
		}
	}
	for _, foreign := range []string{"#000000", "#FFFFFF", "red", "", "#FFFFE7"} {
		if _, _, ok := decode(foreign); ok {
			t.Errorf("%q was taken for one of ours", foreign)
		}
	}
}

// Whatever points a path has, the compact path is within half a tenth of a
// point of each of them: errors do not add up.
func TestCompactPathStaysClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var d strings.Builder
		var want []float64
		for i := range n {
			x, y := rng.Float64()*1000-500, rng.Float64()*1000-500
			command := "L"
			if i == 0 || rng.IntN(8) == 0 {
				command = "M"
			}
			d.WriteString(command + strconv.FormatFloat(x, 'g', 5, 64) + "," +
				strconv.FormatFloat(y, 'g', 5, 64))
			want = append(want, x, y)
		}
		got := readPath(t, compactPath(d.String()))
		if len(got) != len(want) {
			t.Fatalf("%d numbers became %d: %s", len(want), len(got), compactPath(d.String()))
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 0.0501+0.005 {
				t.Fatalf("number %d: %v became %v", i, want[i], got[i])
			}
		}
	})
}

// readPath reads M, l, h and v commands as a browser does.
func readPath(t *rapid.T, d string) (absolute []float64) {
	var x, y float64
	numbers := regexp.MustCompile(`-?(?:\d+\.\d+|\.\d+|\d+)`)
	for _, step := range regexp.MustCompile(`[Mlhv][^Mlhv]*`).FindAllString(d, -1) {
		pair := numbers.FindAllString(step, -1)
		switch {
		case step[0] == 'h' && len(pair) == 1:
			pair = []string{pair[0], "0"}
		case step[0] == 'v' && len(pair) == 1:
			pair = []string{"0", pair[0]}
		case len(pair) != 2:
			t.Fatalf("step %q", step)
		}
		a, _ := strconv.ParseFloat(pair[0], 64)
		b, _ := strconv.ParseFloat(pair[1], 64)
		if step[0] == 'M' {
			x, y = 0, 0
		}
		x, y = x+a, y+b
		absolute = append(absolute, x, y)
	}
	return absolute
}

// Straight steps along an axis are one, and what turns back is not lost.
func TestCompactPathGoesStraight(t *testing.T) {
	for path, want := range map[string]string{
		"M1,2L3,2L4.5,2L4.5,1L4.5,0.5Z": "M1 2h3.5v-1.5Z",
		"M0,0L2,0L1,0L1.5,0.2":          "M0 0h2h-1l.5.2",
		"M0,0L0,0":                      "M0 0h0",
		"M0.5,0.5L1,1":                  "M.5.5l.5.5",
		"M10,0.5L9,0.4":                 "M10 .5l-1-.1",
	} {
		if got := compactPath(path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}

// No point is farther from the straightened line than a hairsbreadth, and the ends stay.
func TestStraightened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []vg.Point
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			y := rapid.Float64Range(-1, 1).Draw(t, "y")
			points = append(points, vg.Point{X: vg.Length(i), Y: vg.Length(y * y * y)})
		}
		kept := straightened(points)
		if len(kept) > len(points) || len(points) > 0 &&
			(kept[0] != points[0] || kept[len(kept)-1] != points[len(points)-1]) {
			t.Fatalf("%d of %d points, from %v to %v", len(kept), len(points), kept[0], kept[len(kept)-1])
		}
		for _, p := range points {
			i := 1
			for i < len(kept)-1 && kept[i].X < p.X {
				i++
			}
			if len(kept) > 1 && distanceTo(p, kept[i-1], kept[i]) > hairsbreadth+1e-9 {
				t.Fatalf("%v is %v from the line", p, distanceTo(p, kept[i-1], kept[i]))
			}
		}
	})
	line := []vg.Point{{X: 0}, {X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 0}}
	if got := straightened(line); len(got) != 3 {
		t.Errorf("a bend is %v", got)
	}
}

// Levels of a heat map: equal steps, or equal ratios in which one alone is seen.
func TestShades(t *testing.T) {
	for _, tt := range []struct {
		shade shade
		v     float64
		want  int
	}{
		{shade{most: 8}, 0, 0}, {shade{most: 8}, math.NaN(), 0}, {shade{}, 1, 0},
		{shade{most: 8}, 0.1, 1}, {shade{most: 8}, 3, 3}, {shade{most: 8}, 9, 8},
		{shade{least: 1, most: 256}, 1, 1}, {shade{least: 1, most: 256}, 2.1, 2},
		{shade{least: 1, most: 256}, 100, 7}, {shade{least: 1, most: 256}, 256, 8},
		{shade{least: 1, most: 1}, 1, 1},
	} {
		if got := tt.shade.level(tt.v); got != tt.want {
			t.Errorf("%+v: %v has level %d, want %d", tt.shade, tt.v, got, tt.want)
		}
	}
	if got := (shade{least: 1, most: 256}).from(5); got != 16 {
		t.Errorf("level 5 begins at %v", got)
	}
}

func TestFormats(t *testing.T) {
	tests := []struct{ got, want string }{
		{latency(0), "0"}, {latency(812), "812 ns"}, {latency(45_100), "45.1 µs"},
		{latency(12_340_000), "12.3 ms"}, {latency(999_600), "1.00 ms"},
		{latency(1_236_000_000), "1.24 s"},
		{latency(4_000_000_000_000), "4,000 s"}, {latency(math.MaxInt64), "∞ (dropped)"},
		{grouped(0), "0"}, {grouped(999), "999"}, {grouped(1000), "1,000"},
		{grouped(-1234567), "−1,234,567"},
		{percents(0.998, 1), "99.8 to 100 %"}, {percents(0.9996, 0.9999), "99.9 %"},
		{percents(0.91, 0.97), "91 to 97 %"}, {percents(1, 1), "100 %"},
		{share(0, 0), "–"}, {share(0, 10), "0 %"}, {share(10, 10), "100 %"},
		{share(1, 1_000_000), "< 0.01 %"},
		{share(999_999, 1_000_000), "> 99.99 %"}, {share(9_980, 10_000), "99.80 %"},
		{share(1, 3), "33.3 %"},
		{times(0.0926), "0.093×"}, {times(2.104), "2.10×"}, {times(12345), "12,345×"},
		{times(0.00123), "0.0012×"},
		{quantileName(0), "0 %"}, {quantileName(1), "90 %"}, {quantileName(2), "99 %"},
		{quantileName(3), "99.9 %"}, {quantileName(5), "99.999 %"},
		{quantileName(-math.Log10(.5)), "50 %"},
		{letter(0), "A"}, {letter(25), "Z"}, {letter(26), "AA"}, {letter(27), "AB"}, {letter(701), "ZZ"},
		{decade(-6), "1 µs"}, {decade(-4), "100 µs"}, {decade(-3), "1 ms"},
		{decade(0), "1 s"}, {decade(2), "100 s"},
		{bytesText(512), "512 B"}, {bytesText(8 << 30), "8.0 GiB"},
		{slug(`No-oversell "x"/日`), "no-oversell--x---"},
		{short("abcdef", 4), "abc…"}, {list([]string{"a", "b", "c"}, 2), "a, b and 1 more"},
		{list([]string{"a", "b", "c"}, 3), "a, b and c"}, {list(nil, 3), ""},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestChartGroupsAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		baseline := rapid.Bool().Draw(t, "baseline")
		var all []standing
		for i := range n {
			st := standing{Index: i, Baseline: baseline && i == 0}
			if rapid.Bool().Draw(t, "wrong") {
				st.Group = wrong
			}
			all = append(all, st)
		}
		slices.SortStableFunc(all, func(a, b standing) int { return cmp.Compare(a.Group, b.Group) })
		colour(all)
		seen := map[int]int{}
		var groups [][]member
		for _, members := range chartGroups(all) {
			if len(members) > slots {
				t.Fatalf("%d series in a chart", len(members))
			}
			if n > 0 && baseline && !members[0].Baseline {
				t.Fatal("a chart without the baseline first")
			}
			if len(groups) == 0 {
				checkProminent(t, all, members)
			}
			groups = append(groups, members)
			taken := map[int]bool{}
			for _, m := range members {
				if taken[m.Slot] {
					t.Fatalf("colour %d is taken twice", m.Slot)
				}
				taken[m.Slot] = true
				seen[m.Index]++
			}
		}
		for _, st := range all {
			if n := seen[st.Index]; n == 0 || (n > 1 && !st.Baseline) {
				t.Fatalf("design %d is drawn %d times", st.Index, n)
			}
		}
	})
}

// checkProminent: the first chart has the fastest and the slowest design that holds and the
// first two wrong ones, as far as there are any.
func checkProminent(t *rapid.T, all []standing, members []member) {
	var sound, unsound []int
	for _, st := range all {
		if st.Group == wrong {
			unsound = append(unsound, st.Index)
		} else {
			sound = append(sound, st.Index)
		}
	}
	want := unsound[:min(len(unsound), wrongOnes)]
	if n := len(sound); n > 0 {
		want = append(want, sound[n-1])
		if all[0].Index == sound[0] {
			want = append(want, sound[0])
		}
	}
	for _, index := range want {
		if !slices.ContainsFunc(members, func(m member) bool { return m.Index == index }) {
			t.Fatalf("design %d of %d is not in the first chart", index, len(all))
		}
	}
}

// A curve ends where the operations end, and is infinite where they were
// dropped.
func TestDistribution(t *testing.T) {
	h := hdrhistogram.New(1000, 60e9, 3)
	for i := range int64(80) {
		if err := h.RecordValue((i + 1) * 1e6); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decodeHistogram(string(encoded), 100) // 20 were dropped
	if err != nil {
		t.Fatal(err)
	}
	if got := d.nines(); got != 2 {
		t.Errorf("100 operations support %v nines, want 2", got)
	}
	for share, want := range map[float64]float64{0: 1e-3, 0.5: 50e-3, 0.8: 80e-3} {
		if got := d.at(-math.Log10(1 - share)); math.Abs(got-want) > want/500 {
			t.Errorf("at %v: %v s, want %v", share, got, want)
		}
	}
	for _, nines := range []float64{-math.Log10(1 - 0.81), 1, 2} {
		if got := d.at(nines); !math.IsInf(got, 1) {
			t.Errorf("at %v nines: %v s, but a fifth was dropped", nines, got)
		}
	}
	var none distribution
	if !none.empty() || none.nines() != 0 {
		t.Error("nothing is not empty")
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
		s := spread{all: distribution{h, n}}
		f, err := percentileFigure("x", "rules", []spread{s}, []float64{1e-3}, nil)
		if err != nil || (f.SVG != "") != want || len(f.Rows) == 0 {
			t.Errorf("of %d: %d bytes, %d rows, %v", n, len(f.SVG), len(f.Rows), err)
		}
	}
}

func TestHowFar(t *testing.T) {
	for ratio, want := range map[float64]string{0.5: "2.00× lower than", 3: "3.00× higher than",
		1: "about that of", 0.9991: "about that of", 1.004: "about that of"} {
		if got := howFar(ratio, 2); got != want {
			t.Errorf("%v is %q, want %q", ratio, got, want)
		}
	}
}

// TestRatioOf: one repeat a side allows two digits.
func TestRatioOf(t *testing.T) {
	for ratio, want := range map[float64]string{111: "110×", 8.96: "9.0×", 14.2: "14×", 1.047: "1.0×",
		0.283: "0.28×", 0.0749: "0.075×", 9.97: "10×", 1234: "1,200×", 0: "0.000×"} {
		if got := ratioOf(ratio, 1); got != want {
			t.Errorf("%v of one repeat is %q, want %q", ratio, got, want)
		}
	}
	if got := ratioOf(8.96, 2); got != "8.96×" {
		t.Errorf("of two repeats it is %q", got)
	}
}

// TestReplies: what a reply says beside its outcome, once.
func TestReplies(t *testing.T) {
	for want, r := range map[string]history.Record{
		"assigned 992":             {Outcome: history.OK, Reply: history.Reply{Key: "992"}},
		"sold":                     {Outcome: history.OK, Reply: history.Reply{Key: "sold"}},
		"sold out":                 {Outcome: history.Refused, Err: "sold out: refused"},
		"":                         {Outcome: history.Refused, Err: "refused"},
		"timeout: context expired": {Outcome: history.Unknown, Err: "timeout: context expired"},
	} {
		if row := opRowOf(r); row.Reply != want {
			t.Errorf("%+v is %q, want %q", r, row.Reply, want)
		}
	}
	if row := opRowOf(history.Record{Op: history.Op{Key: "item-2", Arg: 256}}); row.Key != "item-2" {
		t.Errorf("the key is %q", row.Key)
	}
}

// TestPlaceOf: a run is named from the folder of the runs on, and so is a search's window.
func TestPlaceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/data/me/runs/sale/1-2-3":                     "runs/sale/1-2-3",
		"/data/me/runs/knee/sale/4-5-6/windows/sale/7": "runs/knee/sale/4-5-6/windows/sale/7",
		"/windows/sale/7":                              "windows/sale/7",
		"/sale":                                        "sale",
	} {
		if got, err := placeOf(path); err != nil || got != want {
			t.Errorf("placeOf(%s) = %s, %v, want %s", path, got, err, want)
		}
	}
	if got := plain.Word("it's/here"); got != `'it'\''s/here'` {
		t.Errorf("a word for a shell is %s", got)
	}
}
