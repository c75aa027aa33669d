package reports

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/harness/rundir"
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
	Figures []figure
}

// member is a variant in a chart.
type member struct{ standing }

// chartGroups deals the variants into charts of at most slots series: first those that stand
// for all (see prominent), then the others, those that hold before the wrong ones. The
// baseline is in every chart, in the first slot; any other variant is in one chart, so that
// its slot is its colour on the whole page.
func chartGroups(standings []standing) [][]member {
	if len(standings) <= slots {
		return [][]member{seat(baselineFirst(standings))}
	}
	first := baselineFirst(prominent(standings))
	groups := [][]member{seat(first)}
	var base, sound, unsound []standing
	for _, st := range standings {
		switch {
		case st.Baseline:
			base = append(base, st)
		case slices.ContainsFunc(first, func(f standing) bool { return f.Index == st.Index }):
		case st.Group == wrong:
			unsound = append(unsound, st)
		default:
			sound = append(sound, st)
		}
	}
	for _, side := range [][]standing{sound, unsound} {
		for part := range slices.Chunk(side, evenly(len(side), slots-len(base))) {
			groups = append(groups, seat(base, part))
		}
	}
	return groups
}

// wrongOnes is how many of the wrong designs stand for all.
const wrongOnes = 2

// prominent are the designs that stand for all where a chart has no room for all: the
// baseline, the fastest and the slowest of those that hold, the first of those that broke
// something, and then the fastest of the others.
func prominent(standings []standing) (chosen []standing) {
	slowest := -1
	for i, st := range standings {
		if st.Group == holds {
			slowest = i
		}
	}
	taken := map[int]bool{}
	take := func(i int) {
		if len(taken) < slots {
			taken[i] = true
		}
	}
	broken := 0
	for i, st := range standings {
		if st.Group == wrong {
			broken++
		}
		if i == 0 || st.Baseline || i == slowest || st.Group == wrong && broken <= wrongOnes {
			take(i)
		}
	}
	for i := range standings {
		take(i)
	}
	for i, st := range standings {
		if taken[i] {
			chosen = append(chosen, st)
		}
	}
	return chosen
}

// baselineFirst keeps the order but for the baseline.
func baselineFirst(standings []standing) []standing {
	list := slices.Clone(standings)
	slices.SortStableFunc(list, func(a, b standing) int {
		switch {
		case a.Baseline == b.Baseline:
			return 0
		case a.Baseline:
			return -1
		}
		return 1
	})
	return list
}

// evenly returns the chunk size that deals n into as few chunks of at most
// room as possible, of about equal size.
func evenly(n, room int) int {
	if n == 0 {
		return room
	}
	chunks := (n + room - 1) / room
	return (n + chunks - 1) / chunks
}

func seat(sides ...[]standing) []member {
	var members []member
	for _, st := range slices.Concat(sides...) {
		members = append(members, member{st})
	}
	return members
}

// operation returns a variant's numbers of one kind, nil if it has none.
func operation(ops []rundir.Operation, kind string) *rundir.Operation {
	for i := range ops {
		if ops[i].Kind == kind {
			return &ops[i]
		}
	}
	return nil
}

// kinds lists the operation kinds of all variants, the main ones first.
func kinds(standings []standing) []string {
	var names []string
	for _, st := range standings {
		for _, op := range st.Operations {
			if !slices.Contains(names, op.Kind) {
				names = append(names, op.Kind)
			}
		}
	}
	return names
}

// spread is one variant's distribution of one kind with those of its repeats.
type spread struct {
	member
	all     distribution
	repeats []distribution
}

// percentilePanels draws the percentile charts of every kind. What cannot be
// decoded is returned as gaps.
func percentilePanels(standings []standing) (panels []percentilePanel, gaps []string, err error) {
	groups := chartGroups(standings)
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
			f, err := percentileFigure(fmt.Sprintf("p%d-%d", k, g), kind, spreads, values, limits)
			if err != nil {
				return nil, nil, err
			}
			panel.Figures = append(panel.Figures, f)
		}
		if len(panel.Figures) > 0 {
			panels = append(panels, panel)
		}
	}
	return panels, slices.Compact(gaps), nil
}

