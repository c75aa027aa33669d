package answer

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/chart"
	"stampede/reports/words"
)

// ClientTable is what is drawn, an operation a row.
func ClientTable(acts []history.Record) *chart.DataTable {
	t := chart.DataTable{What: "this chart",
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

// maxOps is how many violating operations the page spells out for one
// invariant of one variant; the others are in the run's history.
const maxOps = 2 * check.MaxViolations

// Matrix has an invariant per row and a variant per column.
type Matrix struct {
	Columns []matrixColumn
	// Rows are the invariants that not every design holds, Folded the others.
	Rows, Folded []matrixRow
}

type matrixColumn struct{ Letter, Name string }

type matrixRow struct {
	Name, Statement string
	// Summary is what it says of itself where it held.
	Summary string
	// Checked is on how many operations or rows the verdicts of a repeat rest, the fewest and
	// the most.
	Checked string
	Cells   []matrixCell
}

type matrixCell struct {
	Mark words.Mark
	Link string
	// Note is all that is known, for those who point at the mark, and for screen readers.
	Note string
}

// Count is how many invariants were judged.
func (m Matrix) Count() int { return len(m.Rows) + len(m.Folded) }

// InvariantMatrix is what each design did to each invariant.
func InvariantMatrix(s rundir.Summary, standings []Standing, anchors *anchors) (m Matrix) {
	for _, st := range standings {
		m.Columns = append(m.Columns, matrixColumn{st.Letter, st.Name})
	}
	told := holdingOf(standings)
	if len(told) == 0 {
		told = standings
	}
	for _, name := range invariantNames(s) {
		row := matrixRow{Name: name, Statement: s.Statements[name], Summary: summaryOf(told, name)}
		least, most, green := math.MaxInt, 0, true
		for _, st := range standings {
			cell, checked := matrixCellOf(st, name, anchors)
			row.Cells = append(row.Cells, cell)
			green = green && (cell.Mark.Class == "good" || cell.Mark.Class == "na")
			if cell.Mark.Class != "na" {
				least, most = min(least, checked.least), max(most, checked.most)
			}
		}
		if least <= most {
			row.Checked = spanned(least, most)
		}
		if green {
			m.Folded = append(m.Folded, row)
		} else {
			m.Rows = append(m.Rows, row)
		}
	}
	return m
}

// checkedCounts are how many operations or rows were checked in a repeat.
type checkedCounts struct{ least, most int }

// spanned writes "2,898 to 3,232".
func spanned(least, most int) string {
	if most > least {
		return words.Grouped(least) + " to " + words.Grouped(most)
	}
	return words.Grouped(least)
}

// checkedOf is how much was checked in each repeat of a design, or in all where the repeats
// were not kept.
func checkedOf(st Standing, inv check.Verdict) checkedCounts {
	c := checkedCounts{least: math.MaxInt}
	for _, r := range st.Repeats {
		for _, v := range r.Invariants {
			if v.Invariant == inv.Invariant {
				c.least, c.most = min(c.least, v.Checked), max(c.most, v.Checked)
			}
		}
	}
	if c.least > c.most {
		return checkedCounts{inv.Checked, inv.Checked}
	}
	return c
}

// matrixCellOf is what became of an invariant in a design, and how much was checked.
func matrixCellOf(
	st Standing, name string, anchors *anchors,
) (cell matrixCell, checked checkedCounts) {
	notApplicable := matrixCell{Mark: words.Mark{Icon: "·", Word: "does not apply", Class: "na"}}
	if why, skip := st.NotApplicable[name]; skip {
		notApplicable.Note = st.Name + ": does not apply: " + why
		return notApplicable, checked
	}
	at := slices.IndexFunc(st.Invariants, func(v check.Verdict) bool { return v.Invariant == name })
	if at < 0 {
		notApplicable.Note = st.Name + ": not judged"
		return notApplicable, checked
	}
	inv := st.Invariants[at]
	cell.Mark = statusMark(inv.Status)
	what := cell.Mark.Word
	if inv.Status == check.Broken {
		cell.Link, cell.Mark = anchors.of(name, st.Name), st.BreakMark(name)
		what = fmt.Sprintf("%s, %s", cell.Mark.Word, words.Plural(max(inv.Count, 1), "violation"))
	}
	checked = checkedOf(st, inv)
	cell.Note = fmt.Sprintf("%s: %s; %s operations or rows checked", st.Name, what,
		spanned(checked.least, checked.most))
	if len(st.Repeats) > 1 {
		cell.Note += " in a repeat"
	}
	if inv.Unknown > 0 {
		cell.Note += fmt.Sprintf(", %s of unknown outcome", words.Grouped(inv.Unknown))
	}
	if inv.Status != check.Broken && inv.Reason != "" {
		cell.Note += "; " + inv.Reason
	}
	return cell, checked
}

// anchors gives every invariant of every variant an anchor of its own,
// "v-no-oversell-naive", whatever characters the names have.
type anchors struct {
	taken map[string]bool
	names map[[2]string]string
}

// NewAnchors has no names yet.
func NewAnchors() *anchors {
	return &anchors{taken: map[string]bool{}, names: map[[2]string]string{}}
}

func (a *anchors) of(invariant, variant string) string {
	key := [2]string{invariant, variant}
	if name, ok := a.names[key]; ok {
		return name
	}
	base := "v-" + words.Slug(invariant) + "-" + words.Slug(variant)
	name := base
	for i := 2; a.taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	a.taken[name], a.names[key] = true, name
	return name
}

// Exhibit is the proof that a variant broke an invariant.
type Exhibit struct {
	ID, Letter, Variant, Invariant, Statement string
	Mark                                      words.Mark
	// Known is set for what is not held against a known-wrong design.
	Known                 bool
	Count, Repeats, First string
	Violations            []violation
	// Decisive is the violation that is drawn, of Violations.
	Decisive int
	// Counted shows how a count rose above its limit, and the operations that raced.
	Counted chart.Figure
	// Interleaving shows the operations of the first violation that has several, or the
	// one of the first that has any; the page draws it from proof.
	Interleaving chart.Figure
	// Beside are the operations that are drawn and are not among the violations.
	Beside *chart.DataTable
	// Clients is what those who sent these did besides.
	Clients chart.TimeFigure
	Proof   Proof
	// More says what is not spelt out, Where says where it is. Kept is the file of the
	// violations that the run keeps of each repeat, "" if there is none, Href its link.
	More, Where, Kept, Href string
	// Reproduce is the command that runs this variant again.
	Reproduce string
}

// violation is one proof with its operations.
type violation struct {
	ID, Number, Text, When string
	Ops                    []opRow
	Missing                string
}

// opRow is one attempt at an operation.
type opRow struct {
	ID, Kind, Key, Client        string
	Intended, Start, End         string
	Outcome, OutcomeClass, Reply string
	// Again says that the operation had been sent before.
	Again bool
}

// violationTable is a table of some violations of one invariant by one design.
type violationTable struct {
	Title, Of  string
	Violations []violation
}

// Proven is the table of the violation that is drawn, or of the first.
func (e Exhibit) Proven() violationTable {
	return violationTable{"Violation", e.Invariant + " by " + e.Variant,
		e.Violations[e.Decisive : e.Decisive+1]}
}

// Earlier says what the first violation was, where the one that is drawn came later.
func (e Exhibit) Earlier() string {
	if e.Decisive == 0 || e.Violations[0].When == "" {
		return ""
	}
	first := e.Violations[0]
	return fmt.Sprintf(" The first violation is another one, %s: %s.", first.When,
		strings.TrimSuffix(words.Short(first.Text, 160), "."))
}

// Further is the table of all others, nil if there are none.
func (e Exhibit) Further() *violationTable {
	rest := slices.Delete(slices.Clone(e.Violations), e.Decisive, e.Decisive+1)
	if len(rest) == 0 {
		return nil
	}
	return &violationTable{strings.Replace(words.Plural(len(rest), "violation"), " ", " more ", 1),
		e.Invariant + " by " + e.Variant, rest}
}

// Exhibits lists the proofs, the unexpected violations first.
func Exhibits(d Data, standings []Standing, anchors *anchors) []Exhibit {
	var all []Exhibit
	for _, name := range invariantNames(d.Summary) {
		for _, st := range standings {
			for _, inv := range st.Invariants {
				if inv.Invariant != name || inv.Status != check.Broken {
					continue
				}
				if _, skip := st.NotApplicable[name]; skip {
					continue
				}
				all = append(all, exhibitOf(d, st, inv, anchors))
			}
		}
	}
	known, unexpected := words.Split(all, func(e Exhibit) bool { return e.Known })
	caught, besides := words.Split(known, func(e Exhibit) bool { return e.Mark.Word == wordCaught })
	return slices.Concat(unexpected, caught, besides)
}

func exhibitOf(d Data, st Standing, inv check.Verdict, anchors *anchors) Exhibit {
	e := Exhibit{ID: anchors.of(inv.Invariant, st.Name), Letter: st.Letter, Variant: st.Name,
		Invariant: inv.Invariant, Statement: d.Summary.Statements[inv.Invariant],
		Mark: st.BreakMark(inv.Invariant), Reproduce: ReproduceVariant(d.Summary, st.Name)}
	if len(d.Summary.Variants) == 1 {
		e.Letter = ""
	}
	e.Known = e.Mark.Word != wordViolated
	repeat, shown, broken := st.Evidence(inv.Invariant)
	if broken == 0 {
		shown = inv // the repeats were not kept: the variant's verdict is all there is
	} else {
		e.Repeats = fmt.Sprintf("in %d of %s", broken, words.Plural(len(st.Repeats), "repeat"))
		e.Where = fmt.Sprintf("Shown: repeat %d.", repeat.Index+1)
		if repeat.History != "" {
			e.Where += " All its operations are in " + repeat.History + "."
		}
	}
	e.Count = words.Plural(max(shown.Count, 1), "violation")
	if kept := rundir.ViolationsName(st.Name, inv.Invariant); slices.Contains(d.Files, kept) {
		e.Kept, e.Href = kept, "./"+(&url.URL{Path: kept}).EscapedPath()
	}
	e.Proof = proofOf(d, st, repeat, shown)
	e.fill(d, st, repeat, shown)
	if beside := e.Proof.Neighbours; len(beside) > 0 {
		e.Beside = ClientTable(beside)
		e.Beside.Title = "What was sent beside the operation that proves it"
	}
	return e
}

// fill spells out the violations and their first maxOps operations.
func (e *Exhibit) fill(d Data, st Standing, repeat rundir.Repeat, shown check.Verdict) {
	records := d.Records[RepeatRef{st.Name, repeat.Index}]
	left, hidden := maxOps, 0
	for i, v := range inTime(shown.Violations) {
		if i == check.MaxViolations {
			break
		}
		line := violation{ID: fmt.Sprintf("%s-%d", e.ID, i+1), Number: fmt.Sprint(i + 1),
			Text: plain.Text(undated(v)), When: when(v.AtNS, repeat)}
		e.First = cmp.Or(e.First, line.When)
		known := knownOf(v, records)
		decisive := decisiveOf(v.Counted, known)
		shown := decisive[:min(left, len(decisive))]
		if len(e.Proof.Records) > 0 && v.Text == e.Proof.violation.Text &&
			v.AtNS == e.Proof.violation.AtNS {
			e.Decisive, shown = i, decisive
		}
		left, hidden = max(0, left-len(shown)), hidden+len(known)-len(shown)
		for _, record := range shown {
			row := opRowOf(record)
			row.Again = sentBefore(records, record)
			line.Ops = append(line.Ops, row)
		}
		if lost := len(v.Ops) - len(known); lost > 0 {
			line.Missing = words.Plural(lost, "operation") + " not found in the stored history"
		}
		e.Violations = append(e.Violations, line)
	}
	if rest := shown.Count - len(e.Violations); rest > 0 {
		e.More = fmt.Sprintf("Showing the first %d of %s; a run keeps no more of a repeat.",
			len(e.Violations), e.Count)
	}
	if hidden > 0 {
		e.More = words.JoinNonEmpty(" ", e.More, fmt.Sprintf("%s %s in the file.",
			strings.Replace(words.Plural(hidden, "operation"), " ", " more ", 1), words.Choose(hidden, "is",
				"are")))
	}
}

// inTime has violations in the order in which they became true, those of unknown time last.
func inTime(violations []check.Violation) []check.Violation {
	known, unknown := words.Split(violations, func(v check.Violation) bool { return v.AtNS > 0 })
	slices.SortStableFunc(known, func(a, b check.Violation) int { return cmp.Compare(a.AtNS, b.AtNS) })
	return append(known, unknown...)
}

// knownOf are the operations behind a violation that were found, in the order in which they
// were sent.
func knownOf(v check.Violation, records map[uint64]history.Record) (known []history.Record) {
	for _, seq := range v.Ops {
		if record, ok := records[seq]; ok {
			known = append(known, record)
		}
	}
	slices.SortStableFunc(known, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	return known
}

// decisiveOf leaves of the operations behind a count those that decide: the one that went
// above the limit, those that raced, and what refers to them by the key that they were
// assigned. All others only add to the count. Without a count all decide.
func decisiveOf(c *check.Counted, known []history.Record) []history.Record {
	if c == nil || c.Limit < c.Before || c.Limit-c.Before >= len(c.Steps) {
		return known
	}
	ids := map[uint64]bool{c.Crossing().Op: true}
	if first, second, raced := c.Race(); raced {
		ids[first.Op], ids[second.Op] = true, true
	}
	keys := map[string]bool{}
	for _, r := range known {
		if ids[r.Op.ID] && r.Reply.Key != "" {
			keys[r.Reply.Key] = true
		}
	}
	decisive := slices.DeleteFunc(slices.Clone(known), func(r history.Record) bool {
		return !ids[r.Op.ID] && !keys[r.Op.Key]
	})
	if len(decisive) == 0 {
		return known
	}
	return decisive
}

// undated is the text of a violation without its own time, which stands beside it, and with
// all others as the page has them.
func undated(v check.Violation) string {
	text := v.Text
	if at := time.Duration(v.AtNS); at > 0 {
		for _, said := range []string{check.TimeText(at), at.String()} { // old runs have all digits
			text = strings.ReplaceAll(text, "at "+said+" ", "")
		}
	}
	return longDuration.ReplaceAllStringFunc(text, func(found string) string {
		d, err := time.ParseDuration(found)
		if err != nil {
			return found
		}
		return words.Clock(int64(d))
	})
}

// longDuration is a time with more digits than the page has of any.
var longDuration = regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+\.\d{4,}(?:s|ms|µs)\b`)

// when says at which time of the run something became true, in which phase if there
// are several, and which fault was in force.
func when(atNS int64, r rundir.Repeat) string {
	if atNS <= 0 {
		return ""
	}
	return words.JoinNonEmpty(", ", "at "+words.Clock(atNS), inPhase(r, atNS), faultAt(r, atNS))
}

// inPhase says in which of a repeat's phases a time lies, "" if there is but one.
func inPhase(r rundir.Repeat, ns int64) string {
	for _, op := range r.Operations {
		if phases := properPhases(op.Phases); len(phases) > 1 {
			if name := phaseAt(phases, ns); name != "" {
				return "in " + name
			}
			return ""
		}
	}
	return ""
}

func opRowOf(r history.Record) opRow {
	row := opRow{
		ID: fmt.Sprint(r.Op.ID), Kind: r.Op.Kind,
		Key: words.Short(r.Op.Key, 60), Client: words.Short(r.Op.Client, 60),
		Intended: words.Clock(int64(r.Intended)), Start: words.Clock(int64(r.Start)),
		End: words.Clock(int64(r.End)), Outcome: r.Outcome.String(),
		OutcomeClass: "o-" + r.Outcome.String(),
	}
	row.Reply = replyText(r)
	return row
}

// sentBefore says whether one of the records is an earlier attempt at the same operation.
func sentBefore(records map[uint64]history.Record, r history.Record) bool {
	for _, other := range records {
		if other.Op.ID == r.Op.ID && other.Seq < r.Seq {
			return true
		}
	}
	return false
}

func replyText(r history.Record) string {
	if r.Outcome != history.OK { // which has a column of its own
		outcome := r.Outcome.String()
		return words.Short(strings.TrimSuffix(strings.TrimSuffix(r.Err, outcome), ": "), 160)
	}
	var parts []string
	if _, err := strconv.ParseInt(r.Reply.Key, 10, 64); err == nil {
		parts = append(parts, "assigned "+words.Short(r.Reply.Key, 60))
	} else if r.Reply.Key != "" {
		parts = append(parts, words.Short(r.Reply.Key, 60))
	}
	if r.Reply.Value != 0 {
		parts = append(parts, fmt.Sprintf("value %d", r.Reply.Value))
	}
	if len(r.Reply.Body) > 0 {
		parts = append(parts, words.Short(string(r.Reply.Body), 160))
	}
	return strings.Join(parts, ", ")
}

// LossRow is a loss that a design declares.
type LossRow struct {
	Letter, Variant, Invariant, What, Why, Count, Bound string
}

// LossRows lists the losses that designs declare, with what was lost.
func LossRows(standings []Standing) (rows []LossRow) {
	for _, st := range standings {
		for _, inv := range st.Invariants {
			for _, loss := range inv.Accepted {
				rows = append(rows, LossRow{Letter: st.Letter, Variant: st.Name,
					Invariant: inv.Invariant, What: loss.What, Why: loss.Why,
					Count: words.Grouped(loss.Count), Bound: words.Grouped(loss.Bound)})
			}
		}
	}
	return rows
}
