package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// VariantGroup is a part of the variant table.
type VariantGroup struct {
	Name, Note string
	Rows       []VariantRow
}

// VariantColumns says which columns of the variant table have something to show.
type VariantColumns struct {
	SLOs, Ratio, Raced, CPU bool
	// P999 says that a design has enough operations for one, Dropped that not everything was
	// sent, Unknown that not every outcome is known.
	P999, Dropped, Unknown bool
	// Successes says that times are of successful operations alone.
	Successes bool
	// Compared says once why there is no ratio, or what is true of all of them, Queued whose
	// p99 is mostly waiting.
	Compared, Queued string
}

// ColumnsOf says which columns the table of designs has.
func ColumnsOf(groups []VariantGroup, s rundir.Summary, standings []Standing) (c VariantColumns) {
	tested := false
	c.Queued = QueuedNote(s, standings)
	for _, st := range standings {
		c.Successes = c.Successes || st.Successes
	}
	for _, g := range groups {
		for _, row := range g.Rows {
			c.SLOs = c.SLOs || row.SLOs != words.None
			c.Raced = c.Raced || row.Raced != words.None
			c.CPU = c.CPU || row.CPU != words.None
			c.P999 = c.P999 || row.P999 != words.None
			c.Dropped = c.Dropped || row.Sent != whole && row.Sent != words.None
			c.Unknown = c.Unknown || row.Errors != nothing && row.Errors != words.None
			c.Ratio = c.Ratio || row.Ratio.Ratio != words.None && row.Ratio.Ratio != ""
			tested = tested || row.Ratio.P != ""
		}
	}
	switch {
	case len(s.Comparisons) == 0:
	case !c.Ratio:
		c.Compared = "No ratio to the baseline " + s.Run.Baseline + ": " +
			cmp.Or(strings.TrimPrefix(s.Comparisons[0].Note, "no ratio: "),
				"the times do not allow one") + "."
	case !tested:
		c.Compared = fmt.Sprintf("n = %d: too few repeats for a test of the ratios.",
			s.Comparisons[0].N)
	}
	return c
}

// whole and nothing are shares.
const whole, nothing = "100 %", "0 %"

// VariantRow is one line of the variant table, formatted.
type VariantRow struct {
	Letter, Name, ID string
	Baseline         bool
	Mark             words.Mark
	// Tags say more than the mark: "fast but wrong", "baseline".
	Tags                     []string
	Invariants, SLOs         string
	SLOMissed                bool
	Sent, Throughput, Errors string
	// Raced is how many successful operations raced another on the same key.
	Raced string
	// Timing is the state of the times, which a sign before each says too.
	Timing                       words.Mark
	P50, P90, P99, P999, Max     string
	CPU                          string
	Ratio                        ratioCell
	Idea, Guarantees, GivesUp    string
	Reasons                      []string
	NotApplicable, ExpectedBreak []string
	KnownWrong                   []string
}

// ratioCell is a ratio to the baseline with its two separate marks.
type ratioCell struct {
	Ratio, Interval, P string
	Significant, Large bool
	// Note is why something is missing.
	Note string
}

// VariantGroups makes the variant table: what holds first, wrong ones last.
func VariantGroups(s rundir.Summary, standings []Standing) []VariantGroup {
	const violated, controls = 2, 3
	groups := []VariantGroup{
		{Name: "Hold every invariant", Note: "ranked by p99"},
		{Name: "Not decided", Note: "no violation found, but not everything was judged"},
		{Name: "Broke an invariant", Note: "not ranked"},
		{Name: "Controls", Note: "known to be wrong, not ranked"},
	}
	best := bestSound(standings)
	for _, st := range standings {
		row := VariantRowOf(s, st)
		if st.Group == Wrong && st.Timing == rundir.Clean && ClearlyFaster(st.p99(), best) {
			row.Tags = append(row.Tags, "fast but wrong")
		}
		group := min(int(st.Group), violated)
		if st.Control() {
			group = controls
		}
		groups[group].Rows = append(groups[group].Rows, row)
	}
	return slices.DeleteFunc(groups, func(g VariantGroup) bool { return len(g.Rows) == 0 })
}

