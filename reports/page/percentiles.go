package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// The percentile chart's grid: curves have a point each curveStep nines, the
// data table a row each rowStep.
const (
	curveStep = 0.05
	rowStep   = 0.1
	maxNines  = 6.0
)

// percentilePanel has the charts of one operation kind.
type percentilePanel struct {
	Kind    string
	Figures []chart.Figure
}

// kinds lists the operation kinds of all variants, the main ones first.
func kinds(standings []answer.Standing) []string {
	var names []string
	for _, st := range standings {
		for _, op := range st.Operations {
			names = words.With(names, op.Kind)
		}
	}
	return names
}

// spread is one variant's distribution of one kind with those of its repeats.
type spread struct {
	answer.Member
	all     answer.Distribution
	repeats []answer.Distribution
}

// percentilePanels draws the percentile charts of every kind. What cannot be
// decoded is returned as gaps.
func percentilePanels(standings []answer.Standing) (panels []percentilePanel, gaps []string) {
	groups := answer.ChartGroups(standings)
	for k, kind := range kinds(standings) {
		panel := percentilePanel{Kind: kind}
		var charts [][]spread
		for _, members := range groups {
			spreads, missing := spreadsOf(members, kind)
			gaps = append(gaps, missing...)
			if len(spreads) > 0 {
				charts = append(charts, spreads)
			}
		}
		limits := latencyLimits(standings, kind)
		values := allValues(charts)
		for _, l := range limits {
			values = append(values, l.seconds)
		}
		for g, spreads := range charts {
			panel.Figures = append(panel.Figures,
				percentileFigure(fmt.Sprintf("p%d-%d", k, g), kind, spreads, values, limits))
		}
		if len(panel.Figures) > 0 {
			panels = append(panels, panel)
		}
	}
	return panels, slices.Compact(gaps)
}

func spreadsOf(members []answer.Member, kind string) (spreads []spread, gaps []string) {
	for _, m := range members {
		op := answer.Operation(m.Operations, kind)
		if op == nil {
			continue
		}
		all, err := answer.DecodeResponse(*op)
		if err != nil {
			gaps = append(gaps, fmt.Sprintf("no percentile curve of %s in %s: %v", kind, m.Name, err))
			continue
		}
		if all.Empty() {
			continue
		}
		s := spread{Member: m, all: all}
		for _, r := range m.Repeats {
			if op := answer.Operation(r.Operations, kind); op != nil {
				if d, err := answer.DecodeResponse(*op); err == nil && !d.Empty() {
					s.repeats = append(s.repeats, d)
				}
			}
		}
		spreads = append(spreads, s)
	}
	return spreads, gaps
}

// allValues collects what the charts of one kind will show, so that they
// share their axes.
func allValues(charts [][]spread) (values []float64) {
	for _, spreads := range charts {
		for _, s := range spreads {
			for x := 0.0; x <= s.end(); x += rowStep {
				values = append(values, s.all.At(x))
			}
			values = append(values, s.all.At(s.end()))
		}
	}
	return values
}

func (s spread) end() float64 { return min(s.all.Nines(), maxNines) }

// curve returns the variant's line, up to its end.
func (s spread) curve(at func(float64) float64) (points []chart.Point) {
	for x := 0.0; x < s.end(); x += curveStep {
		points = append(points, chart.Point{X: x, Y: at(s.all.At(x))})
	}
	return append(points, chart.Point{X: s.end(), Y: at(s.all.At(s.end()))})
}

// ribbon returns the lowest and highest repeat at each x that every repeat
// supports.
func (s spread) ribbon(at func(float64) float64) chart.Mark {
	var lowest, highest []chart.Point
	end := s.end()
	if len(s.repeats) < 2 {
		end = -1
	}
	for _, d := range s.repeats {
		end = min(end, d.Nines())
	}
	for x := 0.0; x <= end; x += rowStep {
		low, high := math.Inf(1), 0.0
		for _, d := range s.repeats {
			v := d.At(x)
			low, high = min(low, v), max(high, v)
		}
		lowest = append(lowest, chart.Point{X: x, Y: at(low)})
		highest = append(highest, chart.Point{X: x, Y: at(high)})
	}
	return chart.Ribbon(lowest, highest, s.Slot, s.Index)
}

// limit is an objective on a percentile of the response time.
type limit struct {
	nines, seconds float64
	text           string
}

// latencyLimits finds the objectives that a percentile chart of a kind can
// show: those on percentiles of the response time in the whole run or its
// steady part. An objective that cannot be read is in the table of objectives
// all the same.
func latencyLimits(standings []answer.Standing, kind string) (limits []limit) {
	for _, column := range answer.Slos(standings).Columns {
		o, err := check.ParseObjective(column.Objective)
		if err != nil || o.Func != check.Quantile || o.Of != "response" || o.Part.Relation != "in" {
			continue
		}
		if (o.Kind == kind || o.Kind == "") && (o.Part.Name == "run" || o.Part.Name == "steady") {
			limits = append(limits, limit{nines: -math.Log10(1 - o.Percent/100),
				seconds: o.Limit / 1e9, text: column.Name})
		}
	}
	return limits
}

// draw draws an objective as a bar that a curve must pass below.
func (l limit) draw(c chart.Pen) {
	const half = vg.Length(22)
	x, y := c.X(l.nines), c.Y(l.seconds)
	if !c.ContainsX(x) || !c.ContainsY(y) {
		return
	}
	style := chart.Line(chart.RoleLimit, 2, nil, chart.NoVariant)
	c.StrokeLine2(style, max(x-half, c.Min.X), y, min(x+half, c.Max.X), y)
	c.StrokeLine2(style, x, y, x, y+5)
	c.Text(chart.RoleLimit, chart.NoVariant, draw.XCenter, draw.YBottom, vg.Point{X: x, Y: y + 6},
		l.text)
}

