package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// watchedPanel has one figure a variant of a quantity that an invariant
// followed, all on the same axes.
type watchedPanel struct {
	Invariant, Quantity, Unit string
	// Statement is what the invariant demands, which says what must not be.
	Statement string
	// Heading is the quantity with its unit.
	Heading string
	// Exact is set if the quantity was known exactly whenever it was looked at.
	Exact bool
	// Excused is set if some of what was seen is.
	Excused bool
	// First are the figures of the designs that stand for all, More the others.
	First, More []chart.TimeFigure
}

// watchedLane is the quantity of one variant.
type watchedLane struct {
	lane
	line rundir.WatchedLine
}

// watchedPanels draws what was followed in a repeat of every variant that has a
// timeline, a panel for each quantity.
func watchedPanels(d answer.Data, standings []answer.Standing) (panels []watchedPanel) {
	lanes := map[watchedKey][]watchedLane{}
	for _, l := range timeLanes(d, standings) {
		for _, w := range l.timeline.Watched {
			key := watchedKey{w.Invariant, w.Quantity, w.Unit}
			if lanes[key] == nil {
				panels = append(panels, watchedPanel{Invariant: w.Invariant,
					Quantity: w.Quantity, Unit: w.Unit, Exact: true,
					Statement: strings.TrimSuffix(d.Summary.Statements[w.Invariant], "."),
					Heading:   raised(w.Quantity) + ", in " + w.Unit})
			}
			lanes[key] = append(lanes[key], watchedLane{l, w})
		}
	}
	for i := range panels {
		p := &panels[i]
		all := lanes[watchedKey{p.Invariant, p.Quantity, p.Unit}]
		axes := watchedAxesOf(all)
		var figures []chart.TimeFigure
		for k, l := range all {
			figures = append(figures, watchedFigureOf(fmt.Sprintf("w%d-%d", i, k), l, axes))
			p.Exact = p.Exact && exactly(l.line)
			p.Excused = p.Excused || slices.ContainsFunc(l.line.Points,
				func(p check.WatchedPoint) bool { return p.Excused })
		}
		chart.ShareMarks(chart.FiguresOf(figures))
		p.First, p.More = firstOf(figures, standings)
	}
	return panels
}

