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
func clientTimeline(id, what string, shown answer.Proof) (chart.TimeFigure, error) {
	clients := answer.ClientsOf(shown.Records)
	var acts []history.Record
	for _, r := range shown.Deeds {
		if slices.Contains(clients, r.Op.Client) {
			acts = append(acts, r)
		}
	}
	if len(acts) <= len(shown.Records) {
		return chart.TimeFigure{}, nil
	}
	slices.SortStableFunc(acts, func(a, b history.Record) int {
		return cmp.Compare(a.Intended, b.Intended)
	})
	hidden := max(0, len(acts)-answer.MaxClientOps)
	acts = acts[:len(acts)-hidden]
	p, to := clientPlot(clients, acts, shown)
	p.X.Min, p.X.Max = 0, to.Seconds()
	p.X.Tick.Marker = chart.SecondTicks{Most: 8}
	p.X.Label.Text = "seconds since the start"
	f := chart.TimeFigure{More: answer.ClientTable(acts)}
	f.ID, f.Title = id, "What the clients behind "+what+" did in the whole run"
	f.More.Title = f.Title
	f.Finding = fmt.Sprintf("%s of %s", words.Plural(len(acts), "operation"),
		words.Plural(len(clients), "client"))
	if hidden > 0 {
		f.Finding += fmt.Sprintf("; %d later ones are not drawn", hidden)
	}
	f.Finding += "."
	d := chart.Stack(vg.Length(560), 8, []*plot.Plot{p}, []vg.Length{vg.Length(34 + 13*len(clients))})
	svg, err := chart.Inline(d.Canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

// clientPlot has a row for each client, and the time up to which it goes.
func clientPlot(clients []string, acts []history.Record, shown answer.Proof) (*plot.Plot,
	time.Duration) {
	p, to := chart.NewPlot(), max(shown.At, time.Millisecond)
	var ticks plot.ConstantTicks
	for i, client := range clients {
		ticks = append(ticks, plot.Tick{Value: float64(len(clients)-i) - 0.5, Label: words.Short(client,
			14)})
	}
	for _, r := range acts {
		to = max(to, r.Intended)
		if r.End != history.Never {
			to = max(to, r.End)
		}
	}
	p.Y.Min, p.Y.Max = 0, float64(len(clients))
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Padding = ticks, 0, 4
	p.Add(chart.BandsOf(shown.Faults, true))
	p.Add(clientBars{clients, acts, to})
	if shown.At > 0 {
		p.Add(chart.ViolationMark{At: shown.At.Seconds(), Labelled: true})
	}
	return p, to
}

// clientBars draws operations from when they were due to their answers, all of an outcome
// as one path.
type clientBars struct {
	clients []string
	acts    []history.Record
	to      time.Duration
}

// Plot implements plot.Plotter.
func (b clientBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	lines := map[history.Outcome][][]vg.Point{}
	for _, r := range b.acts {
		y := ty(float64(len(b.clients)-slices.Index(b.clients, r.Op.Client)) - 0.5)
		from := tx(r.Intended.Seconds())
		to := min(max(tx(min(r.End, b.to).Seconds()), from+1.5), c.Max.X)
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
