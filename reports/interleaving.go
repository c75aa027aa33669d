package reports

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// maxBars is how many operations an interleaving shows.
const maxBars = 12

// proof is what proves a violation.
type proof struct {
	records []history.Record
	// at is when the violation was complete, not positive if that is not known.
	at     time.Duration
	faults []history.Window
	// deeds is what the clients of the repeat's violations did.
	deeds []history.Record
}

// proofOf is the first violation that several known operations prove, if there is one.
func proofOf(d Data, st standing, repeat rundir.Repeat, shown check.Verdict) proof {
	ref := RepeatRef{st.Name, repeat.Index}
	v, known := firstSeveral(shown, d.Records[ref])
	if len(known) == 0 {
		return proof{}
	}
	return proof{known, time.Duration(v.AtNS), faultWindows(repeat), d.Deeds[ref]}
}

// interleaving draws the operations of a violation, a bar each from when it was sent
// to its answer: what could have taken effect before what. It is empty if there are
// fewer than two.
func interleaving(id string, shown proof) (figure, error) {
	records := shown.records
	if len(records) < 2 {
		return figure{}, nil
	}
	slices.SortStableFunc(records, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	hidden := max(0, len(records)-maxBars)
	records = records[:len(records)-hidden]
	from, to := extentOf(records)
	unit, name := unitOf(to - from)
	scale := func(at time.Duration) float64 { return float64(at-from) / float64(unit) }

	p := newPlot()
	p.X.Min, p.X.Max = 0, max(scale(to), 1e-9)
	p.X.Tick.Marker = secondTicks{most: 8}
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, offset(int64(from)))
	p.Y.Min, p.Y.Max = 0, float64(len(records))
	var ticks plot.ConstantTicks
	for i, w := range shown.faults {
		p.Add(band{from: max(scale(w.Start), 0), to: min(scale(w.End), p.X.Max), role: roleFault,
			label: fmt.Sprintf("F%d", i+1)})
	}
	for i, rec := range records {
		row := float64(len(records) - 1 - i)
		p.Add(operationBar{from: scale(rec.Start), to: scale(min(rec.End, to)), due: scale(rec.Intended),
			row: row, outcome: rec.Outcome})
		ticks = append(ticks, plot.Tick{Value: row + 0.5,
			Label: fmt.Sprintf("#%d", rec.Seq)})
	}
	p.Y.Tick.Marker = ticks
	p.Y.Tick.Length, p.Y.Padding = 0, 4
	if shown.at >= from && shown.at <= to {
		p.Add(violationMark{at: scale(shown.at), labelled: true})
	}
	f := figure{ID: id, Title: "Interleaving of the operations that prove it",
		Finding: interleavingFinding(records, hidden, to-from)}
	d := stack(vg.Length(560), 8, []*plot.Plot{p}, []vg.Length{vg.Length(34 + 15*len(records))})
	svg, err := inline(d.canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

// extentOf is from the first to the last moment of some operations; those that never
// ended last a little beyond the others.
func extentOf(records []history.Record) (from, to time.Duration) {
	from = records[0].Start
	for _, r := range records {
		to = max(to, r.Start)
		if r.End != history.Never {
			to = max(to, r.End)
		}
	}
	return from, to + max((to-from)/50, 1)
}

// unitOf is the unit in which a span has few digits before the point.
func unitOf(span time.Duration) (time.Duration, string) {
	switch {
	case span >= 2*time.Second:
		return time.Second, "seconds"
	case span >= 2*time.Millisecond:
		return time.Millisecond, "milliseconds"
	}
	return time.Microsecond, "microseconds"
}

// interleavingFinding says how many there were, and how many at once.
func interleavingFinding(records []history.Record, hidden int, span time.Duration) string {
	most := 0
	for _, r := range records {
		n := 0
		for _, other := range records {
			if other.Start <= r.Start && other.End >= r.Start {
				n++
			}
		}
		most = max(most, n)
	}
	text := fmt.Sprintf("%s within %s, at most %d at once", plural(len(records), "operation"),
		seconds(span.Seconds()), most)
	if hidden > 0 {
		text += fmt.Sprintf("; %d more are not drawn", hidden)
	}
	return text + "."
}

// operationBar is an operation from when it was sent to its answer, in a row that is 1
// high. One whose outcome is unknown is hollow, for it may take effect whenever.
type operationBar struct {
	from, to, due, row float64
	outcome            history.Outcome
}

// Plot implements plot.Plotter.
func (o operationBar) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	left, right := tx(o.from), tx(o.to)
	right = min(max(right, left+2), c.Max.X)
	bottom, top := ty(o.row+0.2), ty(o.row+0.8)
	outline := []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top},
		{X: left, Y: top}}
	slot := map[history.Outcome]role{history.OK: 0, history.Refused: 4, history.Unknown: 1}[o.outcome]
	if o.outcome == history.Unknown {
		c.StrokeLines(line(roleFirst+slot, 1.2, dash(2), noVariant), append(outline, outline[0]))
	} else {
		c.FillPolygon(ink(roleFirst+slot, noVariant), outline)
	}
	if due := tx(o.due); c.ContainsX(due) {
		c.StrokeLine2(line(roleInk, 1, nil, noVariant), due, ty(o.row+0.1), due, ty(o.row+0.9))
	}
}
