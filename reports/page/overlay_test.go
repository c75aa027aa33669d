package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// TestRowQuantiles: a percentile of merged windows is that of all their operations.
func TestRowQuantiles(t *testing.T) {
	row := rundir.LatencyRow(10 * time.Millisecond)
	windows := []rundir.Window{
		{FirstRow: row, Counts: []int64{90}},
		{FirstRow: row + 8, Counts: []int64{5}, Infinite: 5},
		{Counts: []int64{}},
	}
	h := together(windows)
	if h.total() != 100 {
		t.Fatalf("%d operations", h.total())
	}
	for q, want := range map[float64]float64{0.5: 0.0115, 0.95: 0.13, 0.96: math.Inf(1)} {
		got := h.quantile(q)
		if got != want && !(math.Abs(got/want-1) < 0.05) {
			t.Errorf("p%v is %v, want about %v", 100*q, got, want)
		}
	}
	if got := together(nil).quantile(0.5); !math.IsNaN(got) {
		t.Errorf("of nothing the median is %v", got)
	}
}

// dropping is a lane of so many seconds, a bucket each, in which one bucket in ten got no
// answer at all and all others were answered in about 10 ms.
func dropping(n int) lane {
	l := lane{Standing: answer.Standing{Letter: "A"}}
	l.Name = "counter_row"
	l.timeline.BucketNS, l.windows.WidthNS = int64(time.Second), int64(time.Second)
	line, windows := rundir.KindTimeline{Kind: "buy"}, rundir.KindWindows{Kind: "buy"}
	for i := range n {
		b := rundir.Bucket{Load: rundir.Load{Scheduled: 100}, Ended: 100,
			Response: rundir.Percentiles{Count: 100, P50: 10e6, P99: 12e6, P999: 12e6}}
		w := rundir.Window{FirstRow: rundir.LatencyRow(11 * time.Millisecond), Counts: []int64{100}}
		if i%10 == 0 {
			b.Load.Dropped, b.Ended = 100, 0
			b.Response.P50, b.Response.P99 = rundir.Infinite, rundir.Infinite
			w = rundir.Window{Counts: []int64{}, Infinite: 100}
		}
		line.Buckets, windows.Windows = append(line.Buckets, b), append(windows.Windows, w)
	}
	l.timeline.Kinds, l.windows.Kinds = []rundir.KindTimeline{line}, []rundir.KindWindows{windows}
	return l
}

// TestTheReadoutIsTheLine: the rows that a cursor reads are the points that are drawn, and
// the median of an interval in which a tenth got no answer is finite.
func TestTheReadoutIsTheLine(t *testing.T) {
	l := dropping(200)
	l = l.mergeTo("buy", widthFor([]lane{l}, "buy", 20))
	if !l.merged || len(l.moments) != 20 || l.width != 10e9 {
		t.Fatalf("%d moments of %d ns", len(l.moments), l.width)
	}
	m := l.moments[3]
	if m.p50 < 0.009 || m.p50 > 0.014 || !math.IsInf(m.p99, 1) || m.dropped != 10 {
		t.Errorf("a moment is %+v", m)
	}
	f := timeFigureOf("x", "buy", l, sharedAxes([]lane{l}, nil), nil)
	if len(f.Rows) != len(l.moments) || f.Step != 10 || f.From != 0 {
		t.Errorf("%d rows from %v by %v, %d points", len(f.Rows), f.From, f.Step, len(l.moments))
	}
	for i, row := range f.Rows {
		want := []string{fmt.Sprintf("%d s", 10*i), "100", "90", "10", "0",
			estimated(l.moments[i].p50), "∞", "∞"}
		if !slices.Equal(row, want) {
			t.Errorf("row %d is %q, want %q", i, row, want)
		}
	}
}

// TestNoPointIsAboveTheSlowest: a row of the histogram ends above the slowest operation,
// and neither what is drawn nor what is said of it does.
func TestNoPointIsAboveTheSlowest(t *testing.T) {
	const slowest = 8_620_000_000
	l := lane{Standing: answer.Standing{Letter: "A"}}
	l.Name = "counter_row"
	l.timeline.BucketNS, l.windows.WidthNS = int64(time.Second), int64(time.Second)
	line, windows := rundir.KindTimeline{Kind: "buy"}, rundir.KindWindows{Kind: "buy"}
	for i := range 40 {
		p99 := int64(slowest - 10_000_000*i)
		line.Buckets = append(line.Buckets, rundir.Bucket{Load: rundir.Load{Scheduled: 2000},
			Response: rundir.Percentiles{Count: 2000, P50: p99, P99: p99, P999: p99, Max: slowest}})
		windows.Windows = append(windows.Windows, rundir.Window{
			FirstRow: rundir.LatencyRow(slowest), Counts: []int64{2000}})
	}
	l.timeline.Kinds, l.windows.Kinds = []rundir.KindTimeline{line}, []rundir.KindWindows{windows}
	l = l.mergeTo("buy", widthFor([]lane{l}, "buy", 4))
	for i, m := range l.moments {
		high := 8.62 - 0.1*float64(i)
		for _, v := range []float64{m.p50, m.p99, m.p999} {
			if v > high+1e-9 || v < high-0.1 {
				t.Errorf("point %d is at %v s, and its intervals at %v s at most", i, v, high)
			}
		}
	}
	if text := timeFinding("buy", l, nil); !strings.Contains(text, "peaked at 8.6 s,") {
		t.Errorf("the finding is %q", text)
	}
}

