package reports

import (
	"fmt"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/harness/history"
)

// countedFigure draws how a count rose above its limit, with a mark where it crossed it, and
// below it the two operations that raced, with an arrow from the one that was sent first
// to the other; more stands behind what it shows. Without a count it is empty.
func countedFigure(
	id string, c *check.Counted, faults []history.Window, more string,
) (figure, error) {
	f := figure{ID: id, Title: "How the count rose above its limit"}
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
	d := stack(countedWidth, 8, plots, heights)
	svg, err := inline(d.canvas, id, f.Title, f.Finding)
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

	p := newPlot()
	p.X.Min, p.X.Max = at(from), at(last+room)
	p.X.Tick.Marker = secondTicks{most: 5}
	p.X.Label.Text = name + " since the start"
	low, high := float64(c.Before), float64(c.Before+len(c.Steps))
	p.Y.Min, p.Y.Max = low, high+max(2, (high-low)/10)
	p.Y.Tick.Marker = secondTicks{most: 5}
	p.Y.Label.Text = "count"
	p.Add(faultBands{windows: faults, at: at, labelled: true}, gridLines{},
		curve{points: []point{{p.X.Min, float64(c.Limit)}, {p.X.Max, float64(c.Limit)}},
			style: line(roleLimit, 1.25, []vg.Length{5, 3}, noVariant)})
	points := []point{{p.X.Min, low}}
	for i, step := range c.Steps {
		x := at(time.Duration(step.AtNS))
		points = append(points, point{x, low + float64(i)}, point{x, low + float64(i+1)})
	}
	points = append(points, point{p.X.Max, high})
	crossed := point{at(time.Duration(c.Crossing().AtNS)), float64(c.Limit + 1)}
	p.Add(curve{points: points, style: line(roleFirst, 1.75, nil, noVariant)},
		note{at: point{p.X.Min, float64(c.Limit)}, text: fmt.Sprintf("limit %d", c.Limit)},
		crossing{at: crossed, text: fmt.Sprintf("%d by operation %d", c.Limit+1, c.Crossing().Op)})
	return p
}

// racePlot is two operations that overlapped, a bar each.
func racePlot(first, second check.CountedStep) *plot.Plot {
	from := time.Duration(first.StartNS)
	to := time.Duration(max(first.AtNS, second.AtNS))
	unit, name := unitOf(to - from)
	at := func(ns int64) float64 { return float64(time.Duration(ns)-from) / float64(unit) }
	p := newPlot()
	p.X.Min, p.X.Max = 0, max(at(int64(to))*1.02, 1e-9)
	p.X.Tick.Marker = secondTicks{most: 5}
	p.X.Label.Text = fmt.Sprintf("%s after %s", name, clock(int64(from)))
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
		c.Before+len(c.Steps), c.Limit, crossed.Op, clock(crossed.AtNS))
	first, second, raced := c.Race()
	if !raced {
		return text + " No two of the operations overlapped."
	}
	overlap := min(first.AtNS, second.AtNS) - second.StartNS
	return text + fmt.Sprintf(" Operation %d was sent while operation %d was still in execution: "+
		"they overlapped for %s, so one may not have seen what the other took.", second.Op, first.Op,
		seconds(time.Duration(overlap).Seconds()))
}

// note is a text at a point of a chart.
type note struct {
	at   point
	text string
}

// Plot implements plot.Plotter.
func (n note) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := label(p, roleLimit, noVariant)
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	c.FillText(style, vg.Point{X: tx(n.at.X) + 3, Y: ty(n.at.Y) + 2}, n.text)
}

// crossing marks the step that went above a limit.
type crossing struct {
	at   point
	text string
}

// Plot implements plot.Plotter.
func (m crossing) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	x, y := tx(m.at.X), ty(m.at.Y)
	const r = 3.5
	c.FillPolygon(ink(roleLimit, noVariant), []vg.Point{{X: x - r, Y: y}, {X: x, Y: y + r},
		{X: x + r, Y: y}, {X: x, Y: y - r}})
	style := label(p, roleLimit, noVariant)
	// A count that only rises leaves room below it on the right and above it on the left.
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	at := vg.Point{X: x + 6, Y: y - 4}
	if at.X+shownWidth(style, m.text) > c.Max.X {
		style.YAlign = draw.YBottom
		at = vg.Point{X: x - 6 - shownWidth(style, m.text), Y: y + 4}
	}
	c.FillText(style, at, m.text)
}

// arrow points from one row of bars to the one below it.
type arrow struct{ at, from, to float64 }

// Plot implements plot.Plotter.
func (a arrow) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	x, tail, tip := tx(a.at), ty(a.from), ty(a.to)
	c.StrokeLine2(line(roleLimit, 1.5, nil, noVariant), x, tail, x, tip+4)
	c.FillPolygon(ink(roleLimit, noVariant), []vg.Point{{X: x, Y: tip}, {X: x - 3.5, Y: tip + 6},
		{X: x + 3.5, Y: tip + 6}})
}
