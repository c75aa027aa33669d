package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/knee"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// kneePanel has the charts of one metric.
type kneePanel struct {
	Metric string
	Charts []kneeChart
}

// kneeChart is a chart with its data, whose rows are windows and not steps of the
// axis.
type kneeChart struct {
	Figure, Data chart.Figure
}

// kneeSeries is a design in a chart.
type kneeSeries struct {
	knee.Variant
	index, slot int
}

// kneePanels draws a metric over the rate, in as many charts as the designs need.
// All charts share their axes.
func kneePanels(s knee.Summary) (panels []kneePanel) {
	var series []kneeSeries
	for i, v := range s.Variants {
		if slices.ContainsFunc(v.Result.Windows, drawn) {
			series = append(series, kneeSeries{v, i, 0})
		}
	}
	if len(series) == 0 {
		return nil
	}
	for i, metric := range []struct {
		name string
		of   func(knee.Window) int64
	}{
		{"p50", func(w knee.Window) int64 { return w.P50NS }},
		{"p99", func(w knee.Window) int64 { return w.P99NS }},
	} {
		panel := kneePanel{Metric: metric.name}
		for part := range slices.Chunk(series, answer.Evenly(len(series), chart.Slots)) {
			for slot := range part {
				part[slot].slot = slot
			}
			id := fmt.Sprintf("k%d-%d", i, len(panel.Charts))
			panel.Charts = append(panel.Charts, kneeFigure(id, metric.name, metric.of, part, series))
		}
		panels = append(panels, panel)
	}
	return panels
}

// drawn says that a window's times mean something.
func drawn(w knee.Window) bool { return w.Verdict != knee.Undecided && w.Count > 0 }

// kneeFigure draws some designs on the axes of all.
func kneeFigure(
	id, metric string, of func(knee.Window) int64, part, all []kneeSeries,
) kneeChart {
	p := chart.NewPlot()
	at := chart.TimeAxis(p, kneeTimes(all, of), 7)
	rateAxis(p, all)
	p.Add(chart.Grid(true))
	f := chart.Figure{ID: id, Title: metric + " of response time by rate", Finding: kneeFinding(part)}
	if len(part) < len(all) {
		f.Title += ", designs " + words.Letter(part[0].index) + " to " +
			words.Letter(part[len(part)-1].index)
	}
	var labels []chart.EndLabel
	for _, s := range part {
		median, held, failed := kneePoints(s, of, at)
		line := chart.Line(chart.RoleFirst+chart.Role(s.slot), 1.6, chart.Dash(s.slot), s.index)
		p.Add(chart.Curve(median, line), chart.Dots(held, s.slot, s.index, false),
			chart.Dots(failed, s.slot, s.index, true))
		note := "no knee"
		if r := s.Result.RatePerS; r > 0 {
			note = "knee " + words.Rate(r)
			p.Add(kneeLine(r, s))
		}
		labels = append(labels, chart.EndLabel{At: median[len(median)-1], Text: words.Letter(s.index),
			Slot: s.slot, Variant: s.index})
		f.Legend = append(f.Legend, chart.LegendItem{Slot: s.slot, Variant: s.index,
			Letter: words.Letter(s.index), Name: s.Name, Note: note})
	}
	p.Add(chart.EndLabels(labels))
	p.X.Label.Text = "operations per second, offered"
	p.Y.Label.Text = metric
	f.Draw(560, 24, []*plot.Plot{p}, 300)
	return kneeChart{Figure: f, Data: kneeData(f.Title, metric, of, part)}
}

// kneeTimes are all values that charts of a metric show.
func kneeTimes(all []kneeSeries, of func(knee.Window) int64) (values []float64) {
	for _, s := range all {
		for _, w := range s.Result.Windows {
			if drawn(w) {
				values = append(values, secondsOf(of(w)))
			}
		}
	}
	return values
}

// rateAxis makes x logarithmic, around all the rates.
func rateAxis(p *plot.Plot, all []kneeSeries) {
	low, high := math.Inf(1), 0.0
	for _, s := range all {
		for _, w := range s.Result.Windows {
			if drawn(w) {
				low, high = min(low, w.RatePerS), max(high, w.RatePerS)
			}
		}
	}
	p.X.Scale, p.X.Min, p.X.Max = plot.LogScale{}, low/1.1, high*1.1
	p.X.Tick.Marker = plot.TickerFunc(rateTicks)
}

