package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// repeatFigure draws the p50 and p99 of every repeat of every variant, so
// that one sees how far repeats of the same thing lie apart. It is empty when
// nothing was repeated.
func repeatFigure(standings []answer.Standing) chart.Figure {
	f := chart.Figure{ID: "repeats-chart", Title: "p50 and p99 of each repeat"}
	p := chart.NewPlot()
	values, most := repeatValues(standings)
	if most < 2 {
		return f
	}
	at := horizontalTimeAxis(p, values)
	p.Y.Min, p.Y.Max = -0.6, float64(len(standings))-0.4
	for i := range len(standings) - 1 {
		y := float64(i) + 0.5
		p.Add(chart.Curve([]chart.Point{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}},
			chart.Line(chart.RoleGrid, 0.75, nil, chart.NoVariant)))
	}
	var ticks []plot.Tick
	for i, st := range standings {
		y := float64(len(standings) - 1 - i)
		ticks = append(ticks, plot.Tick{Value: y, Label: st.Letter})
		median, tail := repeatPoints(st, at, y)
		p.Add(chart.Dots(median, slotP50, st.Index, true), chart.Dots(tail, slotP99, st.Index, false))
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Label.Text = "response time"
	f.Finding = repeatFinding(standings)
	f.Legend = []chart.LegendItem{
		{Slot: slotP50, Variant: chart.NoVariant, Name: "p50 of a repeat", Diamond: "hollow"},
		{Slot: slotP99, Variant: chart.NoVariant, Name: "p99 of a repeat", Diamond: "filled"}}
	height := vg.Length(44 + max(17, 10+4*most)*len(standings))
	f.Draw(560, 10, []*plot.Plot{p}, height)
	return f
}

// horizontalTimeAxis is timeAxis for x.
func horizontalTimeAxis(p *plot.Plot, values []float64) (at func(float64) float64) {
	at = chart.TimeAxis(p, values, 7)
	p.X.Scale, p.X.Min, p.X.Max = p.Y.Scale, p.Y.Min, p.Y.Max
	p.X.Tick.Marker = p.Y.Tick.Marker
	p.Y.Scale = plot.LinearScale{}
	p.Add(chart.Grid(true))
	return at
}

// repeatPoints are a variant's repeats, in the order in which they ran from the top of
// its row to the bottom.
func repeatPoints(st answer.Standing, at func(float64) float64, y float64) (median,
	tail []chart.Point) {
	repeats := slices.SortedFunc(slices.Values(st.Repeats),
		func(a, b rundir.Repeat) int { return cmp.Compare(a.Order, b.Order) })
	for i, r := range repeats {
		if p, ok := answer.MainResponse(r, st); ok {
			// The first one is at the top of its row, the last at the bottom.
			place := y + 0.32 - 0.64*float64(i)/float64(max(1, len(repeats)-1))
			median = append(median, chart.Point{X: at(secondsOf(p.P50)), Y: place})
			tail = append(tail, chart.Point{X: at(secondsOf(p.P99)), Y: place})
		}
	}
	return median, tail
}

func repeatValues(standings []answer.Standing) (values []float64, most int) {
	for _, st := range standings {
		most = max(most, len(st.Repeats))
		for _, r := range st.Repeats {
			if p, ok := answer.MainResponse(r, st); ok {
				values = append(values, secondsOf(p.P50), secondsOf(p.P99))
			}
		}
	}
	return values, most
}

// repeatFinding names the variant whose p99 differs most between repeats.
func repeatFinding(standings []answer.Standing) string {
	type span struct {
		name      string
		low, high int64
	}
	var spans []span
	for _, st := range standings {
		s := span{name: st.Name, low: math.MaxInt64}
		for _, r := range st.Repeats {
			if p, ok := answer.MainResponse(r, st); ok {
				s.low, s.high = min(s.low, p.P99), max(s.high, p.P99)
			}
		}
		if s.high > 0 {
			spans = append(spans, s)
		}
	}
	if len(spans) == 0 {
		return "No repeat has a finished operation."
	}
	widest := slices.MaxFunc(spans, func(a, b span) int {
		return cmp.Compare(float64(a.high)/float64(max(a.low, 1)), float64(b.high)/float64(max(b.low, 1)))
	})
	return fmt.Sprintf("The p99 differs most between repeats in %s: from %s to %s.",
		widest.name, words.Latency(widest.low), words.Latency(widest.high))
}
