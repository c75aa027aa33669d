// Package measure turns a stored history into numbers: counts, latencies,
// throughput and time series. The history is their only source, so a stored
// run can be measured again and gives the same.
//
// Operations are assigned to a part of a run by their intended time: a slow
// system cannot push its bad operations into another phase. What was dropped
// or never ended counts as infinitely slow; it is never left out.
package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// The metrics of an operation.
const (
	// Response is from the intended time to the end, the wait for a free
	// worker included: what a user sees.
	Response = "response"
	// Service is from the start to the end: what the system took.
	Service = "service"
	// Lag is from the intended time to the start.
	Lag = "lag"
)

// Options says which parts of a run to measure.
type Options struct {
	// Kinds orders the operation kinds; others follow by name.
	Kinds []string
	// Windows are the run's phases and faults. Operations that were due
	// before the end of the phase "warm-up" are in no total. Each phase, and
	// the time before, during and after each fault that has evidence, becomes
	// a Phase of every operation kind.
	Windows []history.Window
	// Scopes are the parts that objectives need; see check.Scopes.
	Scopes []check.Scope
	// Taken are the spans in which the machine interfered with the run.
	Taken []Span
	// MaxBuckets bounds the timeline's length; zero means 300.
	MaxBuckets int
}

const (
	defaultBuckets = 300
	// runScope is all that was due after the warm-up.
	runScope = "run"
)

// Result is a measured history.
type Result struct {
	// Load, Latency and ThroughputPerS are of all kinds together, without
	// the warm-up. Throughput is the number of OK operations divided by the
	// time from the first of the operations being due to the end of the last
	// OK one: what was achieved while it was being worked on.
	Load           rundir.Load
	Latency        rundir.Latencies
	ThroughputPerS float64
	// Operations has the same for each kind.
	Operations []rundir.Operation
	// Recorded counts every record, the warm-up included.
	Recorded rundir.Load
	// Quiet is nil if nothing was due while the machine interfered.
	Quiet *rundir.QuietTimes
	// First is the earliest intended time of all records and Last the latest
	// time at which one was due, started or ended.
	First, Last time.Duration
	Timeline    rundir.Timeline
	// Windows are the distributions of response times, and the errors, over time.
	Windows rundir.Windows

	kinds []string
	parts map[string]*part
	over  *timeline
}

var _ check.Numbers = (*Result)(nil)

// Summarise reads the history twice, once for its extent and once for its
// numbers, and keeps histograms only: memory grows with kinds, phases and
// scopes, not with operations. A history that cannot be read is an error.
func Summarise(h history.History, opts Options) (*Result, error) {
	interference := &taken{spans: slices.Clone(opts.Taken)}
	extent, err := survey(h, interference)
	if err != nil {
		return nil, err
	}
	interference.extend()
	s := newSummary(extent, opts)
	s.taken, s.quiet = interference, NewHistogram()
	for rec, err := range h.All() {
		if err != nil {
			return nil, fmt.Errorf("measuring: %w", err)
		}
		s.add(&rec)
	}
	return s.result()
}

// extent is what a first look at a history says.
type extent struct {
	kinds       []string
	first, last time.Duration
}

func survey(h history.History, t *taken) (extent, error) {
	e := extent{first: history.Never}
	seen := map[string]bool{}
	for rec, err := range h.All() {
		if err != nil {
			return extent{}, fmt.Errorf("measuring: %w", err)
		}
		if !seen[rec.Op.Kind] {
			seen[rec.Op.Kind] = true
			e.kinds = append(e.kinds, rec.Op.Kind)
		}
		t.add(&rec)
		e.first = min(e.first, rec.Intended)
		for _, t := range []time.Duration{rec.Intended, rec.Start, rec.End} {
			if t != history.Never {
				e.last = max(e.last, t)
			}
		}
	}
	e.first = min(e.first, e.last)
	return e, nil
}

