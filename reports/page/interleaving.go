package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"stampede/harness/history"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// interleaving draws the operations of a violation, a bar each from when it was sent
// to its answer: what could have taken effect before what. One that proves it alone
// stands among its neighbours, with an arrow. Without an operation it is empty.
func interleaving(id string, shown answer.Proof) (f chart.Figure) {
	records := slices.Concat(shown.Records, shown.Neighbours)
	alone := len(shown.Records) == 1
	if len(records) == 0 || alone && records[0].Start == history.Never {
		return f // it was not sent
	}
	slices.SortStableFunc(records, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	hidden := max(0, len(records)-answer.MaxBars)
	records = records[:len(records)-hidden]
	from, to := extentOf(records)
	finding, most := interleavingFinding(records, hidden, to-from)
	if most < 2 && !alone {
		return f // nothing interleaves
	}
	f = chart.Figure{ID: id, Title: "Interleaving of the operations that prove it", Finding: finding}
	if alone {
		f.Title = "The operation that proves it, among its neighbours"
		f.Finding = neighboursFinding(shown, finding)
	}
	p := barPlot(records, shown, from, to)
	f.Draw(560, 8, []*plot.Plot{p}, 34+15*vg.Length(p.Y.Max-p.Y.Min))
	return f
}

// barPlot has a row for each of some operations.
func barPlot(records []history.Record, shown answer.Proof, from, to time.Duration) *plot.Plot {
	unit, name := unitOf(to - from)
	scale := func(at time.Duration) float64 { return float64(at-from) / float64(unit) }
	p := chart.NewPlot()
	p.X.Min, p.X.Max = 0, max(scale(to), 1e-9)
	p.X.Tick.Marker = chart.RoundTicks(8)
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, words.Clock(int64(from)))
	p.Add(chart.Faults(shown.Faults, scale, true, false))
	var labels []string
	for i, rec := range records {
		p.Add(operationBar(scale(rec.Start), scale(min(rec.End, to)), scale(rec.Intended),
			float64(len(records)-1-i), rec.Outcome))
		label := fmt.Sprint(rec.Op.ID)
		if len(shown.Records) == 1 && rec.Seq == shown.Records[0].Seq {
			label = "→ " + label
		}
		labels = append(labels, label)
	}
	chart.Rows(p, labels...)
	if len(shown.Faults) > 0 {
		p.Y.Max++ // their labels stand above the bars
	}
	if shown.At >= from && shown.At <= to {
		p.Y.Min-- // its mark stands below them
		p.Add(chart.Violation(scale(shown.At), true))
	}
	return p
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
	text = fmt.Sprintf("%s within %s, at most %d at once", words.Plural(len(records), "operation"),
		words.Seconds(span.Seconds()), most)
	if hidden > 0 {
		text += fmt.Sprintf("; %d more are not drawn", hidden)
	}
	return text + ".", most
}

// neighboursFinding says what stands beside an operation that proves something alone.
func neighboursFinding(shown answer.Proof, finding string) string {
	text := fmt.Sprintf("Operation %d proves it alone", shown.Records[0].Op.ID)
	if n := len(shown.Neighbours); n > 0 {
		return text + fmt.Sprintf("; beside it the %s of the same key or client that %s sent nearest "+
			"to it. %s", words.Plural(n, "operation"), words.Choose(n, "was", "were"), finding)
	}
	return text + "; no other operation has its key or its client."
}

// operationBar is an operation from when it was sent to its answer, in a row that is 1
// high. One whose outcome is unknown is hollow, for it may take effect whenever.
func operationBar(from, to, due, row float64, outcome history.Outcome) chart.Mark {
	return func(c chart.Pen) {
		left := c.X(from)
		right := min(max(c.X(to), left+2), c.Max.X)
		margin := 0.2
		if outcome == history.Refused {
			margin = 0.38 // it differs in more than its colour
		}
		outline := chart.Rectangle(left, c.Y(row+margin), right, c.Y(row+1-margin))
		slot := map[history.Outcome]chart.Role{history.OK: 0, history.Refused: 4,
			history.Unknown: 1}[outcome]
		if outcome == history.Unknown {
			c.StrokeLines(chart.Line(chart.RoleFirst+slot, 1.2, chart.Dash(2), chart.NoVariant),
				append(outline, outline[0]))
		} else {
			c.Polygon(chart.RoleFirst+slot, outline...)
		}
		if at := c.X(due); c.ContainsX(at) {
			c.StrokeLine2(chart.Line(chart.RoleInk, 1, nil, chart.NoVariant), at, c.Y(row+0.1), at,
				c.Y(row+0.9))
		}
	}
}
