package page

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"stampede/harness/plain"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// Sweep is a simulation with several values of something in turn.
type Sweep struct {
	Scenario, Question string
	// Path is what took the values, such as cores, and Known how costs are known.
	Path, Known string
	Designs     []SweptDesign
}

// SweptDesign is what came of the values for a design, in ascending order.
type SweptDesign struct {
	Name string
	// Wrong says that it broke an invariant.
	Wrong  bool
	Points []SweptPoint
}

// SweptPoint is what came of a value, which is a number or a duration in seconds, and as it was
// given: successes a second, times in nanoseconds, and what was waited for in words.
type SweptPoint struct {
	Value      float64
	Given      string
	PerS       float64
	P50, P99   int64
	Bottleneck string
}

// sweepPage is what the template of a sweep shows.
type sweepPage struct {
	Sweep
	Title   string
	CSP     template.HTMLAttr
	Style   template.HTML
	Script  template.HTML
	Icons   []words.Mark
	Nav     []NavItem
	Word    string
	Figures []chart.Figure
	Ends    []sweptEnds
}

// sweptEnds is what a design waited for with the least and the greatest value.
type sweptEnds struct{ Letter, Name, Least, Most string }

// WriteSweep writes the page of a sweep: one file.
func WriteSweep(w io.Writer, s Sweep) error {
	icon := words.Mark{Icon: "≈", Word: answer.SimulatedWord, Class: "warn"}
	p := sweepPage{Sweep: s, Word: answer.SimulatedWord, Icons: []words.Mark{icon},
		Title: plain.Text(answer.SimulatedWord + " · " + s.Scenario + " by " + s.Path),
		Nav:   []NavItem{{"verdict", "Sweep"}, {"curves", "Curves"}, {"waits", "Waits"}}}
	var indices []int
	for i, d := range s.Designs {
		indices = append(indices, i)
		if n := len(d.Points); n > 0 {
			p.Ends = append(p.Ends, sweptEnds{words.Letter(i), d.Name, d.Points[0].Bottleneck,
				d.Points[n-1].Bottleneck})
		}
	}
	p.Figures = []chart.Figure{
		sweepFigure("s0", "successes per second", s, func(v SweptPoint) float64 { return v.PerS },
			func(v SweptPoint) string { return words.Rate(v.PerS) }, false),
		sweepFigure("s1", "p99 of response time", s,
			func(v SweptPoint) float64 { return secondsOf(v.P99) },
			func(v SweptPoint) string { return words.Latency(v.P99) }, true),
	}
	p.Style, p.Script, p.CSP = Dressing(toggleRules(indices))
	return Fill(w, "sweep.gohtml", p)
}

// sweepFigure draws a curve for each design, the values on a logarithmic axis.
func sweepFigure(
	id, title string, s Sweep, of func(SweptPoint) float64, text func(SweptPoint) string, times bool,
) chart.Figure {
	f := chart.Figure{ID: id, Title: title + " by " + s.Path,
		Columns: []string{s.Path, "design", title}}
	var all, at []float64
	given := map[float64]string{}
	for _, d := range s.Designs {
		for _, v := range d.Points {
			all, at = append(all, of(v)), append(at, v.Value)
			given[v.Value] = v.Given
		}
	}
	if len(all) == 0 {
		return f
	}
	p := chart.NewPlot()
	place := func(y float64) float64 { return y }
	if times {
		place = chart.TimeAxis(p, all, 7)
	} else {
		p.Y.Min, p.Y.Max = 0, max(1, slices.Max(all)*1.05)
		p.Y.Tick.Marker = plot.TickerFunc(plainTicks)
	}
	p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, slices.Min(at)/1.1, slices.Max(at)*1.1
	p.X.Tick.Marker = valueTicks(given)
	p.Add(chart.Grid(true))
	var labels []chart.EndLabel
	for i, d := range s.Designs {
		slot, points := i%chart.Slots, []chart.Point{}
		for _, v := range d.Points {
			points = append(points, chart.Point{X: v.Value, Y: place(of(v))})
			f.Rows = append(f.Rows, []string{v.Given,
				words.Letter(i) + " " + d.Name, text(v)})
		}
		if len(points) == 0 {
			continue
		}
		line := chart.Line(chart.RoleFirst+chart.Role(slot), 1.6, chart.Dash(slot), i)
		p.Add(chart.Curve(points, line), chart.Dots(points, slot, i, false))
		labels = append(labels, chart.EndLabel{At: points[len(points)-1], Text: words.Letter(i),
			Slot: slot, Variant: i})
		f.Legend = append(f.Legend, chart.LegendItem{Slot: slot, Variant: i,
			Letter: words.Letter(i), Name: d.Name, Note: d.note()})
	}
	p.Add(chart.EndLabels(labels))
	p.X.Label.Text, p.Y.Label.Text = s.Path, title
	f.Draw(560, 24, []*plot.Plot{p}, 300)
	return f
}

// valueTicks labels the values themselves.
func valueTicks(given map[float64]string) plot.Ticker {
	return plot.TickerFunc(func(from, to float64) (ticks []plot.Tick) {
		for _, v := range slices.Sorted(maps.Keys(given)) {
			if v >= from && v <= to {
				ticks = append(ticks, plot.Tick{Value: v, Label: given[v]})
			}
		}
		return ticks
	})
}

// plainTicks labels a linear axis from 0 in steps of 1, 2 or 5 times a power of ten: four to ten.
func plainTicks(_, to float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to)))
	switch {
	case to < 2*step:
		step /= 5
	case to < 4*step:
		step /= 2
	}
	for v := 0.0; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: words.PlainNumber(v)})
	}
	return ticks
}

func (d SweptDesign) note() string {
	if d.Wrong {
		return "wrong"
	}
	return ""
}

// Finding names the design that carried most with the greatest value, of those that were right.
func (s Sweep) Finding() string {
	best := SweptDesign{}
	for _, d := range s.Designs {
		if n := len(d.Points); n > 0 && !d.Wrong && (best.Name == "" ||
			d.Points[n-1].PerS > best.Points[len(best.Points)-1].PerS) {
			best = d
		}
	}
	if best.Name == "" {
		return "No design was right with every value."
	}
	last := best.Points[len(best.Points)-1]
	return fmt.Sprintf("With %s = %s, %s carries most: %s.", s.Path, last.Given,
		best.Name, words.Rate(last.PerS))
}
