package check

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/harness/history"
)

// Clause is one way to look at a statement. It is called before the history is read, when it
// can look at the facts and ask to see records (Run.See). It returns what is left to do after
// the reading, nil if that is nothing.
type Clause func(r *Run) (end func())

// Facts are what an audit says, as tables of rows.
type Facts struct {
	Tables []*Table
	// Declared is what the system promises of itself, by name; see Subject.Most.
	Declared map[string]time.Duration
	// Now is the last moment that the audit tells of, in nanoseconds of the store's clock.
	Now int64
	// audit is a pointer to the audit itself; see Audited.
	audit any
}

// Subject is what the invariants of one run share. Invariants of one subject that follow each
// other are judged in one reading of the audit and of the history; see All.
type Subject struct {
	// Read reads the facts of an audit, for example Audited.
	Read func(audit json.RawMessage) (Facts, error)
	// Most is the most that the system may declare of each promise, by the name that the
	// audit has for it: what is judged must not choose how leniently.
	Most map[string]time.Duration
}

// Audited reads the facts of an audit that is decoded by a function, such as
// api.DecodeAudit. Clauses of OnAudit get the audit itself.
func Audited[A any](
	decode func(json.RawMessage) (A, error), facts func(*A) Facts,
) func(json.RawMessage) (Facts, error) {
	return func(raw json.RawMessage) (Facts, error) {
		audit, err := decode(raw)
		if err != nil {
			return Facts{}, fmt.Errorf("the final audit cannot be read: %w", err)
		}
		f := facts(&audit)
		f.audit = &audit
		return f, nil
	}
}

// State makes an invariant of a subject: it holds if all its clauses do.
func (s *Subject) State(name, statement string, clauses ...Clause) Invariant {
	return stated{s, name, statement, clauses}
}

// stated is an invariant made of clauses.
type stated struct {
	subject         *Subject
	name, statement string
	clauses         []Clause
}

func (v stated) Name() string      { return v.name }
func (v stated) Statement() string { return v.statement }

// Check judges one invariant alone.
func (v stated) Check(ctx context.Context, h history.History, audit json.RawMessage) Verdict {
	return readOnce(ctx, []stated{v}, h, audit)[0]
}

// readOnce judges invariants of one subject in one reading. Where the audit cannot be read,
// clauses that need none are judged all the same.
func readOnce(
	ctx context.Context, invariants []stated, h history.History, audit json.RawMessage,
) []Verdict {
	subject := invariants[0].subject
	facts, err := subject.Read(audit)
	visits, ends := visits{}, make([][]func(), len(invariants))
	runs := make([]*Run, len(invariants))
	for i, v := range invariants {
		runs[i] = &Run{Collect(ctx, v.name, h), facts, subject, visits}
		for _, clause := range v.clauses {
			runs[i].resting = false // that is said of one clause
			if end := clause(runs[i]); end != nil {
				resting := runs[i].resting
				ends[i] = append(ends[i], func() { runs[i].resting = resting; end() })
			}
		}
	}
	reading := Collect(ctx, "", h)
	visits.read(reading)
	verdicts := make([]Verdict, len(runs))
	for i, r := range runs {
		if r.failed == "" {
			r.failed = reading.failed
		}
		for _, end := range ends[i] {
			end()
		}
		if err != nil {
			r.Fail("%v", err)
		}
		verdicts[i] = r.Verdict()
	}
	return verdicts
}

// visits are who wants to see the records of each kind; "" is every kind.
type visits map[string][]func(*history.Record)

// read shows the records that were not dropped.
func (v visits) read(c *Collector) {
	if len(v) == 0 {
		return
	}
	for rec := range c.Records() {
		if rec.Outcome == history.Dropped {
			continue
		}
		for _, visit := range v[rec.Op.Kind] {
			visit(rec)
		}
		for _, visit := range v[""] {
			visit(rec)
		}
	}
}

// Run is one invariant being judged.
type Run struct {
	*Collector
	Facts   Facts
	subject *Subject
	visits  visits
}

// See shows every record of some kinds, of all if none is given, that was not dropped. A
// record is valid during the visit only; its strings may be kept.
func (r *Run) See(visit func(*history.Record), kinds ...string) {
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	for _, kind := range kinds {
		r.visits[kind] = append(r.visits[kind], visit)
	}
}

// Table is a table of the facts. Without it the verdict is left open, and the table is nil.
func (r *Run) Table(name string) *Table {
	t := r.optional(name)
	r.Need(t != nil, "the audit has no %s", plural(name))
	return t
}

// optional is a table that a design may not have, nil if the audit has none.
func (r *Run) optional(name string) *Table {
	for _, t := range r.Facts.Tables {
		if t.Name == name && t.given {
			return t
		}
	}
	return nil
}

// plural is the name of many rows.
func plural(row string) string {
	if stem, is := strings.CutSuffix(row, "y"); is && !strings.ContainsAny(stem[len(stem)-1:], "aeo") {
		return stem + "ies"
	}
	return row + "s"
}

// On is a clause about a table, without which the verdict is left open.
func On(table string, judge func(r *Run, t *Table) (end func())) Clause {
	return func(r *Run) func() {
		if t := r.Table(table); t != nil {
			return judge(r, t)
		}
		return nil
	}
}

// OnAudit is a clause about an audit as the system has it, which Audited must have read. It
// is left out where the audit cannot be read.
func OnAudit[A any](judge func(r *Run, audit *A) (end func())) Clause {
	return func(r *Run) func() {
		if audit, is := r.Facts.audit.(*A); is {
			return judge(r, audit)
		}
		return nil
	}
}