// order sorts kinds as asked for, and the others by name.
func order(kinds, want []string) []string {
	place := func(kind string) int {
		if i := slices.Index(want, kind); i >= 0 {
			return i
		}
		return len(want)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
	return kinds
}

// part is one part of a run, measured.
type part struct {
	check.Scope
	// phase says that it is reported with each operation kind.
	phase bool
	kinds []*tally
}

func (p *part) has(rec *history.Record) bool {
	return p.From <= rec.Intended && rec.Intended < p.To
}

// all is the tally of all kinds together.
func (p *part) all() *tally {
	sum := newTally()
	for _, t := range p.kinds {
		sum.merge(t)
	}
	return sum
}

// summary is a history being measured.
type summary struct {
	extent   extent
	index    map[string]int
	parts    []*part
	recorded rundir.Load
	errors   []*classes
	timeline *timeline
	windows  *windows
	classes  classifier
	taken    *taken
	// quiet are the response times of the run without what was due in taken spans, due is
	// the last time at which an operation of the run was due.
	quiet *Histogram
	due   time.Duration
}

func newSummary(e extent, opts Options) *summary {
	e.kinds = order(e.kinds, opts.Kinds)
	limit := opts.MaxBuckets
	if limit <= 0 {
		limit = defaultBuckets
	}
	s := &summary{extent: e, index: map[string]int{},
		timeline: newTimeline(e.last, limit, len(e.kinds)),
		windows:  newWindows(e.last, len(e.kinds)), classes: classifier{}}
	for i, kind := range e.kinds {
		s.index[kind] = i
		s.errors = append(s.errors, newClasses())
	}
	s.addPart(scopeOf("in", runScope, opts.Windows), false)
	for _, scope := range phases(opts.Windows) {
		s.addPart(scope, true)
	}
	for _, scope := range opts.Scopes {
		s.addPart(scope, false)
	}
	return s
}

// addPart adds a part unless one of that name is there already.
func (s *summary) addPart(scope check.Scope, phase bool) {
	if slices.ContainsFunc(s.parts, func(p *part) bool { return p.Name == scope.Name }) {
		return
	}
	p := &part{Scope: scope, phase: phase}
	for range s.extent.kinds {
		p.kinds = append(p.kinds, newTally())
	}
	s.parts = append(s.parts, p)
}

// scopeOf is a part of a run by its name; one that did not happen is empty.
func scopeOf(relation, name string, windows []history.Window) check.Scope {
	objective := check.Objective{Part: check.Part{Relation: relation, Name: name}}
	scope, err := objective.Scope(windows)
	if err != nil {
		scope.To = scope.From
	}
	return scope
}

// phases are the parts that are reported: each phase, and the time before,
// during and after each fault.
func phases(windows []history.Window) []check.Scope {
	var scopes []check.Scope
	for _, w := range windows {
		relations := []string{"in"}
		if w.Kind == history.FaultWindow {
			relations = []string{"before", "during", "after"}
		}
		for _, relation := range relations {
			if scope := scopeOf(relation, w.Name, windows); scope.From < scope.To {
				scopes = append(scopes, scope)
			}
		}
	}
	return scopes
}

func (s *summary) add(rec *history.Record) {
	kind := s.index[rec.Op.Kind]
	count(&s.recorded, rec.Outcome)
	s.timeline.add(kind, rec)
	class := ""
	if rec.Err != "" {
		class = s.classes.of(rec)
	}
	s.windows.add(kind, rec, class)
	for i, p := range s.parts {
		if !p.has(rec) {
			continue
		}
		p.kinds[kind].add(rec)
		if i == 0 {
			s.addQuiet(rec)
		}
		if i == 0 && rec.Err != "" {
			s.errors[kind].add(rec, class)
		}
	}
}

// addQuiet takes an operation of the run in, unless the machine interfered with it.
func (s *summary) addQuiet(rec *history.Record) {
	s.due = max(s.due, rec.Intended)
	switch {
	case s.taken.has(rec.Intended):
	case rec.Outcome == history.Dropped || rec.End == history.Never:
		s.quiet.RecordInfinite()
	default:
		s.quiet.Record(rec.End - rec.Intended)
	}
}

func (s *summary) result() (*Result, error) {
	run := s.parts[0]
	total := run.all()
	r := &Result{
		Load: total.load, Latency: total.latencies(), ThroughputPerS: total.throughput(),
		Recorded: s.recorded, First: s.extent.first, Last: s.extent.last,
		Timeline: s.timeline.result(s.extent.kinds), Windows: s.windows.result(s.extent.kinds),
		kinds: s.extent.kinds, parts: map[string]*part{}, over: s.timeline,
		Quiet: s.taken.quiet(s.quiet, max(run.From, s.extent.first), s.due),
	}
	for _, p := range s.parts {
		r.parts[p.Name] = p
	}
	for i, kind := range s.extent.kinds {
		op, err := s.operation(i, kind)
		if err != nil {
			return nil, err
		}
		r.Operations = append(r.Operations, op)
	}
	return r, nil
}

// operation is one kind's numbers.
func (s *summary) operation(i int, kind string) (rundir.Operation, error) {
	t := s.parts[0].kinds[i]
	op := rundir.Operation{
		Kind: kind, Load: t.load, Latency: t.latencies(), ThroughputPerS: t.throughput(),
		Errors: s.errors[i].list(),
	}
	if err := t.encode(&op); err != nil {
		return op, fmt.Errorf("measuring %s: %w", kind, err)
	}
	for _, p := range s.parts {
		if p.phase {
			op.Phases = append(op.Phases, s.phase(p, p.kinds[i]))
		}
	}
	return op, nil
}

func (s *summary) phase(p *part, t *tally) rundir.Phase {
	return rundir.Phase{
		Name: p.Name, StartNS: int64(p.From), EndNS: int64(min(p.To, s.extent.last)),
		Load: t.load, Response: t.response.Percentiles(),
	}
}

// times are the three histograms of some operations.
type times struct{ response, service, lag *Histogram }

func newTimes(histogram func() *Histogram) times {
	return times{response: histogram(), service: histogram(), lag: histogram()}
}

func (t *times) add(rec *history.Record) {
	if rec.Outcome == history.Dropped {
		// It has no service time, since no service was asked for.
		t.lag.RecordInfinite()
		t.response.RecordInfinite()
		return
	}
	t.lag.Record(rec.Start - rec.Intended)
	if rec.End == history.Never {
		t.service.RecordInfinite()
		t.response.RecordInfinite()
		return
	}
	t.service.Record(rec.End - rec.Start)
	t.response.Record(rec.End - rec.Intended)
}

func (t *times) merge(from *times) {
	t.response.Merge(from.response)
	t.service.Merge(from.service)
	t.lag.Merge(from.lag)
}

func (t *times) latencies() rundir.Latencies {
	return rundir.Latencies{
		Response: t.response.Percentiles(),
		Service:  t.service.Percentiles(),
		Lag:      t.lag.Percentiles(),
	}
}

// histograms are those of a kind.
type histograms struct {
	times
	// successful are the response times of the OK ones; nil if they are not known.
	successful *Histogram
}

func newHistograms() histograms { return histograms{newTimes(NewHistogram), NewHistogram()} }

func (t *histograms) merge(from histograms) {
	t.times.merge(&from.times)
	if t.successful == nil || from.successful == nil {
		t.successful = nil
		return
	}
	t.successful.Merge(from.successful)
}

// tally is the numbers of one kind in one part.
type tally struct {
	histograms
	load rundir.Load
	// first is the earliest intended time, lastOK the latest end of an OK one.
	first, lastOK time.Duration
}

func newTally() *tally {
	return &tally{histograms: newHistograms(), first: history.Never}
}

func (t *tally) add(rec *history.Record) {
	count(&t.load, rec.Outcome)
	t.first = min(t.first, rec.Intended)
	t.times.add(rec)
	if rec.Outcome == history.OK {
		t.successful.Record(rec.End - rec.Intended)
		t.lastOK = max(t.lastOK, rec.End)
	}
}

// count adds one operation to a load.
func count(n *rundir.Load, outcome history.Outcome) {
	n.Scheduled++
	if outcome == history.Dropped {
		n.Dropped++
		return
	}
	n.Started++
	switch outcome {
	case history.OK:
		n.OK++
	case history.Refused:
		n.Refused++
	default:
		n.Unknown++
	}
}

func (t *tally) merge(from *tally) {
	t.load.Add(from.load)
	t.histograms.merge(from.histograms)
	t.first, t.lastOK = min(t.first, from.first), max(t.lastOK, from.lastOK)
}

// throughput is OK operations per second; zero if none was OK.
func (t *tally) throughput() float64 {
	span := (t.lastOK - t.first).Seconds()
	if t.load.OK == 0 || span <= 0 {
		return 0
	}
	return float64(t.load.OK) / span
}

// metric returns the histogram of a metric, or nil.
func (t *tally) metric(name string) *Histogram {
	switch name {
	case Response:
		return t.response
	case Service:
		return t.service
	case Lag:
		return t.lag
	}
	return nil
}

// tallyOf finds the numbers of a kind in a scope.
func (r *Result) tallyOf(kind, scope string) (*tally, bool) {
	p, ok := r.parts[scope]
	if !ok {
		return nil, false
	}
	if kind == "" {
		return p.all(), true
	}
	if i := slices.Index(r.kinds, kind); i >= 0 {
		return p.kinds[i], true
	}
	return newTally(), true // a kind that never occurred has zero of everything
}

// Tally implements check.Numbers.
func (r *Result) Tally(kind, scope string) (check.Tally, bool) {
	t, ok := r.tallyOf(kind, scope)
	if !ok {
		return check.Tally{}, false
	}
	return check.Tally{
		Scheduled: t.load.Scheduled, Started: t.load.Started, Dropped: t.load.Dropped,
		OK: t.load.OK, Refused: t.load.Refused, Unknown: t.load.Unknown,
	}, true
}

// Quantile implements check.Numbers. Dropped operations are samples of
// response and lag, but not of service.
func (r *Result) Quantile(metric, kind, scope string, q float64) (ns, samples int64, ok bool) {
	h, ok := r.Histogram(metric, kind, scope)
	if !ok || math.IsNaN(q) || q <= 0 || q > 1 {
		return 0, 0, false
	}
	return h.Quantile(q), h.Count(), true
}

// Histogram returns a metric's histogram of a kind ("" for all) in a scope,
// which is "run", a phase's name or one of the Scopes.
func (r *Result) Histogram(metric, kind, scope string) (*Histogram, bool) {
	t, ok := r.tallyOf(kind, scope)
	if !ok || t.metric(metric) == nil {
		return nil, false
	}
	return t.metric(metric), true
}

// Span implements check.Numbers: the scope without what lies before the first
// operation was due or after the last one ended.
func (r *Result) Span(scope string) time.Duration {
	p, ok := r.parts[scope]
	if !ok {
		return 0
	}
	return max(0, min(p.To, r.Last)-max(p.From, r.First))
}
