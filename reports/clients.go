package reports

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// The limits of what clients are shown to have done.
const (
	maxClients   = 8
	maxClientOps = 40 // of all clients of one violation
)

// firstKnown is the violation whose count is kept, with the operations that decide it; or the
// first that several known operations prove, with those; or the first that one proves.
func firstKnown(
	v check.Verdict, records map[uint64]history.Record,
) (first check.Violation, alone []history.Record) {
	for _, violation := range inTime(v.Violations) {
		known := knownOf(violation, records)
		if violation.Counted != nil && len(known) > 0 {
			return violation, decisiveOf(violation.Counted, known)
		}
		if len(known) > len(alone) && len(alone) < 2 {
			first, alone = violation, known
		}
	}
	return first, alone
}

// clientsOf are the clients of some operations, the first few, in the order in which
// they were sent.
func clientsOf(records []history.Record) (clients []string) {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	for _, r := range records {
		if r.Op.Client != "" && !slices.Contains(clients, r.Op.Client) && len(clients) < maxClients {
			clients = append(clients, r.Op.Client)
		}
	}
	return clients
}

// suspects are the clients behind the violations of a repeat that the page draws.
func suspects(verdicts []check.Verdict, records map[uint64]history.Record) map[string]bool {
	found := map[string]bool{}
	for _, v := range verdicts {
		_, known := firstKnown(v, records)
		for _, client := range clientsOf(known) {
			found[client] = true
		}
	}
	return found
}

// clientTimeline draws what the clients behind a violation did in the whole run, a row
// each; what names the violation. It is empty if they did nothing but what proves it.
func clientTimeline(id, what string, shown proof) (timeFigure, error) {
	clients := clientsOf(shown.records)
	var acts []history.Record
	for _, r := range shown.deeds {
		if slices.Contains(clients, r.Op.Client) {
			acts = append(acts, r)
		}
	}
	if len(acts) <= len(shown.records) {
		return timeFigure{}, nil
	}
	slices.SortStableFunc(acts, func(a, b history.Record) int {
		return cmp.Compare(a.Intended, b.Intended)
	})
	hidden := max(0, len(acts)-maxClientOps)
	acts = acts[:len(acts)-hidden]
	p, to := clientPlot(clients, acts, shown)
	p.X.Min, p.X.Max = 0, to.Seconds()
	p.X.Tick.Marker = secondTicks{most: 8}
	p.X.Label.Text = "seconds since the start"
	f := timeFigure{More: clientTable(acts)}
	f.ID, f.Title = id, "What the clients behind "+what+" did in the whole run"
	f.More.Title = f.Title
	f.Finding = fmt.Sprintf("%s of %s", plural(len(acts), "operation"), plural(len(clients), "client"))
	if hidden > 0 {
		f.Finding += fmt.Sprintf("; %d later ones are not drawn", hidden)
	}
	f.Finding += "."
	d := stack(vg.Length(560), 8, []*plot.Plot{p}, []vg.Length{vg.Length(34 + 13*len(clients))})
	svg, err := inline(d.canvas, id, f.Title, f.Finding)
	f.SVG = svg
	return f, err
}

// clientPlot has a row for each client, and the time up to which it goes.
func clientPlot(clients []string, acts []history.Record, shown proof) (*plot.Plot, time.Duration) {
	p, to := newPlot(), max(shown.at, time.Millisecond)
	var ticks plot.ConstantTicks
	for i, client := range clients {
		ticks = append(ticks, plot.Tick{Value: float64(len(clients)-i) - 0.5, Label: short(client, 14)})
	}
	for _, r := range acts {
		to = max(to, r.Intended)
		if r.End != history.Never {
			to = max(to, r.End)
		}
	}
	p.Y.Min, p.Y.Max = 0, float64(len(clients))
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.Padding = ticks, 0, 4
	p.Add(bandsOf(shown.faults, true))
	p.Add(clientBars{clients, acts, to})
	if shown.at > 0 {
		p.Add(violationMark{at: shown.at.Seconds(), labelled: true})
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
		{history.OK, line(roleFirst, 6, nil, noVariant)},
		{history.Refused, line(roleFirst+4, 2.5, nil, noVariant)},
		{history.Unknown, line(roleFirst+1, 6, []vg.Length{2, 2}, noVariant)},
		{history.Dropped, line(roleInk, 3, []vg.Length{1, 2}, noVariant)},
	} {
		c.StrokeLines(of.style, lines[of.outcome]...)
	}
}

// clientTable is what is drawn, an operation a row.
func clientTable(acts []history.Record) *dataTable {
	t := dataTable{What: "this chart",
		Columns: []string{"due", "client", "operation", "kind", "key", "answered", "outcome"}}
	sent := map[uint64]bool{}
	for _, r := range acts {
		row := opRowOf(r)
		if sent[r.Op.ID] {
			row.ID += " (sent again)"
		}
		sent[r.Op.ID] = true
		t.Rows = append(t.Rows, []string{row.Intended, row.Client, row.ID, row.Kind, row.Key,
			row.End, row.Outcome})
	}
	return &t
}

// deedsOf streams a stored history for all that some clients did, up to a limit.
func deedsOf(run *rundir.Run, name string, clients map[string]bool) ([]history.Record, error) {
	var deeds []history.Record
	if len(clients) == 0 {
		return nil, nil
	}
	err := eachRecord(run, name, func(r history.Record) (more bool) {
		if clients[r.Op.Client] {
			deeds = append(deeds, r)
		}
		return len(deeds) < maxDeeds
	})
	return deeds, err
}

// maxDeeds is how many records deedsOf keeps of a repeat.
const maxDeeds = 2000
