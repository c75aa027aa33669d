package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"stampede/harness/rundir"
)

// card is one of the three answers on the first screen.
type card struct {
	Name  string
	Mark  mark
	Lines []string
}

// answerCards are findings() for the page, whose first sentences say the first line about
// correctness and whose table of controls says the last one.
func answerCards(s rundir.Summary, standings []standing) (cards []card) {
	for _, f := range findings(s, standings) {
		name := strings.TrimSuffix(f.Heading, " ≈")
		c := card{Name: name[:1] + strings.ToLower(name[1:]), Mark: f.Mark, Lines: f.Lines}
		if len(cards) == 0 && len(standings) > 0 {
			c.Lines = problemLines(standings)
			if line := summaryLine(s, standings); line != "" {
				c.Lines = append(c.Lines, line)
			}
			if line := raceLine(standings); line != "" {
				c.Lines = append(c.Lines, line)
			}
			if line := faultsLine(standings); line != "" {
				c.Lines = append(c.Lines, line)
			}
			if len(c.Lines) == 0 {
				c.Lines = []string{judgedLine(s, standings)}
			}
		}
		cards = append(cards, c)
	}
	if len(cards) == 2 {
		cards = append(cards, card{Name: "Objectives", Mark: mark{none, "none asked", "na"},
			Lines: []string{"the scenario asks for none"}})
	}
	return cards
}

// judgedLine says on how much the answer about correctness rests.
func judgedLine(s rundir.Summary, standings []standing) string {
	var operations int64
	for _, st := range standings {
		operations += st.Load.Started
	}
	return fmt.Sprintf("%s judged from %s", plural(len(invariantNames(s)), "invariant"),
		plural(operations, "recorded operation"))
}

// strip is the picture of the first screen: a row for each design that is not known to be
// wrong, best first, with a bar from p50 to p99 on a scale that all rows share.
type strip struct {
	Rows []stripRow
	// Kind is the operation whose times these are, Measured says of which of them, Head with
	// few words.
	Kind, Measured, Head string
	// Ticks label the grid lines, which are at these X.
	Ticks []string
	Grid  []int
}

type stripRow struct {
	Letter, Name, ID string
	Mark             mark
	Timing           mark
	// X and Width place the bar, of stripWidth in all; no bar if Width is 0.
	X, Width int
	// Times says the same in words, or why there are no times.
	Times string
}

// stripWidth is how wide the scale is.
const stripWidth = 1000

// stripOf makes the picture of the designs that are no controls.
func stripOf(standings []standing) (s strip) {
	low, high := math.Inf(1), math.Inf(-1)
	refused := false
	for _, st := range standings {
		if p, ok := st.times(); ok && !st.control() {
			s.Kind = cmp.Or(s.Kind, st.Main.Kind)
			refused = refused || st.Main.Load.Refused > 0
			s.Measured, s.Head = st.measured(), s.Kind
			if st.Successes {
				s.Head = "successful " + s.Kind
			}
			low, high = min(low, exponent(p.P50)), max(high, exponent(p.P50))
			if p.P99 != rundir.Infinite {
				high = max(high, exponent(p.P99))
			}
		}
	}
	if refused && s.Measured == s.Kind {
		s.Measured += ", refusals included"
		s.Head = s.Measured
	}
	low, high = math.Floor(low), math.Ceil(high+1e-9)
	if high <= low {
		high = low + 1
	}
	at := func(ns int64) int {
		return int(math.Round(stripWidth * (min(exponent(ns), high) - low) / (high - low)))
	}
	for _, st := range standings {
		if !st.control() {
			s.Rows = append(s.Rows, stripRowOf(st, at))
		}
	}
	if !slices.ContainsFunc(s.Rows, func(r stripRow) bool { return r.Width > 0 }) {
		s.Kind = "" // there is nothing to draw
	} else {
		for e := low; e < high; e++ {
			s.Ticks = append(s.Ticks, decade(int(e)))
			s.Grid = append(s.Grid, int(math.Round(stripWidth*(e-low)/(high-low))))
		}
	}
	return s
}