func spreadsOf(members []member, kind string) (spreads []spread, gaps []string) {
	for _, m := range members {
		op := operation(m.Operations, kind)
		if op == nil {
			continue
		}
		all, err := decodeResponse(*op)
		if err != nil {
			gaps = append(gaps, fmt.Sprintf("no percentile curve of %s in %s: %v", kind, m.Name, err))
			continue
		}
		if all.empty() {
			continue
		}
		s := spread{member: m, all: all}
		for _, r := range m.Repeats {
			if op := operation(r.Operations, kind); op != nil {
				if d, err := decodeResponse(*op); err == nil && !d.empty() {
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
				values = append(values, s.all.at(x))
			}
			values = append(values, s.all.at(s.end()))
		}
	}
	return values
}

func (s spread) end() float64 { return min(s.all.nines(), maxNines) }

// curve returns the variant's line, up to its end.
func (s spread) curve(at func(float64) float64) (points []point) {
	for x := 0.0; x < s.end(); x += curveStep {
		points = append(points, point{x, at(s.all.at(x))})
	}
	return append(points, point{s.end(), at(s.all.at(s.end()))})
}

// ribbon returns the lowest and highest repeat at each x that every repeat
// supports.
func (s spread) ribbon(at func(float64) float64) ribbon {
	r := ribbon{slot: s.Slot, variant: s.Index}
	if len(s.repeats) < 2 {
		return r
	}
	end := s.end()
	for _, d := range s.repeats {
		end = min(end, d.nines())
	}
	for x := 0.0; x <= end; x += rowStep {
		low, high := math.Inf(1), 0.0
		for _, d := range s.repeats {
			v := d.at(x)
			low, high = min(low, v), max(high, v)
		}
		r.low = append(r.low, point{x, at(low)})
		r.high = append(r.high, point{x, at(high)})
	}
	return r
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
func latencyLimits(standings []standing, kind string) (limits []limit) {
	for _, column := range slos(standings).Columns {
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

// limitMark draws an objective as a bar that a curve must pass below.
type limitMark struct{ limit }

// Plot implements plot.Plotter.
func (l limitMark) Plot(c draw.Canvas, p *plot.Plot) {
	const half = vg.Length(22)
	tx, ty := p.Transforms(&c)
	x, y := tx(l.nines), ty(l.seconds)
	if !c.ContainsX(x) || !c.ContainsY(y) {
		return
	}
	style := line(roleLimit, 2, nil, noVariant)
	c.StrokeLine2(style, max(x-half, c.Min.X), y, min(x+half, c.Max.X), y)
	c.StrokeLine2(style, x, y, x, y+5)
	name := label(p, roleLimit, noVariant)
	name.XAlign, name.YAlign = text.XCenter, text.YBottom
	c.FillText(name, vg.Point{X: x, Y: y + 6}, l.text)
}

func percentileFigure(
	id, kind string, spreads []spread, values []float64, limits []limit,
) (figure, error) {
	const width, height, right = vg.Length(560), vg.Length(300), vg.Length(22)
	p := newPlot()
	at := timeAxis(p, values, 7)
	end := 0.0
	for _, s := range spreads {
		end = max(end, s.end())
	}
	drawn := end > 0 // one operation is no line
	end = max(end, 1)
	p.X.Min, p.X.Max = 0, end
	p.X.Tick.Marker = ninesTicks{}
	p.Y.Label.Text = "response time of " + short(kind, 16)
	p.X.Label.Text = "share of operations answered within (each step right: ten times rarer)"
	p.Add(gridLines{vertical: true})
	for _, s := range spreads {
		p.Add(s.ribbon(at))
	}
	var labels endLabels
	for _, s := range slices.Backward(spreads) {
		points := s.curve(at)
		p.Add(curve{points, line(roleFirst+role(s.Slot), 1.75, dash(s.Slot), s.Index)})
		last := points[len(points)-1]
		labels = append(labels, endLabel{last, s.Letter, s.Slot, s.Index})
	}
	p.Add(labels)
	for _, l := range limits {
		p.Add(limitMark{l})
	}

	f := figure{ID: id, Title: "Response time of " + kind + " by percentile",
		Finding: percentileFinding(kind, spreads)}
	f.table(spreads, end)
	byLetter(f.Legend)
	if !drawn {
		return f, nil
	}
	d := stack(width, right, []*plot.Plot{p}, []vg.Length{height})
	f.place(d, p, 0, float64(len(f.Rows)-1)*rowStep, len(f.Rows))
	svg, err := inline(d.canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

// ninesTicks labels the usual percentiles on an axis of nines.
type ninesTicks struct{}

// Ticks implements plot.Ticker.
func (ninesTicks) Ticks(_, to float64) []plot.Tick {
	ticks := []plot.Tick{{Value: -math.Log10(0.5), Label: "50 %"}}
	for n := 1.0; n <= to+1e-9; n++ {
		ticks = append(ticks, plot.Tick{Value: n, Label: quantileName(n)})
	}
	return ticks
}

// table fills the figure's legend and rows.
func (f *figure) table(spreads []spread, end float64) {
	f.Columns = []string{"percentile"}
	for _, s := range spreads {
		f.Columns = append(f.Columns, s.Letter+" "+s.Name)
		f.Legend = append(f.Legend, legendItem{Slot: s.Slot, Variant: s.Index, Letter: s.Letter,
			Name: s.Name, Note: "n = " + grouped(s.all.total)})
	}
	for i := 0; float64(i)*rowStep <= end+1e-9; i++ {
		x := float64(i) * rowStep
		row := []string{quantileName(x)}
		for _, s := range spreads {
			cell := none
			if x <= s.all.nines()+1e-9 {
				cell = seconds(s.all.at(x))
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
		common = min(common, s.all.nines())
	}
	at := min(2, math.Floor(common))
	if at < 1 {
		return "Too few operations of " + kind + " for a percentile that all of them support."
	}
	var answered []spread
	var without []string
	for _, s := range spreads {
		if math.IsInf(s.all.at(at), 1) {
			without = append(without, s.Name+" "+share(s.all.unanswered(), s.all.total))
			continue
		}
		answered = append(answered, s)
	}
	text := answeredFinding(kind, answered, at, len(without) == 0)
	if len(without) > 0 {
		text = joinNonEmpty(" ", fmt.Sprintf("Dropped or never answered %s operations: %s.", kind,
			list(without, 3)), text)
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
	from, to := seconds(low.all.at(at)), seconds(high.all.at(at))
	whom := "all"
	if !all {
		whom = "the others"
	}
	what := fmt.Sprintf("%s of %s operations were answered within", quantileName(at), kind)
	switch {
	case len(spreads) == 1:
		return fmt.Sprintf("%s %s by %s.", what, from, low.Name)
	case !clearlyFaster(low.all.at(at), high.all.at(at)):
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
	x, y := a.all.at(nines), b.all.at(nines)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