// bestSound is the lowest p99 among the variants that hold.
func bestSound(standings []Standing) int64 {
	best := rundir.Infinite
	for _, st := range standings {
		if st.Group == holds {
			best = min(best, st.p99())
		}
	}
	if best == rundir.Infinite {
		return 0 // nothing holds, so nothing is faster than what holds
	}
	return best
}

// VariantRowOf is a design as a row of the table.
func VariantRowOf(s rundir.Summary, st Standing) VariantRow {
	row := VariantRow{
		Letter: st.Letter, Name: st.Name, ID: AnchorOf(st),
		Baseline: st.Baseline, Mark: st.Mark(),
		Invariants: fmt.Sprintf("%d/%d", st.Held, st.Applicable),
		Sent:       words.Share(st.Load.Started, st.Load.Scheduled),
		Throughput: strings.TrimSuffix(words.Rate(st.ThroughputPerS), "/s"),
		Errors:     words.Share(st.Load.Unknown, st.Load.Started),
		Idea:       st.Idea, Guarantees: st.Guarantees, GivesUp: st.GivesUp,
		Reasons: otherReasons(st.Variant), ExpectedBreak: st.ExpectedBroken,
	}
	if st.Baseline {
		row.Tags = append(row.Tags, "baseline")
	}
	row.KnownWrong = st.knownWrong()
	row.SLOs, row.Raced = words.None, words.None
	if len(st.SLOs) > 0 && len(st.ExpectedBroken) == 0 {
		held, missed := words.Split(st.SLOs, func(slo check.SLOVerdict) bool {
			return slo.Status == check.Held
		})
		row.SLOs, row.SLOMissed = fmt.Sprintf("%d/%d", len(held), len(st.SLOs)), len(missed) > 0
	}
	response := st.response()
	of := func(ns int64) string { return words.Percentile(response, ns) }
	row.P50, row.P90, row.P99 = of(response.P50), of(response.P90), of(response.P99)
	row.P999, row.Max = of(response.P999), of(response.Max)
	if response.Count < ForP999 {
		row.P999 = words.None
	}
	if st.Races != nil {
		row.Raced = words.Grouped(st.Races.Raced)
	}
	row.Timing = TimingMark(st.Timing)
	for _, cell := range []*string{&row.P50, &row.P90, &row.P99, &row.P999, &row.Max,
		&row.Throughput} {
		switch {
		case st.Timing == rundir.NoTimes && cell != &row.Throughput:
			*cell = words.None
		case *cell != words.None && *cell != "":
			*cell = Approximately(st) + *cell
		}
	}
	row.CPU = st.processor().perOperation(storesAndRoles)
	row.Ratio = ratioCellOf(s, st.Name, "p99")
	for _, name := range words.SortedKeys(st.NotApplicable) {
		row.NotApplicable = append(row.NotApplicable, name+": "+st.NotApplicable[name])
	}
	return row
}

func ratioCellOf(s rundir.Summary, variant, metric string) ratioCell {
	for _, c := range s.Comparisons {
		if c.Candidate == variant && c.Metric == metric {
			return ratioText(c)
		}
	}
	return ratioCell{}
}

func ratioText(c rundir.Comparison) ratioCell {
	cell := ratioCell{Ratio: words.None, Significant: c.Significant, Large: c.Large, Note: c.Note}
	if c.Ratio > 0 {
		cell.Ratio = words.RatioOf(c.Ratio, c.N)
		if c.Approximate {
			cell.Ratio = "≈ " + cell.Ratio
		}
	}
	if c.CI95 != nil {
		cell.Interval = strings.TrimSuffix(words.Times(c.CI95[0]), "×") + "–" + words.Times(c.CI95[1])
	}
	if c.PHolm != nil {
		cell.P = equals(c.PHolm)
	}
	return cell
}

