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
) (chart.Figure, error) {
	f := chart.Figure{ID: id, Title: "How the count rose above its limit"}
	if c != nil {
		f.Title = raised(c.What)
	}
	if c == nil || c.Limit < c.Before || c.Limit-c.Before >= len(c.Steps) {
		return f, nil
	}
	plots, heights := []*plot.Plot{risePlot(c, faults)}, []vg.Length{190}
	first, second, raced := c.Race()
	if raced {
		plots, heights = append(plots, racePlot(first, second)), append(heights, 96)
	}
	f.Finding = countedFinding(c) + more
	d := chart.Stack(countedWidth, 8, plots, heights)
	svg, err := chart.Inline(d.Canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

// countedWidth is that of a chart which a phone shows whole, with text of a size that can be
// read.
const countedWidth = vg.Length(330)

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
	p.X.Tick.Marker = chart.SecondTicks{Most: 5}
	p.X.Label.Text = name + " since the start"
	low, high := float64(c.Before), float64(c.Before+len(c.Steps))
	p.Y.Min, p.Y.Max = low, high+max(2, (high-low)/10)
	p.Y.Tick.Marker = chart.SecondTicks{Most: 5}
	p.Y.Label.Text = "count"
	p.Add(chart.FaultBands{Windows: faults, At: at, Labelled: true}, chart.GridLines{},
		chart.Curve{Points: []chart.Point{{X: p.X.Min, Y: float64(c.Limit)}, {X: p.X.Max,
			Y: float64(c.Limit)}},
			Style: chart.Line(chart.RoleLimit, 1.25, []vg.Length{5, 3}, chart.NoVariant)})
	points := []chart.Point{{X: p.X.Min, Y: low}}
	for i, step := range c.Steps {
		x := at(time.Duration(step.AtNS))
		points = append(points, chart.Point{X: x, Y: low + float64(i)}, chart.Point{X: x, Y: low +
			float64(i+1)})
	}
	points = append(points, chart.Point{X: p.X.Max, Y: high})
	crossed := chart.Point{X: at(time.Duration(c.Crossing().AtNS)), Y: float64(c.Limit + 1)}
	p.Add(chart.Curve{Points: points, Style: chart.Line(chart.RoleFirst, 1.75, nil, chart.NoVariant)},
		note{at: chart.Point{X: p.X.Min, Y: float64(c.Limit)}, text: fmt.Sprintf("limit %d", c.Limit)},
		crossing{at: crossed, text: fmt.Sprintf("%d by operation %d", c.Limit+1, c.Crossing().Op)})
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
	p.X.Tick.Marker = chart.SecondTicks{Most: 5}
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, words.Clock(int64(from)))
	p.Y.Min, p.Y.Max = 0, 2
	p.Y.Tick.Length, p.Y.Padding = 0, 4
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 1.5, Label: fmt.Sprint(first.Op)},
		{Value: 0.5, Label: fmt.Sprint(second.Op)}}
	for i, step := range []check.CountedStep{first, second} {
		p.Add(operationBar{from: at(step.StartNS), to: at(step.AtNS), due: at(step.StartNS),
			row: float64(1 - i), outcome: history.OK})
	}
	p.Add(arrow{at: at(second.StartNS), from: 1.2, to: 0.8})
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

// note is a text at a point of a chart.
type note struct {
	at   chart.Point
	text string
}

// Plot implements plot.Plotter.
func (n note) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := chart.Label(p, chart.RoleLimit, chart.NoVariant)
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	c.FillText(style, vg.Point{X: tx(n.at.X) + 3, Y: ty(n.at.Y) + 2}, n.text)
}

// crossing marks the step that went above a limit.
type crossing struct {
	at   chart.Point
	text string
}

// Plot implements plot.Plotter.
func (m crossing) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	x, y := tx(m.at.X), ty(m.at.Y)
	const r = 3.5
	c.FillPolygon(chart.Ink(chart.RoleLimit, chart.NoVariant), []vg.Point{{X: x - r, Y: y}, {X: x,
		Y: y + r},
		{X: x + r, Y: y}, {X: x, Y: y - r}})
	style := chart.Label(p, chart.RoleLimit, chart.NoVariant)
	// A count that only rises leaves room below it on the right and above it on the left.
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	at := vg.Point{X: x + 6, Y: y - 4}
	if at.X+chart.ShownWidth(style, m.text) > c.Max.X {
		style.YAlign = draw.YBottom
		at = vg.Point{X: x - 6 - chart.ShownWidth(style, m.text), Y: y + 4}
	}
	c.FillText(style, at, m.text)
}

// arrow points from one row of bars to the one below it.
type arrow struct{ at, from, to float64 }

// Plot implements plot.Plotter.
func (a arrow) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	x, tail, tip := tx(a.at), ty(a.from), ty(a.to)
	c.StrokeLine2(chart.Line(chart.RoleLimit, 1.5, nil, chart.NoVariant), x, tail, x, tip+4)
	c.FillPolygon(chart.Ink(chart.RoleLimit, chart.NoVariant), []vg.Point{{X: x, Y: tip}, {X: x - 3.5,
		Y: tip + 6},
		{X: x + 3.5, Y: tip + 6}})
}