// TestBucketsThatFitAreNotMerged: their percentiles are exact, whatever the windows tell.
func TestBucketsThatFitAreNotMerged(t *testing.T) {
	l := dropping(20)
	l = l.mergeTo("buy", widthFor([]lane{l}, "buy", 20))
	if l.merged || len(l.moments) != 20 || l.moments[1].p50 != 0.01 || l.shown(0.0123) != "12.3 ms" {
		t.Errorf("merged %v, %d moments, the second %+v", l.merged, len(l.moments), l.moments[1])
	}
	if l.timeline.BucketNS = 2e7; commonMultiple(2e7, 5e7) != 1e8 {
		t.Error("20 ms and 50 ms do not meet at 100 ms")
	}
}

// TestOverlay: lanes of unlike buckets share one axis of time, and a line for each is read
// from one table.
func TestOverlay(t *testing.T) {
	a, b := dropping(40), dropping(300)
	b.Letter, b.Name, b.Index, b.Group = "B", "naive", 1, answer.Wrong
	b.Correctness = rundir.Caught
	a.Baseline, a.Letter, b.Letter = true, "B", "A"
	a.Main = &rundir.Operation{Kind: "buy", Phases: []rundir.Phase{{Name: "drain", StartNS: 30e9,
		EndNS: 40e9}}}
	all := []answer.Standing{a.Standing, b.Standing, {Index: 2}}
	all[1].Slot, all[2].Slot = 1, 2
	members := answer.ChartGroups(all)[0]
	f, grey := overlay("buy", []lane{a, b}, members)
	if len(f.Legend) != 2 || f.Legend[1].Note != "baseline" || f.Legend[0].Note != "caught" {
		t.Errorf("the legend is %+v, not in the order of the letters", f.Legend)
	}
	if grey != "counter_row" {
		t.Errorf("grey is the drain of %q", grey)
	}
	want := []string{"from", "p99 B", "p99 A", "done/s B", "done/s A"}
	if !slices.Equal(f.Columns, want) || len(f.Rows) != 100 || f.Step != 3 {
		t.Errorf("columns %q, %d rows by %v", f.Columns, len(f.Rows), f.Step)
	}
	if last := f.Rows[50]; last[1] != words.None || last[2] == words.None {
		t.Errorf("after the end of A a row is %q", last)
	}
	if !strings.Contains(svgOf(t, f), " v1") || !strings.Contains(f.Finding, "got no answer") {
		t.Errorf("it says %q", f.Finding)
	}
	if f, _ := overlay("buy", nil, members); f.Drawn() {
		t.Errorf("of nothing it draws %q", svgOf(t, f))
	}
}

// TestHeadlines: the design of which most sessions waited is named, and who took the CPU;
// what is small is not.
func TestHeadlines(t *testing.T) {
	sessions := func(name string, running, waiting float64) storeLane {
		l := storeLane{lane: dropping(1)}
		l.Name = name
		for part, v := range map[string]float64{"running": running, "waiting for a lock": waiting} {
			l.source.Series = append(l.source.Series, rundir.Series{Quantity: "sessions", Part: part,
				AtNS: []int64{1, 2}, Values: []float64{0, v}})
		}
		return l
	}
	taken := storeLane{lane: dropping(1)}
	taken.source.Series = []rundir.Series{
		{Quantity: "taken", Part: "hypervisor", AtNS: []int64{1}, Values: []float64{0.62}},
		{Quantity: "taken", Part: "other programs", AtNS: []int64{1}, Values: []float64{0.01}}}
	wrong := sessions("wrong", 0, 99)
	wrong.ExpectedBroken = []string{"no-oversell"} // a control, which is no answer
	got := headlines(map[string][]storeLane{
		"postgres": {sessions("a", 9, 1), sessions("b", 1, 15), sessions("c", 30, 10), wrong},
		"cpu":      {taken}})
	var texts []string
	for _, h := range got {
		texts = append(texts, h.String())
	}
	want := []string{"b: at 0 s 15 of 16 sessions waited for a lock.",
		"The hypervisor took up to 0.62 cores while counter_row ran."}
	if !slices.Equal(texts, want) {
		t.Errorf("headlines %q, want %q", texts, want)
	}
	s := storeSource{Figures: []chart.TimeFigure{{Name: "a", Baseline: true}, {Name: "c"}},
		More: []chart.TimeFigure{{Name: "b"}}}
	if s.lead(got, "postgres"); !s.Open || len(s.Figures) != 2 || s.Figures[1].Name != "b" ||
		len(s.More) != 1 || s.More[0].Name != "c" {
		t.Errorf("shown first: %+v, more: %+v", s.Figures, s.More)
	}
}

// TestUnitsAreSaidOnce: not where the name of the quantity has them.
func TestUnitsAreSaidOnce(t *testing.T) {
	for _, tt := range []struct{ quantity, unit, want string }{
		{"dead rows", "rows", "dead rows"}, {"locks waited for", "locks", "locks waited for"},
		{"sessions", "sessions", "sessions"}, {"transactions", "/s", "transactions, per second"},
		{"processor", "cores", "CPU used, cores"},
	} {
		if got := (storePlot{Quantity: tt.quantity, Unit: tt.unit}).Title(); got != tt.want {
			t.Errorf("%s in %s is %q, want %q", tt.quantity, tt.unit, got, tt.want)
		}
	}
}