// ComparisonRow is one line of the table of all comparisons.
type ComparisonRow struct {
	Metric, Candidate string
	N                 int
	PExact, PHolm     string
	ratioCell
}

// ComparisonRows are the comparisons with the baseline, as text.
func ComparisonRows(all []rundir.Comparison) []ComparisonRow {
	rows := make([]ComparisonRow, 0, len(all))
	for _, c := range all {
		metric := c.Metric
		if c.Op != "" {
			metric += " of " + c.Op
		}
		rows = append(rows, ComparisonRow{Metric: metric, Candidate: c.Candidate, N: c.N,
			PExact: words.PValue(c.PExact), PHolm: words.PValue(c.PHolm), ratioCell: ratioText(c)})
	}
	return rows
}

// phaseAt is the phase in which a time lies.
func phaseAt(phases []rundir.Phase, ns int64) string {
	for _, p := range properPhases(phases) {
		if p.StartNS <= ns && ns < p.EndNS {
			return p.Name
		}
	}
	return ""
}

// properPhases are those of the load, without the times before, during and after faults.
func properPhases(phases []rundir.Phase) []rundir.Phase {
	return slices.DeleteFunc(slices.Clone(phases), func(p rundir.Phase) bool {
		return strings.Contains(p.Name, " ")
	})
}

// faultAt says which fault was in force at a time.
func faultAt(r rundir.Repeat, ns int64) string {
	for i, w := range FaultWindows(r) {
		if int64(w.Start) <= ns && ns < int64(w.End) {
			return fmt.Sprintf("during F%d %s", i+1, w.Name)
		}
	}
	return ""
}

// PhaseRow is one phase of one variant's main operation.
type PhaseRow struct {
	Letter, Variant, Phase, From, To, Count, Unknown, P50, P99, Max string
}

// PhaseRows lists the phases of every repeat.
func PhaseRows(standings []Standing) (rows []PhaseRow) {
	for _, st := range standings {
		if st.Main == nil {
			continue
		}
		for _, p := range st.Main.Phases {
			rows = append(rows, PhaseRow{Letter: st.Letter, Variant: st.Name, Phase: p.Name,
				From: words.Seconds(float64(p.StartNS) / 1e9), To: phaseEnd(p.EndNS),
				Count: words.Grouped(p.Load.Scheduled), Unknown: words.Grouped(p.Load.Unknown + p.Load.Dropped),
				P50: words.Percentile(p.Response, p.Response.P50),
				P99: words.Percentile(p.Response, p.Response.P99),
				Max: words.Percentile(p.Response, p.Response.Max)})
		}
	}
	return rows
}

func phaseEnd(ns int64) string {
	if ns == rundir.Infinite {
		return "end"
	}
	return words.Seconds(float64(ns) / 1e9)
}

// OperationRow is one kind of operation of one variant.
type OperationRow struct {
	Letter, Variant, Kind                 string
	Scheduled, Dropped, OK, Refused, Open string
	P50, P99, Service, Lag                string
}

// OperationRows lists the kinds of operations of every design.
func OperationRows(standings []Standing) (rows []OperationRow) {
	for _, st := range standings {
		for _, op := range st.Operations {
			l := op.Latency
			rows = append(rows, OperationRow{Letter: st.Letter, Variant: st.Name, Kind: op.Kind,
				Scheduled: words.Grouped(op.Load.Scheduled), Dropped: words.Grouped(op.Load.Dropped),
				OK: words.Grouped(op.Load.OK), Refused: words.Grouped(op.Load.Refused),
				Open:    words.Grouped(op.Load.Unknown),
				P50:     words.Percentile(l.Response, l.Response.P50),
				P99:     words.Percentile(l.Response, l.Response.P99),
				Service: words.Percentile(l.Service, l.Service.P99), Lag: words.Percentile(l.Lag, l.Lag.P99)})
		}
	}
	return rows
}
