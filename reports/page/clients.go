package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/history"
	"stampede/reports/answer"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// clientTimeline draws what the clients behind a violation did in the whole run, a row
// each; what names the violation. It is empty if they did nothing but what proves it.
func clientTimeline(id, what string, shown answer.Proof) (f chart.TimeFigure) {
	clients := answer.ClientsOf(shown.Records)
	var acts []history.Record
	for _, r := range shown.Deeds {
		if slices.Contains(clients, r.Op.Client) {
			acts = append(acts, r)
		}
	}
	if len(acts) <= len(shown.Records) {
		return f
	}
	slices.SortStableFunc(acts, func(a, b history.Record) int {
		return cmp.Compare(a.Intended, b.Intended)
	})
	hidden := max(0, len(acts)-answer.MaxClientOps)
	acts = acts[:len(acts)-hidden]
	p := clientPlot(clients, acts, shown)
	f.More = answer.ClientTable(acts)
	f.ID, f.Title = id, "What the clients behind "+what+" did in the whole run"
	f.More.Title = f.Title
	f.Finding = fmt.Sprintf("%s of %s", words.Plural(len(acts), "operation"),
		words.Plural(len(clients), "client"))
	if hidden > 0 {
		f.Finding += fmt.Sprintf("; %d later ones are not drawn", hidden)
	}
	f.Finding += "."
	f.Draw(560, 8, []*plot.Plot{p}, vg.Length(34+13*len(clients)))
	return f
}

// clientPlot has a row for each client, and lasts until the last answer.
func clientPlot(clients []string, acts []history.Record, shown answer.Proof) *plot.Plot {
	to := max(shown.At, time.Millisecond)
	for _, r := range acts {
		to = max(to, r.Intended)
		if r.End != history.Never {
			to = max(to, r.End)
		}
	}
	var names []string
	for _, client := range clients {
		names = append(names, words.Short(client, 14))
	}
	p := chart.NewPlot()
	chart.Rows(p, names...)
	chart.Since(p, to.Seconds(), 8)
	p.Add(chart.Faults(shown.Faults, time.Duration.Seconds, true, false),
		clientBars(clients, acts, to))
	if shown.At > 0 {
		p.Add(chart.Violation(shown.At.Seconds(), true))
	}
	return p
}

// clientBars draws operations from when they were due to their answers, all of an outcome
// as one path.
func clientBars(clients []string, acts []history.Record, end time.Duration) chart.Mark {
	return func(c chart.Pen) {
		lines := map[history.Outcome][][]vg.Point{}
		for _, r := range acts {
			y := c.Y(float64(len(clients)-slices.Index(clients, r.Op.Client)) - 0.5)
			from := c.X(r.Intended.Seconds())
			to := min(max(c.X(min(r.End, end).Seconds()), from+1.5), c.Max.X)
			lines[r.Outcome] = append(lines[r.Outcome], []vg.Point{{X: from, Y: y}, {X: to, Y: y}})
		}
		for _, of := range []struct {
			outcome history.Outcome
			style   draw.LineStyle
		}{
			{history.OK, chart.Line(chart.RoleFirst, 6, nil, chart.NoVariant)},
			{history.Refused, chart.Line(chart.RoleFirst+4, 2.5, nil, chart.NoVariant)},
			{history.Unknown, chart.Line(chart.RoleFirst+1, 6, []vg.Length{2, 2}, chart.NoVariant)},
			{history.Dropped, chart.Line(chart.RoleInk, 3, []vg.Length{1, 2}, chart.NoVariant)},
		} {
			c.StrokeLines(of.style, lines[of.outcome]...)
		}
	}
}
