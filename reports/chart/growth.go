package chart

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"

	"stampede/reports/words"
)

// Series is a line of a chart of growth.
type Series struct {
	Name   string
	Points []Point // by ascending x; y in seconds
}

// Growth draws times over sizes, both on logarithmic axes, as a file of SVG that needs no page: it
// has the palettes of a light and of a dark one, and its reader's preference decides. Sizes and
// times say what the axes are.
func Growth(title, finding, sizes, times string, list []Series) (string, error) {
	p := NewPlot()
	var values []float64
	var labels []EndLabel
	p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, math.Inf(1), 0
	for _, s := range list {
		for _, at := range s.Points {
			values = append(values, at.Y)
			p.X.Min, p.X.Max = min(p.X.Min, at.X), max(p.X.Max, at.X)
		}
	}
	TimeAxis(p, values, 7)
	p.X.Tick.Marker = plot.TickerFunc(sizeTicks)
	p.X.Label.Text, p.Y.Label.Text = sizes, times
	p.Add(Grid(true))
	for slot, s := range list {
		p.Add(Curve(s.Points, Line(RoleFirst+Role(slot), 1.6, Dash(slot), NoVariant)),
			Dots(s.Points, slot, NoVariant, false))
		labels = append(labels, EndLabel{s.Points[len(s.Points)-1], s.Name, slot, NoVariant})
	}
	p.Add(EndLabels(labels))
	f := Figure{ID: "growth", Title: title, Finding: finding}
	f.Draw(620, 150, []*plot.Plot{p}, 300)
	svg, err := f.SVG()
	return strings.NewReplacer("<svg ", `<svg xmlns="http://www.w3.org/2000/svg" `,
		"</desc>", "</desc>"+alone()).Replace(string(svg)) + "\n", err
}

// alone is what a page has for its charts: a background, and the colours of the dark theme.
func alone() string {
	var css strings.Builder
	css.WriteString("<style>@media (prefers-color-scheme: dark) { .paper { fill: #14161a } " +
		".f-text { fill: #c0c7d0 } .k-axis { stroke: #8b949f } .k-grid { stroke: #2a3038 }")
	for slot, colour := range darkSlots {
		fmt.Fprintf(&css, " .k%[1]d { stroke: %[2]s } .f%[1]d { fill: %[2]s }", slot, colour)
	}
	return css.String() +
		` }</style><rect width="100%" height="100%" fill="#ffffff" class="paper"/>`
}

// sizeTicks are the powers of ten.
func sizeTicks(from, to float64) (ticks []plot.Tick) {
	for v := math.Pow(10, math.Round(math.Log10(from))); v <= to*1.01; v *= 10 {
		ticks = append(ticks, plot.Tick{Value: v, Label: words.PlainNumber(v)})
	}
	return ticks
}