// raised is a text that begins with a capital letter, whatever it is.
func raised(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// exactly says that no look at a quantity left room between two bounds.
func exactly(line rundir.WatchedLine) bool {
	return !slices.ContainsFunc(line.Points,
		func(p check.WatchedPoint) bool { return p.Low != p.High })
}

// watchedKey tells quantities apart.
type watchedKey struct{ invariant, quantity, unit string }

// watchedAxes are what all lanes of a panel share; width is the time that a
// row of the data covers, in seconds.
type watchedAxes struct{ end, low, high, width float64 }

// rowSeconds is the least that a row of watched data covers.
const rowSeconds = 0.5

func watchedAxesOf(lanes []watchedLane) watchedAxes {
	var axes watchedAxes
	for _, l := range lanes {
		axes.end = max(axes.end, l.end())
		for _, p := range l.line.Points {
			axes.end = max(axes.end, at(p))
			axes.low, axes.high = min(axes.low, float64(p.Low)), max(axes.high, float64(p.High))
		}
	}
	axes.width = chart.NiceStep(max(rowSeconds, axes.end/float64(pointsFor(len(lanes)))))
	return axes
}

// at is a point's time in seconds.
func at(p check.WatchedPoint) float64 { return float64(p.AtNS) / 1e9 }

func watchedFigureOf(id string, l watchedLane, axes watchedAxes) chart.TimeFigure {
	p := chart.NewPlot()
	chart.Since(p, axes.end, 6)
	room := max(axes.high-axes.low, 1) * 0.08
	p.Y.Min, p.Y.Max = axes.low-room, axes.high+room
	p.Y.Tick.Marker = chart.RoundTicks(4)
	p.Y.Label.Text = words.Short(l.line.Unit, 20)
	rows := watchedRows(l.line.Points, axes.width)
	drawn := l.line.Points
	if len(drawn) > pointsFor(1) {
		drawn = rows
	}
	p.Add(watchedBands(l, drawn)...)
	// Zero is no axis: it lies over faults.
	p.Add(chart.Grid(false), chart.Curve([]chart.Point{{X: 0, Y: 0}, {X: p.X.Max, Y: 0}},
		chart.Line(chart.RoleAxis, 1, nil, chart.NoVariant)))
	for _, part := range unbrokenParts(drawn) {
		low, high := edges(part)
		p.Add(chart.Ribbon(low, high, 0, chart.NoVariant),
			chart.Curve(low, chart.Line(chart.RoleFirst, 1, nil, chart.NoVariant)),
			chart.Curve(high, chart.Line(chart.RoleFirst, 1.5, nil, chart.NoVariant)))
	}
	f := l.figure(id, l.Name+": "+l.line.Quantity+" over time")
	f.Finding = watchedFinding(l)
	watchedTable(&f, rows, axes.width)
	f.Draw(360, 6, []*plot.Plot{p}, 150)
	f.Place(p, axes.width/2, axes.width*(float64(len(rows))-0.5))
	return f
}

// watchedRows merges points into spans of equal width from 0. A span without
// a point has its Low above its High.
func watchedRows(points []check.WatchedPoint, width float64) (rows []check.WatchedPoint) {
	for _, p := range points {
		for i := int(at(p) / width); len(rows) <= i; {
			middle := int64((float64(len(rows)) + 0.5) * width * 1e9)
			rows = append(rows, check.WatchedPoint{
				AtNS: middle, Low: math.MaxInt64, High: math.MinInt64})
		}
		r := &rows[int(at(p)/width)]
		r.Low, r.High = min(r.Low, p.Low), max(r.High, p.High)
		r.Excused = r.Excused || p.Excused
	}
	return rows
}

// seen says whether a row has a point.
func seen(p check.WatchedPoint) bool { return p.Low <= p.High }

// unbrokenParts splits points where nothing was seen for several times as long
// as usual: what a line would draw there was not measured.
func unbrokenParts(points []check.WatchedPoint) (parts [][]check.WatchedPoint) {
	points = slices.DeleteFunc(slices.Clone(points),
		func(p check.WatchedPoint) bool { return !seen(p) })
	var steps []int64
	for i := 1; i < len(points); i++ {
		steps = append(steps, points[i].AtNS-points[i-1].AtNS)
	}
	slices.Sort(steps)
	from := 0
	for i := 1; i < len(points); i++ {
		if points[i].AtNS-points[i-1].AtNS > 4*steps[len(steps)/2] {
			parts, from = append(parts, points[from:i]), i
		}
	}
	return append(parts, points[from:])
}

func edges(points []check.WatchedPoint) (low, high []chart.Point) {
	for _, p := range points {
		low = append(low, chart.Point{X: at(p), Y: float64(p.Low)})
		high = append(high, chart.Point{X: at(p), Y: float64(p.High)})
	}
	return low, high
}

// watchedBands marks what was excused, the faults, and when the invariant was
// first seen broken.
func watchedBands(l watchedLane, points []check.WatchedPoint) (marks []plot.Plotter) {
	for i := 0; i < len(points); i++ {
		from := i
		for i+1 < len(points) && points[from].Excused && points[i+1].Excused {
			i++
		}
		if i > from {
			marks = append(marks, chart.Band(at(points[from]), at(points[i]), chart.RolePhase))
		}
	}
	marks = append(marks, l.faults(true, false))
	own := rundir.Repeat{Invariants: slices.DeleteFunc(slices.Clone(l.repeat.Invariants),
		func(v check.Verdict) bool { return v.Invariant != l.line.Invariant })}
	if at, ok := firstViolation(own); ok {
		marks = append(marks, chart.Violation(at, true))
	}
	return marks
}

// watchedFinding says what the quantity was, or what is certain of it, and how much was
// looked at.
func watchedFinding(l watchedLane) string {
	text := fmt.Sprintf("Repeat %d", l.repeat.Index+1)
	for _, v := range l.repeat.Invariants {
		w := v.Watched
		if v.Invariant != l.line.Invariant || w == nil {
			continue
		}
		low, high := boundsOf(l.line.Points, w)
		what := fmt.Sprintf("%s between %s and %s %s", w.Quantity, words.Grouped(low),
			words.Grouped(high), w.Unit)
		if low == high {
			what = fmt.Sprintf("%s %s %s throughout", w.Quantity, words.Grouped(low), w.Unit)
		}
		text += fmt.Sprintf(": %s (%s", what, words.Plural(w.Judged, "sample"))
		if w.Excused > 0 {
			text += fmt.Sprintf(", %s excused", words.Grouped(w.Excused))
		}
		if w.Gaps > 0 {
			text += fmt.Sprintf(", %s failed", words.Grouped(w.Gaps))
		}
		return text + ")."
	}
	return text + "."
}

// boundsOf is the lowest and the highest that a quantity may have been: of the points, or
// of what the verdict kept where there are none.
func boundsOf(points []check.WatchedPoint, w *check.Watched) (low, high int64) {
	low, high = min(w.Lowest, w.Highest), max(w.Lowest, w.Highest)
	for _, p := range points {
		low, high = min(low, p.Low), max(high, p.High)
	}
	return low, high
}

// watchedTable fills the figure's rows.
func watchedTable(f *chart.TimeFigure, rows []check.WatchedPoint, width float64) {
	f.Columns = []string{"from", "at least", "at most", "excused"}
	for i, p := range rows {
		row := []string{words.PlainNumber(float64(i)*width) + " s", "–", "–", ""}
		if seen(p) {
			row[1], row[2] = words.Grouped(p.Low), words.Grouped(p.High)
		}
		if p.Excused {
			row[3] = "yes"
		}
		f.Rows = append(f.Rows, row)
	}
}