// rateTicks labels a logarithmic axis of rates at 1, 2 and 5 times the powers of
// ten, or at its ends where that gives fewer than two.
func rateTicks(from, to float64) (ticks []plot.Tick) {
	for power := math.Pow(10, math.Floor(math.Log10(from))); power <= to; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * power; v >= from && v <= to {
				ticks = append(ticks, plot.Tick{Value: v, Label: words.PlainNumber(v)})
			}
		}
	}
	if len(ticks) > 1 {
		return ticks
	}
	return []plot.Tick{{Value: from, Label: words.PlainNumber(knee.Rounded(from))},
		{Value: to, Label: words.PlainNumber(knee.Rounded(to))}}
}

// kneePoints are a design's windows, and the line through the median window of
// each rate.
func kneePoints(s kneeSeries, of func(knee.Window) int64, at func(float64) float64) (
	median, held, failed []chart.Point,
) {
	byRate := map[float64][]float64{}
	for _, w := range s.Result.Windows {
		if !drawn(w) {
			continue
		}
		value := at(secondsOf(of(w)))
		byRate[w.RatePerS] = append(byRate[w.RatePerS], value)
		if w.Verdict == knee.Held {
			held = append(held, chart.Point{X: w.RatePerS, Y: value})
		} else {
			failed = append(failed, chart.Point{X: w.RatePerS, Y: value})
		}
	}
	for r, values := range byRate {
		slices.Sort(values)
		median = append(median, chart.Point{X: r, Y: values[(len(values)-1)/2]})
	}
	slices.SortFunc(median, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
	return median, held, failed
}

// kneeLine is an upright at a design's knee, with its letter on a line of its own, so that
// knees that lie close can be read.
func kneeLine(at float64, s kneeSeries) chart.Mark {
	return func(c chart.Pen) {
		role := chart.RoleFirst + chart.Role(s.slot)
		x, _ := c.Upright(chart.Line(role, 1, []vg.Length{3, 2}, s.index), at)
		c.Text(role, s.index, draw.XLeft, draw.YTop,
			vg.Point{X: x + 2, Y: c.Max.Y - 1 - vg.Length(s.slot)*chart.SmallSize}, words.Letter(s.index))
	}
}

// kneeData is the table behind a chart, a row for each window.
func kneeData(title, metric string, of func(knee.Window) int64, part []kneeSeries) chart.Figure {
	f := chart.Figure{Title: title, Columns: []string{"rate", "design", metric, "verdict"}}
	for _, s := range part {
		windows := slices.Clone(s.Result.Windows)
		slices.SortStableFunc(windows, func(a, b knee.Window) int {
			return cmp.Compare(a.RatePerS, b.RatePerS)
		})
		for _, w := range windows {
			f.Rows = append(f.Rows, []string{words.Rate(w.RatePerS), words.Letter(s.index) + " " + s.Name,
				windowTime(w, of(w)), string(w.Verdict)})
		}
	}
	return f
}

// kneeFinding names the design with the highest knee and that with the lowest.
func kneeFinding(part []kneeSeries) string {
	found := slices.DeleteFunc(slices.Clone(part), func(s kneeSeries) bool {
		return s.Result.RatePerS == 0
	})
	if len(found) == 0 {
		return "No rate was confirmed."
	}
	by := func(a, b kneeSeries) int { return cmp.Compare(a.Result.RatePerS, b.Result.RatePerS) }
	best, least := slices.MaxFunc(found, by), slices.MinFunc(found, by)
	if best.Result.RatePerS == least.Result.RatePerS {
		return fmt.Sprintf("%s was confirmed at %s.", best.Name, words.Rate(best.Result.RatePerS))
	}
	return fmt.Sprintf("%s was confirmed at %s, %s at %s.", best.Name,
		words.Rate(best.Result.RatePerS),
		least.Name, words.Rate(least.Result.RatePerS))
}
