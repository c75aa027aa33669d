package page

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"

	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// overlaid is how many points a line of the overlay has at most.
const overlaid = 100

// overlay draws some designs in one figure, on one axis of time: the p99 of the main kind,
// and what they achieved. It has no SVG if none of them has a timeline. Grey is the design
// whose warm-up and drain are marked, "" if none is.
func overlay(kind string, all []lane, members []answer.Member) (f chart.Figure, grey string) {
	f = chart.Figure{ID: "over", Title: "p99 of " + kind + " and throughput over time"}
	var lanes []lane
	for _, m := range members {
		i := slices.IndexFunc(all, func(l lane) bool { return l.Index == m.Index })
		if i < 0 {
			continue
		}
		lanes = append(lanes, all[i])
		f.Legend = append(f.Legend, chart.LegendItem{Slot: m.Slot, Variant: m.Index, Letter: m.Letter,
			Name: m.Name, Note: m.Note()})
	}
	if len(lanes) == 0 {
		return f, ""
	}
	if len(backgrounds(lanes[0], false)) > 1 { // the last are the faults
		grey = lanes[0].Name
	}
	width, end := widthFor(lanes, kind, overlaid), 1e-3
	for i, l := range lanes {
		lanes[i] = l.mergeTo(kind, width)
		end = max(end, l.end())
	}
	f.Finding = overlayFinding(kind, lanes)
	overlayTable(&f, lanes)
	bottom := drawOverlay(&f, kind, lanes, end)
	f.Place(bottom, 0, float64(width)/1e9*float64(len(f.Rows)-1))
	chart.ByLetter(f.Legend)
	return f, grey
}

// drawOverlay draws the lanes in the colours of the figure's legend.
func drawOverlay(f *chart.Figure, kind string, lanes []lane, end float64) (bottom *plot.Plot) {
	most, times := 0.0, []float64{}
	for _, l := range lanes {
		for _, m := range l.moments {
			most, times = max(most, m.achieved), append(times, m.p99)
		}
	}
	top := chart.NewPlot()
	bottom = countPlot("operations/s", most)
	at := chart.TimeAxis(top, times, 5)
	top.Y.Label.Text = "p99 of " + words.Short(kind, 16)
	plots := []*plot.Plot{top, bottom}
	for i, p := range plots {
		chart.Since(p, end, 10)
		p.Add(backgrounds(lanes[0], i == 0)...)
		p.Add(chart.Grid(false))
	}
	chart.LabelLast(plots)
	for i, l := range slices.Backward(lanes) {
		slot := f.Legend[i].Slot
		style := chart.Line(chart.RoleFirst+chart.Role(slot), 1.75, chart.Dash(slot), l.Index)
		top.Add(l.series(style, func(m moment) float64 { return at(m.p99) }))
		bottom.Add(l.series(style, func(m moment) float64 { return m.achieved }))
	}
	f.Draw(560, 8, plots, 190, 130)
	return bottom
}

// overlayFinding names the design whose p99 was the highest at any time.
func overlayFinding(kind string, lanes []lane) string {
	worst, when, whose := 0.0, 0.0, ""
	for _, l := range lanes {
		for _, m := range l.moments {
			if m.p99 > worst {
				worst, when, whose = m.p99, m.start, l.Name
			}
		}
	}
	switch {
	case whose == "":
		return fmt.Sprintf("No %s was due.", kind)
	case math.IsInf(worst, 1):
		return fmt.Sprintf("From %s s after the start, 1 %% or more of the %s operations of %s got no "+
			"answer.", words.PlainNumber(when), kind, whose)
	}
	return fmt.Sprintf("The highest p99 of %s is %s, of %s, %s s after the start.", kind,
		estimated(worst), whose, words.PlainNumber(when))
}

// overlayTable fills the figure's rows: the points that are drawn.
func overlayTable(f *chart.Figure, lanes []lane) {
	f.Columns = []string{"from"}
	rows := 0
	for _, what := range []string{"p99", "done/s"} {
		for i, l := range lanes {
			f.Columns = append(f.Columns, what+" "+f.Legend[i].Letter)
			rows = max(rows, len(l.moments))
		}
	}
	for i := range rows {
		at := float64(i) * float64(lanes[0].width) / 1e9
		times, done := []string{words.PlainNumber(at) + " s"}, []string{}
		for _, l := range lanes {
			if i >= len(l.moments) {
				times, done = append(times, words.None), append(done, words.None)
				continue
			}
			times = append(times, l.shown(l.moments[i].p99))
			done = append(done, words.PlainNumber(math.Round(l.moments[i].achieved)))
		}
		f.Rows = append(f.Rows, append(times, done...))
	}
}