// NeedRecord leaves the verdict open, for the reason given, if no record of a kind is as
// wanted. Those of unknown outcome are counted as allowed for.
func NeedRecord(kind, otherwise string, wanted func(*history.Record) bool) Clause {
	return func(r *Run) func() {
		found := false
		r.See(func(rec *history.Record) {
			found = found || wanted(rec)
			if rec.Outcome == history.Unknown {
				r.AllowedUnknown(1)
			}
		}, kind)
		return func() { r.Need(found, "%s", otherwise) }
	}
}

// NeedFact leaves the verdict open, for the reason given, if no row of a table is as wanted.
func NeedFact(table, otherwise string, wanted func(*Fact) bool) Clause {
	return On(table, func(r *Run, t *Table) func() {
		r.Need(slices.ContainsFunc(t.Rows, func(f Fact) bool { return wanted(&f) }), "%s", otherwise)
		return nil
	})
}

// Kind is an operation kind, or several that do the same, and what their records say.
type Kind struct {
	Names []string
	// Says is what a record says; nil is Said.
	Says func(*history.Record) Fact
	// Parts, unless it is nil, are the operations for which a record stands, each as a record of
	// its own: the adds of a batch. A record without parts stands for itself.
	Parts func(*history.Record) []history.Record
}

// Named is the kind of some names, whose records say what Said tells.
func Named(names ...string) Kind { return Kind{Names: names} }

func (k Kind) partsOf(r *history.Record) []history.Record {
	if k.Parts == nil {
		return nil
	}
	return k.Parts(r)
}

func (k Kind) said(r *history.Record) Fact {
	if k.Says != nil {
		return k.Says(r)
	}
	return Said(r)
}

// SeeParts shows the records of a kind, and in place of one that has parts each of these. See See.
func (r *Run) SeeParts(k Kind, visit func(*history.Record)) {
	r.Batches(k)
	r.See(func(rec *history.Record) {
		parts := k.partsOf(rec)
		if parts == nil {
			visit(rec)
		}
		for i := range parts {
			visit(&parts[i])
		}
	}, k.Names...)
}

// Operations are the operations of a kind behind the rows of a table, merged over their
// attempts. They are known after the reading.
func (r *Run) Operations(k Kind, t *Table) Operations {
	return r.operations(k, func(op uint64) bool { return t.Op(op) != nil })
}

// operations are those of a kind that are wanted.
func (r *Run) operations(k Kind, wanted func(op uint64) bool) Operations {
	ops := Operations{}
	r.SeeParts(k, func(rec *history.Record) {
		if wanted(rec.Op.ID) {
			ops.Add(rec)
		}
	})
	return ops
}

// Promise is a time that the system declares of itself, 0 if it declares none. One that
// is longer than the subject grants excuses everything: then the verdict is left open and
// granted is false.
func (r *Run) Promise(name string) (slack time.Duration, granted bool) {
	slack, most := r.Facts.Declared[name], r.subject.Most[name]
	r.Need(slack <= most, "the audit declares %s of %v; the most allowed is %v", name, slack, most)
	return slack, slack <= most
}

// Slowest is the longest that an operation of some kinds, or of any, took outside faults, known
// after the reading. No design does within a time what its store does not: where clients wait for
// a lock or for the CPU, so do roles. Hence families add it to every slack.
func (r *Run) Slowest(kinds ...string) *time.Duration {
	slowest, faults := new(time.Duration), r.Faults()
	r.See(func(rec *history.Record) {
		if rec.End != history.Never && !Disturbed(faults, 0, rec.Start, rec.End) {
			*slowest = max(*slowest, rec.End-rec.Start)
		}
	}, kinds...)
	return slowest
}

// FaultTime is how long faults were in force in a span of the driver's clock, until their
// targets answered again; those that overlap count twice. Of a fault that meets the span all
// of it counts.
func FaultTime(faults []history.Window, from, to time.Duration) (sum time.Duration) {
	for _, f := range faults {
		if end := f.Over(); f.Start < to && end > from {
			sum += end - f.Start
		}
	}
	return sum
}

// Disturbed reports whether a span, inclusive at both ends, meets a fault or the grace after
// it.
func Disturbed(faults []history.Window, grace, from, to time.Duration) bool {
	return slices.ContainsFunc(faults, func(f history.Window) bool {
		return f.Start <= to && f.Over()+grace >= from
	})
}

// Strikes reports whether a fault is one of some kinds on a target or on a replica of it: of
// the text "kill api-2" the kind is kill, and the target api.
func Strikes(w history.Window, target string, kinds ...string) bool {
	words := strings.Fields(w.Fault)
	if len(words) < 2 || !slices.Contains(kinds, words[0]) {
		return false
	}
	_, replica := strings.CutPrefix(words[1], target+"-")
	return replica || words[1] == target
}

// Deaths counts the processes of a target that a fault killed, by its effects: 0 for a crash whose
// place was never reached. Without effects it is 1 for a fault that kills.
func Deaths(w history.Window, target string) int {
	var did *struct {
		PIDs    []int             `json:"pids"`
		Crashes []json.RawMessage `json:"crashes"`
		Kills   int               `json:"kills"`
	}
	if len(w.Effects) > 0 && json.Unmarshal(w.Effects, &did) != nil {
		did = nil
	}
	words := strings.Fields(w.Fault)
	switch {
	case !Strikes(w, target, "kill", "crash", "churn") || words[len(words)-1] == "stop":
		return 0
	case did == nil:
		return 1
	case words[0] == "kill":
		return len(did.PIDs)
	case words[0] == "crash":
		return len(did.Crashes)
	}
	return did.Kills
}
