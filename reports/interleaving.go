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
	// counted is how the count rose, where the violation is of a count.
	counted *check.Counted
	// violation is the one that they prove.
	violation check.Violation
	// neighbours are of the same subject as the one operation that proves it alone.
	neighbours []history.Record
}

// proofOf is the first violation that known operations prove, several of them if there is
// one with several.
func proofOf(d Data, st standing, repeat rundir.Repeat, shown check.Verdict) proof {
	ref := RepeatRef{st.Name, repeat.Index}
	v, known := firstKnown(shown, d.Records[ref])
	if len(known) == 0 {
		return proof{}
	}
	p := proof{records: known, at: time.Duration(v.AtNS), faults: faultWindows(repeat),
		deeds: d.Deeds[ref], counted: v.Counted, violation: v}
	if len(known) == 1 {
		p.neighbours = d.Neighbours[ref][known[0].Seq]
	}
	return p
}

// interleaving draws the operations of a violation, a bar each from when it was sent
// to its answer: what could have taken effect before what. One that proves it alone
// stands among its neighbours, with an arrow. Without an operation it is empty.
func interleaving(id string, shown proof) (figure, error) {
	records := slices.Concat(shown.records, shown.neighbours)
	if len(records) == 0 {
		return figure{}, nil
	}
	alone := len(shown.records) == 1
	if alone && records[0].Start == history.Never {
		return figure{}, nil // it was not sent
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
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, clock(int64(from)))
	p.Y.Min, p.Y.Max = 0, float64(len(records))
	if len(shown.faults) > 0 {
		p.Y.Max++ // their labels stand above the bars
	}
	var ticks plot.ConstantTicks
	p.Add(faultBands{windows: shown.faults, at: scale, labelled: true})
	for i, rec := range records {
		row := float64(len(records) - 1 - i)
		p.Add(operationBar{from: scale(rec.Start), to: scale(min(rec.End, to)), due: scale(rec.Intended),
			row: row, outcome: rec.Outcome})
		label := fmt.Sprint(rec.Op.ID)
		if alone && rec.Seq == shown.records[0].Seq {
			label = "→ " + label
		}
		ticks = append(ticks, plot.Tick{Value: row + 0.5, Label: label})
	}
	if shown.at >= from && shown.at <= to {
		p.Y.Min-- // its mark stands below them
		p.Add(violationMark{at: scale(shown.at), labelled: true})
	}
	p.Y.Tick.Marker = ticks
	p.Y.Tick.Length, p.Y.Padding = 0, 4
	finding, most := interleavingFinding(records, hidden, to-from)
	if most < 2 && !alone {
		return figure{}, nil // nothing interleaves
	}
	f := figure{ID: id, Title: "Interleaving of the operations that prove it", Finding: finding}
	if alone {
		f.Title = "The operation that proves it, among its neighbours"
		f.Finding = neighboursFinding(shown, f.Finding)
	}
	d := stack(vg.Length(560), 8, []*plot.Plot{p}, []vg.Length{34 + 15*vg.Length(p.Y.Max-p.Y.Min)})
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

// clock formats a time on the run's clock in milliseconds.
func clock(ns int64) string {
	if ns == rundir.Infinite {
		return "never"
	}
	whole, part := ns/int64(time.Millisecond), ns%int64(time.Millisecond)/int64(10*time.Microsecond)
	return fmt.Sprintf("%s.%02d ms", grouped(whole), part)
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

// interleavingFinding says how many there were, and how many at once at most.
func interleavingFinding(
	records []history.Record, hidden int, span time.Duration,
) (text string, most int) {
	for _, r := range records {
		n := 0
		for _, other := range records {
			if other.Start <= r.Start && other.End >= r.Start {
				n++
			}
		}
		most = max(most, n)
	}
	text = fmt.Sprintf("%s within %s, at most %d at once", plural(len(records), "operation"),
		seconds(span.Seconds()), most)
	if hidden > 0 {
		text += fmt.Sprintf("; %d more are not drawn", hidden)
	}
	return text + ".", most
}

// neighboursFinding says what stands beside an operation that proves something alone.
func neighboursFinding(shown proof, finding string) string {
	text := fmt.Sprintf("Operation %d proves it alone", shown.records[0].Op.ID)
	if n := len(shown.neighbours); n > 0 {
		return text + fmt.Sprintf("; beside it the %s of the same key or client that %s sent nearest "+
			"to it. %s", plural(n, "operation"), choose(n, "was", "were"), finding)
	}
	return text + "; no other operation has its key or its client."
}

// maxNeighbours is how many operations are kept beside one that proves something alone.
const maxNeighbours = maxBars - 1

// loners are the operations that prove a violation alone, of those that the page draws.
func loners(verdicts []check.Verdict, records map[uint64]history.Record) (all []history.Record) {
	for _, v := range verdicts {
		if _, known := firstKnown(v, records); len(known) == 1 {
			all = append(all, known[0])
		}
	}
	return all
}

// neighboursOf streams a stored history for what was sent nearest to each of some
// operations, of those that have its key or its client or what was assigned to it.
func neighboursOf(
	run *rundir.Run, name string, loners []history.Record,
) (map[uint64][]history.Record, error) {
	found := map[uint64][]history.Record{}
	if len(loners) == 0 {
		return found, nil
	}
	err := eachRecord(run, name, func(r history.Record) (more bool) {
		for _, lone := range loners {
			if r.Seq != lone.Seq && r.Outcome != history.Dropped && related(r, lone) {
				found[lone.Seq] = nearest(found[lone.Seq], r, lone.Start)
			}
		}
		return true
	})
	return found, err
}

// related says that two operations have a subject in common.
func related(a, b history.Record) bool {
	same := func(x, y string) bool { return x != "" && x == y }
	return same(a.Op.Key, b.Op.Key) || same(a.Op.Client, b.Op.Client) ||
		same(a.Op.Key, b.Reply.Key) || same(a.Reply.Key, b.Op.Key)
}

// nearest adds an operation to those that were sent nearest to a time, if it is one.
func nearest(near []history.Record, r history.Record, to time.Duration) []history.Record {
	far := func(r history.Record) time.Duration { return (r.Start - to).Abs() }
	at, _ := slices.BinarySearchFunc(near, far(r), func(n history.Record, d time.Duration) int {
		return cmp.Compare(far(n), d)
	})
	if at >= maxNeighbours {
		return near
	}
	near = slices.Insert(near, at, r)
	return near[:min(len(near), maxNeighbours)]
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
	if o.outcome == history.Refused {
		bottom, top = ty(o.row+0.38), ty(o.row+0.62) // it differs in more than its colour
	}
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
