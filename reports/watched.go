package reports

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"stampede/harness/check"
	"stampede/harness/rundir"
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
	First, More []timeFigure
}

// watchedLane is the quantity of one variant.
type watchedLane struct {
	lane
	line rundir.WatchedLine
}

// watchedPanels draws what was followed in a repeat of every variant that has a
// timeline, a panel for each quantity.
func watchedPanels(d Data, standings []standing) ([]watchedPanel, error) {
	var panels []watchedPanel
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
		var figures []timeFigure
		for k, l := range all {
			f, err := watchedFigureOf(fmt.Sprintf("w%d-%d", i, k), l, axes)
			if err != nil {
				return nil, err
			}
			figures = append(figures, f)
			p.Exact = p.Exact && exactly(l.line)
			p.Excused = p.Excused || slices.ContainsFunc(l.line.Points,
				func(p check.WatchedPoint) bool { return p.Excused })
		}
		shareMarks(figuresOf(figures))
		p.First, p.More = firstOf(figures, standings)
	}
	return panels, nil
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
	axes.width = niceStep(max(rowSeconds, axes.end/float64(pointsFor(len(lanes)))))
	return axes
}

// at is a point's time in seconds.
func at(p check.WatchedPoint) float64 { return float64(p.AtNS) / 1e9 }

func watchedFigureOf(id string, l watchedLane, axes watchedAxes) (timeFigure, error) {
	p := newPlot()
	p.X.Min, p.X.Max = 0, max(axes.end, 1e-3)
	p.X.Tick.Marker = secondTicks{most: 6}
	p.X.Label.Text = "seconds since the start"
	room := max(axes.high-axes.low, 1) * 0.08
	p.Y.Min, p.Y.Max = axes.low-room, axes.high+room
	p.Y.Tick.Marker = secondTicks{most: 4}
	p.Y.Label.Text = short(l.line.Unit, 20)
	rows := watchedRows(l.line.Points, axes.width)
	drawn := l.line.Points
	if len(drawn) > pointsFor(1) {
		drawn = rows
	}
	p.Add(watchedBands(l, drawn)...)
	// Zero is no axis: it lies over faults.
	p.Add(gridLines{}, curve{style: line(roleAxis, 1, nil, noVariant),
		points: []point{{0, 0}, {p.X.Max, 0}}})
	for _, part := range unbrokenParts(drawn) {
		low, high := edges(part)
		p.Add(ribbon{low: low, high: high, slot: 0, variant: noVariant},
			curve{points: low, style: line(roleFirst, 1, nil, noVariant)},
			curve{points: high, style: line(roleFirst, 1.5, nil, noVariant)})
	}
	f := l.figure(id, l.Name+": "+l.line.Quantity+" over time")
	f.Finding = watchedFinding(l)
	f.watchedTable(rows, axes.width)
	drawing := stack(vg.Length(360), 6, []*plot.Plot{p}, []vg.Length{150})
	f.place(drawing, p, axes.width/2, axes.width*(float64(len(rows))-0.5), len(rows))
	svg, err := inline(drawing.canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
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

func edges(points []check.WatchedPoint) (low, high []point) {
	for _, p := range points {
		low = append(low, point{at(p), float64(p.Low)})
		high = append(high, point{at(p), float64(p.High)})
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
			marks = append(marks, band{from: at(points[from]), to: at(points[i]), role: rolePhase})
		}
	}
	marks = append(marks, bandsOf(faultWindows(l.repeat), true))
	own := rundir.Repeat{Invariants: slices.DeleteFunc(slices.Clone(l.repeat.Invariants),
		func(v check.Verdict) bool { return v.Invariant != l.line.Invariant })}
	if at, ok := firstViolation(own); ok {
		marks = append(marks, violationMark{at: at, labelled: true})
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
		what := fmt.Sprintf("%s between %s and %s %s", w.Quantity, grouped(low), grouped(high), w.Unit)
		if low == high {
			what = fmt.Sprintf("%s %s %s throughout", w.Quantity, grouped(low), w.Unit)
		}
		text += fmt.Sprintf(": %s (%s", what, plural(w.Judged, "sample"))
		if w.Excused > 0 {
			text += fmt.Sprintf(", %s excused", grouped(w.Excused))
		}
		if w.Gaps > 0 {
			text += fmt.Sprintf(", %s failed", grouped(w.Gaps))
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
func (f *timeFigure) watchedTable(rows []check.WatchedPoint, width float64) {
	f.Columns = []string{"from", "at least", "at most", "excused"}
	for i, p := range rows {
		row := []string{plainNumber(float64(i)*width) + " s", "–", "–", ""}
		if seen(p) {
			row[1], row[2] = grouped(p.Low), grouped(p.High)
		}
		if p.Excused {
			row[3] = "yes"
		}
		f.Rows = append(f.Rows, row)
	}
}