// exponent is the logarithm of a time in seconds, from a microsecond on.
func exponent(ns int64) float64 { return math.Log10(math.Max(float64(ns)/1e9, 1e-6)) }

// times are the response times of the main operation, if they can be used.
func (st standing) times() (p rundir.Percentiles, ok bool) {
	p = st.response()
	return p, st.Timing != rundir.NoTimes && p.Count > 0 && p.P50 != rundir.Infinite
}

func stripRowOf(st standing, at func(int64) int) stripRow {
	row := stripRow{Letter: st.Letter, Name: st.Name, ID: anchorOf(st), Mark: st.mark(),
		Timing: timingMark(st.Timing)}
	p, ok := st.times()
	switch {
	case len(st.Broken) > 0:
		row.Times = "broke " + list(st.Broken, 2)
	case st.Main == nil:
		row.Times = "no operation was measured"
	case st.Timing == rundir.NoTimes:
		row.Times = "no usable times"
	case st.Successes && p.Count == 0:
		row.Times = "no operation succeeded"
	case !ok:
		row.Times = "half of the operations got no answer"
	default:
		row.X = at(p.P50)
		row.Width = max(at(p.P99)-row.X, 6)
		row.Times = approximately(st) + latency(p.P50) + " – "
		if p.P99 == rundir.Infinite {
			row.Times += "∞"
		} else {
			row.Times += latency(p.P99)
		}
		if st.Main.Latency.Response.P99 == rundir.Infinite {
			unanswered := st.Main.Load.Dropped + st.Main.Load.Unknown
			row.Times += ", " + share(unanswered, st.Main.Load.Scheduled) + " unanswered"
		}
	}
	return row
}

// anchorOf is the anchor of a design's description.
func anchorOf(st standing) string { return fmt.Sprintf("variant-%d", st.Index) }

// control says that a design is known to be wrong, here or under another trigger.
func (st standing) control() bool {
	return len(st.ExpectedBroken) > 0 || st.Correctness == rundir.NotProvoked
}

// controlRow is a design that is known to be wrong, and whether the run showed it.
type controlRow struct {
	Letter, Name, ID string
	Mark             mark
	What, Link       string
	// Scenarios provoke what this one does not.
	Scenarios []string
}

// controlRows are the designs that are known to be wrong: those that were caught, those
// that should have been, those whose error was not provoked.
func controlRows(s rundir.Summary, standings []standing, anchors *anchors) (rows []controlRow) {
	for _, st := range standings {
		if !st.control() {
			continue
		}
		row := controlRow{Letter: st.Letter, Name: st.Name, ID: anchorOf(st), Mark: st.mark()}
		switch {
		case len(st.Missed) > 0:
			row.What = "did not break " + list(st.Missed, 2) + ", which it is known to break"
		case len(st.Caught) > 0:
			name := st.Caught[0]
			_, v, _ := st.evidence(name)
			row.What, row.Link = name, anchors.of(name, st.Name)
			if len(v.Violations) > 0 {
				row.What += ": " + v.Violations[0].Text
			}
			if len(st.Besides) > 0 {
				row.What += "; also broke " + list(st.Besides, 2)
			}
		case len(st.Elsewhere) > 0:
			row.What = "broke " + list(st.Elsewhere, 2) + ", as it is known to elsewhere"
			row.Link = anchors.of(st.Elsewhere[0], st.Name)
		default:
			row.What = "breaks " + list(st.knownWrong(), 2)
			row.Scenarios = s.Run.ProvokedBy[st.Name]
			row.Scenarios = row.Scenarios[:min(2, len(row.Scenarios))]
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b controlRow) int {
		return cmp.Compare(slices.Index(controlOrder, a.Mark.Word),
			slices.Index(controlOrder, b.Mark.Word))
	})
	return rows
}

// controlOrder puts what needs attention first, and what was not provoked last.
var controlOrder = []string{wordMissed, wordUntried, wordUndecided, wordCaught, wordElsewhere,
	wordLatent}
