package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// Strip is the picture of the first screen: a row for each design that is not known to be
// wrong, best first, with a bar from p50 to p99 on a scale that all rows share.
type Strip struct {
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
	Mark             words.Mark
	Timing           words.Mark
	// X and Width place the bar, of stripWidth in all; no bar if Width is 0.
	X, Width int
	// Times says the same in words, or why there are no times.
	Times string
}

// stripWidth is how wide the scale is.
const stripWidth = 1000

// StripOf makes the picture of the designs that are no controls.
func StripOf(standings []Standing) (s Strip) {
	low, high := math.Inf(1), math.Inf(-1)
	refused := false
	for _, st := range standings {
		if p, ok := st.Times(); ok && !st.Control() {
			s.Kind = cmp.Or(s.Kind, st.Main.Kind)
			refused = refused || st.Main.Load.Refused > 0
			s.Measured, s.Head = st.Measured(), s.Kind
			if st.Successes {
				s.Head = "successful " + s.Kind
			}
			low, high = min(low, Exponent(p.P50)), max(high, Exponent(p.P50))
			if p.P99 != rundir.Infinite {
				high = max(high, Exponent(p.P99))
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
		return int(math.Round(stripWidth * (min(Exponent(ns), high) - low) / (high - low)))
	}
	for _, st := range standings {
		if !st.Control() {
			s.Rows = append(s.Rows, stripRowOf(st, at))
		}
	}
	if !slices.ContainsFunc(s.Rows, func(r stripRow) bool { return r.Width > 0 }) {
		s.Kind = "" // there is nothing to draw
	} else {
		for e := low; e < high; e++ {
			s.Ticks = append(s.Ticks, words.Decade(int(e)))
			s.Grid = append(s.Grid, int(math.Round(stripWidth*(e-low)/(high-low))))
		}
	}
	return s
}

// Exponent is the logarithm of a time in seconds, from a microsecond on.
func Exponent(ns int64) float64 { return math.Log10(math.Max(float64(ns)/1e9, 1e-6)) }

// Times are the response times of the main operation, if they can be used.
func (st Standing) Times() (p rundir.Percentiles, ok bool) {
	p = st.response()
	return p, st.Timing != rundir.NoTimes && p.Count > 0 && p.P50 != rundir.Infinite
}

func stripRowOf(st Standing, at func(int64) int) stripRow {
	row := stripRow{Letter: st.Letter, Name: st.Name, ID: AnchorOf(st), Mark: st.Mark(),
		Timing: TimingMark(st.Timing)}
	p, ok := st.Times()
	switch {
	case len(st.Broken) > 0:
		row.Times = "broke " + words.List(st.Broken, 2)
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
		row.Times = Approximately(st) + words.Latency(p.P50) + " – "
		if p.P99 == rundir.Infinite {
			row.Times += "∞"
		} else {
			row.Times += words.Latency(p.P99)
		}
		if st.Main.Latency.Response.P99 == rundir.Infinite {
			unanswered := st.Main.Load.Dropped + st.Main.Load.Unknown
			row.Times += ", " + words.Share(unanswered, st.Main.Load.Scheduled) + " unanswered"
		}
	}
	return row
}

// AnchorOf is the anchor of a design's description.
func AnchorOf(st Standing) string { return fmt.Sprintf("variant-%d", st.Index) }

// Control says that a design is known to be wrong, here or under another trigger.
func (st Standing) Control() bool {
	return len(st.ExpectedBroken) > 0 || st.Correctness == rundir.NotProvoked
}

// ControlRow is a design that is known to be wrong, and whether the run showed it.
type ControlRow struct {
	Letter, Name, ID string
	Mark             words.Mark
	What, Link       string
	// Scenarios provoke what this one does not.
	Scenarios []string
}

// ControlRows are the designs that are known to be wrong: those that were caught, those
// that should have been, those whose error was not provoked.
func ControlRows(s rundir.Summary, standings []Standing, anchors *anchors) (rows []ControlRow) {
	for _, st := range standings {
		if !st.Control() {
			continue
		}
		row := ControlRow{Letter: st.Letter, Name: st.Name, ID: AnchorOf(st), Mark: st.Mark()}
		switch {
		case len(st.Missed) > 0:
			row.What = "did not break " + words.List(st.Missed, 2) + ", which it is known to break"
		case len(st.Caught) > 0:
			name := st.Caught[0]
			_, v, _ := st.Evidence(name)
			row.What, row.Link = name, anchors.of(name, st.Name)
			if len(v.Violations) > 0 {
				row.What += ": " + v.Violations[0].Text
			}
			if len(st.Besides) > 0 {
				row.What += "; also broke " + words.List(st.Besides, 2)
			}
		case len(st.Elsewhere) > 0:
			row.What = "broke " + words.List(st.Elsewhere, 2) + ", as it is known to elsewhere"
			row.Link = anchors.of(st.Elsewhere[0], st.Name)
		default:
			row.What = "breaks " + words.List(st.knownWrong(), 2)
			row.Scenarios = s.Run.ProvokedBy[st.Name]
			row.Scenarios = row.Scenarios[:min(2, len(row.Scenarios))]
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b ControlRow) int {
		return cmp.Compare(slices.Index(controlOrder, a.Mark.Word),
			slices.Index(controlOrder, b.Mark.Word))
	})
	return rows
}

// controlOrder puts what needs attention first, and what was not provoked last.
var controlOrder = []string{wordMissed, wordUntried, wordUndecided, wordCaught, wordElsewhere,
	wordLatent}
