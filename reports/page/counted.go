package page

import (
	"fmt"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// countedFigure draws how a count rose above its limit, with a mark where it crossed it, and
// below it the two operations that raced, with an arrow from the one that was sent first
// to the other; more stands behind what it shows. Without a count it is empty.
func countedFigure(
	id string, c *check.Counted, faults []history.Window, more string,
) chart.Figure {
	f := chart.Figure{ID: id, Title: "How the count rose above its limit"}
	if c != nil {
		f.Title = raised(c.What)
	}
	if c == nil || c.Limit < c.Before || c.Limit-c.Before >= len(c.Steps) {
		return f
	}
	plots, heights := []*plot.Plot{risePlot(c, faults)}, []vg.Length{190}
	first, second, raced := c.Race()
	if raced {
		plots, heights = append(plots, racePlot(first, second)), append(heights, 96)
	}
	f.Finding = countedFinding(c) + more
	f.Draw(330, 8, plots, heights...) // a phone shows it whole, its text of a size that can be read
	return f
}

// risePlot is the count over time.
func risePlot(c *check.Counted, faults []history.Window) *plot.Plot {
	last := time.Duration(c.Steps[len(c.Steps)-1].AtNS)
	from := time.Duration(c.Steps[0].StartNS)
	room := max((last-from)/20, time.Millisecond)
	from = max(0, from-room)
	unit, name := time.Millisecond, "milliseconds"
	if last-from >= 10*time.Second {
		unit, name = time.Second, "seconds"
	}
	at := func(t time.Duration) float64 { return float64(t) / float64(unit) }

	p := chart.NewPlot()
	p.X.Min, p.X.Max = at(from), at(last+room)
	p.X.Tick.Marker = chart.RoundTicks(5)
	p.X.Label.Text = name + " since the start"
	low, high := float64(c.Before), float64(c.Before+len(c.Steps))
	p.Y.Min, p.Y.Max = low, high+max(2, (high-low)/10)
	p.Y.Tick.Marker = chart.RoundTicks(5)
	p.Y.Label.Text = "count"
	limit := float64(c.Limit)
	p.Add(chart.Faults(faults, at, true, false), chart.Grid(false),
		chart.Curve([]chart.Point{{X: p.X.Min, Y: limit}, {X: p.X.Max, Y: limit}},
			chart.Line(chart.RoleLimit, 1.25, []vg.Length{5, 3}, chart.NoVariant)))
	points := []chart.Point{{X: p.X.Min, Y: low}}
	for i, step := range c.Steps {
		x := at(time.Duration(step.AtNS))
		points = append(points, chart.Point{X: x, Y: low + float64(i)}, chart.Point{X: x, Y: low +
			float64(i+1)})
	}
	points = append(points, chart.Point{X: p.X.Max, Y: high})
	p.Add(chart.Curve(points, chart.Line(chart.RoleFirst, 1.75, nil, chart.NoVariant)),
		chart.Mark(func(pen chart.Pen) {
			pen.Text(chart.RoleLimit, chart.NoVariant, draw.XLeft, draw.YBottom,
				vg.Point{X: pen.X(p.X.Min) + 3, Y: pen.Y(limit) + 2}, fmt.Sprintf("limit %d", c.Limit))
		}),
		crossing(chart.Point{X: at(time.Duration(c.Crossing().AtNS)), Y: limit + 1},
			fmt.Sprintf("%d by operation %d", c.Limit+1, c.Crossing().Op)))
	return p
}

// racePlot is two operations that overlapped, a bar each.
func racePlot(first, second check.CountedStep) *plot.Plot {
	from := time.Duration(first.StartNS)
	to := time.Duration(max(first.AtNS, second.AtNS))
	unit, name := unitOf(to - from)
	at := func(ns int64) float64 { return float64(time.Duration(ns)-from) / float64(unit) }
	p := chart.NewPlot()
	p.X.Min, p.X.Max = 0, max(at(int64(to))*1.02, 1e-9)
	p.X.Tick.Marker = chart.RoundTicks(5)
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, words.Clock(int64(from)))
	chart.Rows(p, fmt.Sprint(first.Op), fmt.Sprint(second.Op))
	for i, step := range []check.CountedStep{first, second} {
		p.Add(operationBar(at(step.StartNS), at(step.AtNS), at(step.StartNS), float64(1-i), history.OK))
	}
	p.Add(chart.Mark(func(c chart.Pen) { // an arrow from the upper bar to the lower one
		x, tail, tip := c.X(at(second.StartNS)), c.Y(1.2), c.Y(0.8)
		c.StrokeLine2(chart.Line(chart.RoleLimit, 1.5, nil, chart.NoVariant), x, tail, x, tip+4)
		c.Polygon(chart.RoleLimit, vg.Point{X: x, Y: tip}, vg.Point{X: x - 3.5, Y: tip + 6},
			vg.Point{X: x + 3.5, Y: tip + 6})
	}))
	return p
}

// countedFinding says in words what the chart shows.
func countedFinding(c *check.Counted) string {
	crossed := c.Crossing()
	text := fmt.Sprintf("%d, of at most %d. Operation %d was the one above the limit, at %s.",
		c.Before+len(c.Steps), c.Limit, crossed.Op, words.Clock(crossed.AtNS))
	first, second, raced := c.Race()
	if !raced {
		return text + " No two of the operations overlapped."
	}
	overlap := min(first.AtNS, second.AtNS) - second.StartNS
	return text + fmt.Sprintf(" Operation %d was sent while operation %d was still in execution: "+
		"they overlapped for %s, so one may not have seen what the other took.", second.Op, first.Op,
		words.Seconds(time.Duration(overlap).Seconds()))
}

// crossing marks the step that went above a limit.
func crossing(at chart.Point, text string) chart.Mark {
	return func(c chart.Pen) {
		x, y := c.X(at.X), c.Y(at.Y)
		c.Polygon(chart.RoleLimit, chart.Diamond(x, y, 3.5)...)
		// A count that only rises leaves room below it on the right and above it on the left.
		align, place := draw.YTop, vg.Point{X: x + 6, Y: y - 4}
		width := chart.ShownWidth(chart.Label(c.Plot, chart.RoleLimit, chart.NoVariant), text)
		if place.X+width > c.Max.X {
			align, place = draw.YBottom, vg.Point{X: x - 6 - width, Y: y + 4}
		}
		c.Text(chart.RoleLimit, chart.NoVariant, draw.XLeft, align, place, text)
	}
}