func percentileFigure(
	id, kind string, spreads []spread, values []float64, limits []limit,
) chart.Figure {
	p := chart.NewPlot()
	at := chart.TimeAxis(p, values, 7)
	end := 0.0
	for _, s := range spreads {
		end = max(end, s.end())
	}
	drawn := end > 0 // one operation is no line
	end = max(end, 1)
	p.X.Min, p.X.Max = 0, end
	p.X.Tick.Marker = plot.TickerFunc(ninesTicks)
	p.Y.Label.Text = "response time of " + words.Short(kind, 16)
	p.X.Label.Text = "share of operations answered within (each step right: ten times rarer)"
	p.Add(chart.Grid(true))
	for _, s := range spreads {
		p.Add(s.ribbon(at))
	}
	var labels []chart.EndLabel
	for _, s := range slices.Backward(spreads) {
		points := s.curve(at)
		p.Add(chart.Curve(points, chart.Line(chart.RoleFirst+chart.Role(s.Slot), 1.75,
			chart.Dash(s.Slot), s.Index)))
		last := points[len(points)-1]
		labels = append(labels, chart.EndLabel{At: last, Text: s.Letter, Slot: s.Slot, Variant: s.Index})
	}
	p.Add(chart.EndLabels(labels))
	for _, l := range limits {
		p.Add(chart.Mark(l.draw))
	}

	f := chart.Figure{ID: id, Title: "Response time of " + kind + " by percentile",
		Finding: percentileFinding(kind, spreads)}
	percentileTable(&f, spreads, end)
	chart.ByLetter(f.Legend)
	if drawn {
		f.Draw(560, 22, []*plot.Plot{p}, 300)
		f.Place(p, 0, float64(len(f.Rows)-1)*rowStep)
	}
	return f
}

// ninesTicks labels the usual percentiles on an axis of nines.
func ninesTicks(_, to float64) []plot.Tick {
	ticks := []plot.Tick{{Value: -math.Log10(0.5), Label: "50 %"}}
	for n := 1.0; n <= to+1e-9; n++ {
		ticks = append(ticks, plot.Tick{Value: n, Label: words.QuantileName(n)})
	}
	return ticks
}

// percentileTable fills the figure's legend and rows.
func percentileTable(f *chart.Figure, spreads []spread, end float64) {
	f.Columns = []string{"percentile"}
	for _, s := range spreads {
		f.Columns = append(f.Columns, s.Letter+" "+s.Name)
		f.Legend = append(f.Legend, chart.LegendItem{Slot: s.Slot, Variant: s.Index, Letter: s.Letter,
			Name: s.Name, Note: "n = " + words.Grouped(s.all.Total)})
	}
	for i := 0; float64(i)*rowStep <= end+1e-9; i++ {
		x := float64(i) * rowStep
		row := []string{words.QuantileName(x)}
		for _, s := range spreads {
			cell := words.None
			if x <= s.all.Nines()+1e-9 {
				cell = words.Seconds(s.all.At(x))
			}
			row = append(row, cell)
		}
		f.Rows = append(f.Rows, row)
	}
}

// percentileFinding says the chart's main point: which designs left operations without an
// answer, and which of the others is the fastest and the slowest at the highest usual
// percentile that all of them support.
func percentileFinding(kind string, spreads []spread) string {
	common := math.Inf(1)
	for _, s := range spreads {
		common = min(common, s.all.Nines())
	}
	at := min(2, math.Floor(common))
	if at < 1 {
		return "Too few operations of " + kind + " for a percentile that all of them support."
	}
	var answered []spread
	var without []string
	for _, s := range spreads {
		if math.IsInf(s.all.At(at), 1) {
			without = append(without, s.Name+" "+words.Share(s.all.Unanswered(), s.all.Total))
			continue
		}
		answered = append(answered, s)
	}
	text := answeredFinding(kind, answered, at, len(without) == 0)
	if len(without) > 0 {
		text = words.JoinNonEmpty(" ", fmt.Sprintf("Dropped or never answered %s operations: %s.", kind,
			words.List(without, 3)), text)
	}
	return text
}

// answeredFinding compares designs whose percentile is finite; all says that there are no
// others.
func answeredFinding(kind string, spreads []spread, at float64, all bool) string {
	if len(spreads) == 0 {
		return ""
	}
	low := slices.MinFunc(spreads, func(a, b spread) int { return byValue(a, b, at) })
	high := slices.MaxFunc(spreads, func(a, b spread) int { return byValue(a, b, at) })
	from, to := words.Seconds(low.all.At(at)), words.Seconds(high.all.At(at))
	whom := "all"
	if !all {
		whom = "the others"
	}
	what := fmt.Sprintf("%s of %s operations were answered within", words.QuantileName(at), kind)
	switch {
	case len(spreads) == 1:
		return fmt.Sprintf("%s %s by %s.", what, from, low.Name)
	case !answer.ClearlyFaster(low.all.At(at), high.all.At(at)):
		if from != to {
			from += " to " + to
		}
		return fmt.Sprintf("%s %s by %s: no difference of 5 %%.", what, from, whom)
	case !all:
		return fmt.Sprintf("Of the others, %s %s by %s, the fastest here, and within %s by %s, the "+
			"slowest.", what, from, low.Name, to, high.Name)
	}
	return fmt.Sprintf("%s %s by %s, the fastest here, and within %s by %s, the slowest.", what,
		from, low.Name, to, high.Name)
}

func byValue(a, b spread, nines float64) int {
	return cmp.Compare(a.all.At(nines), b.all.At(nines))
}
