package topk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/systems/internal/sketch"
)

// The invariants.
const (
	AckedInLog       = "acked-in-log"
	WindowTotals     = "window-totals"
	EstimatesBounded = "estimates-bounded"
	HeavyPresent     = "heavy-hitters-present"
	ExactAsSorted    = "exact-as-sorted"
	MergedAsOne      = "merged-as-one-pass"
	UniquesBounded   = "uniques-bounded"
	ReadsBounded     = "reads-bounded"
)

// batchFact is the table of facts: every batch in the log.
const batchFact = "batch"

// invariants are what must be true of every design, unless it says otherwise.
func invariants(p Params) []check.Invariant {
	log := check.Subject{Read: check.Audited(api.DecodeAudit[Audit], factsFor(p))}
	recorded := check.Effects{Table: batchFact, Kind: check.Named(KindRecord)}
	return []check.Invariant{
		log.State(AckedInLog, "an acknowledged batch is in the log, with the events that it had, as "+
			"often as it was sent at most, and nothing else is there",
			check.AckedDurable(recorded), check.NoPhantom(recorded), knowing(p, asSent)),
		log.State(WindowTotals, "a window has as many events as the log has of its time, each once",
			knowing(p, totals)),
		log.State(EstimatesBounded, fmt.Sprintf("an estimate is as near to the count in the log as the "+
			"design promises, which is %v of the events at least, for all keys or for all but %v of them",
			p.Error, p.Misses), knowing(p, estimates)),
		log.State(HeavyPresent, "a key that is above the bound of the last one in the top is in the top",
			knowing(p, heavyOnes)),
		log.State(ExactAsSorted, "the top is what sorting the log by counts gives", knowing(p, exactly)),
		log.State(MergedAsOne, "what is merged of several partitions is what one pass over the log "+
			"gives, within the bound", knowing(p, onePass)),
		log.State(UniquesBounded, "the number of keys, by HyperLogLog, and that of events, by a Morris "+
			"counter, are within six standard errors", knowing(p, uniques)),
		log.State(ReadsBounded, "a read has no more events than the log in the end, is sorted, has no "+
			"key twice, and is as near to the log as the design promises, but for the events that were "+
			"not counted yet", knowing(p, reads)),
	}
}

// factsFor reads an audit as tables.
func factsFor(p Params) func(*Audit) check.Facts {
	return func(a *Audit) check.Facts {
		a.truth = &truth{items: p.Items, bodies: map[uint64]string{}, sent: map[uint64]int{},
			at: map[uint64]int64{}, answers: map[uint64]int64{}}
		if a.Log == nil {
			return check.Facts{}
		}
		rows := make([]check.Fact, len(a.Log))
		for i, b := range a.Log {
			rows[i] = check.Fact{Op: b.ID, Thing: b.Events}
		}
		return check.Facts{Tables: []*check.Table{check.TableOf(batchFact, rows)}}
	}
}

// judged is a run that is judged, whose truth is known.
type judged struct {
	*check.Run
	*Audit
	p Params
	// behind says that not all of the log is counted, so that what is too low may be unfinished.
	behind bool
}

// knowing is a clause about an audit with a log, once the history says what is in it.
func knowing(p Params, judge func(j judged)) check.Clause {
	return check.OnAudit(func(r *check.Run, a *Audit) func() {
		if !a.truth.seen { // by the first of the clauses, which share one reading
			a.truth.seen = true
			r.See(a.truth.see, KindRecord)
			r.See(func(rec *history.Record) { a.truth.reads = append(a.truth.reads, *rec) }, KindTop)
		}
		return func() {
			for list, there := range map[string]bool{"log": a.Log != nil, "windows": a.Windows != nil,
				"top": a.Top != nil, "estimates": a.Estimates != nil} {
				r.Need(there, "the audit has no %s", list)
			}
			if err := a.truth.build(p, a.Log); err != nil {
				r.Fail("a batch of the history cannot be read: %v", err)
				return
			}
			counted := int64(0)
			for _, row := range a.Windows {
				counted += row.Events
			}
			judge(judged{r, a, p, counted < a.truth.events})
		}
	})
}

// asSent compares the log with what was sent.
func asSent(j judged) {
	seen := map[uint64]int{}
	for _, row := range j.Log {
		j.Checked(1)
		seen[row.ID]++
		if most := j.truth.sent[row.ID]; seen[row.ID] == most+1 && most > 0 {
			j.Violate([]uint64{row.ID}, "batch %d is in the log more often than it was sent, %d times",
				row.ID, most)
		}
		body, known := j.truth.bodies[row.ID]
		if !known {
			continue
		}
		list, err := keysOf(body, nil)
		sum := uint64(0)
		for _, key := range list {
			sum += key
		}
		if n, answered := j.truth.answers[row.ID]; answered && n != int64(len(list)) {
			j.Violate([]uint64{row.ID}, "batch %d was answered as %d events, and was sent with %d", row.ID,
				n, len(list))
		}
		if err != nil || int64(len(list)) != row.Events || sum != row.Sum ||
			j.truth.at[row.ID] != row.AtMS {
			j.Violate([]uint64{row.ID}, "batch %d is in the log with %d events at %d ms, whose keys add "+
				"up to %d; it was sent with %d at %d ms, which add up to %d", row.ID, row.Events, row.AtMS,
				row.Sum, len(list), j.truth.at[row.ID], sum)
		}
	}
}

// totals compares the windows with the log.
func totals(j judged) {
	found := map[int64]bool{}
	for _, row := range j.Windows {
		j.Checked(1)
		truth := j.truth.span(row.Window, 1)
		switch {
		case found[row.Window]:
			j.Violate(truth.ops, "window %d is there twice", row.Window)
		case row.Events > truth.n:
			j.Violate(truth.ops, "window %d has %d events, and the log only %d", row.Window, row.Events,
				truth.n)
		case row.Events < truth.n:
			j.Unfinished(truth.ops, "window %d has %d events, and the log %d", row.Window, row.Events,
				truth.n)
		}
		found[row.Window] = true
	}
	for window, truth := range j.truth.windows {
		if !found[window] && truth.n > 0 {
			j.Unfinished(truth.ops, "window %d has no events, and the log %d", window, truth.n)
		}
	}
}

// promised is the contract of the design, if it is no worse than the parameters allow.
func (j judged) promised() (Contract, bool) {
	c := j.Contract
	good := c.Under+c.Over <= j.p.Error*(1+1e-9) && c.Misses <= j.p.Misses
	j.Need(good, "the design promises %+v; the most allowed is an error of %v and %v of the keys", c,
		j.p.Error, j.p.Misses)
	return c, good
}

// estimates compares estimates with the log, and shows what they cost.
func estimates(j judged) {
	c, good := j.promised()
	if !good {
		return
	}
	m := check.Mostly{Run: j.Run, Share: c.Misses}
	off, tops := 0., 0.
	judge := func(of string, truth *tally, key uint64, count int64) {
		m.Cases++
		was, n := truth.of(key), float64(truth.n)
		if float64(count) < float64(was)-c.Under*n-0.5 {
			m.Miss(truth.ops, j.behind, "key %d in %s is estimated at %d, and occurred %d times: more than "+
				"%v of %d events too low", key, of, count, was, c.Under, truth.n)
		}
		if float64(count) > float64(was)+c.Over*n+0.5 {
			m.Miss(truth.ops, false, "key %d in %s is estimated at %d, and occurred %d times: more than "+
				"%v of %d events too high", key, of, count, was, c.Over, truth.n)
		}
	}
	for _, row := range j.Estimates {
		judge(fmt.Sprint("window ", row.Window), j.truth.span(row.Window, 1), row.Key, row.Count)
	}
	for _, g := range j.groups() {
		for _, row := range g.rows {
			judge(g.String(), g.truth, row.Key, row.Count)
			if was := g.truth.of(row.Key); was > 0 {
				off, tops = off+math.Abs(float64(row.Count-was))/float64(was), tops+1
			}
		}
	}
	j.complete()
	m.End()
	j.Figure("memory of a window", "kB", float64(j.Cost.Bytes)/1000)
	j.Figure("mean error in the top", "%", 100*off/tops)
	j.Figure("time of an event", "ns", float64(j.Cost.AddNS)/float64(j.Cost.Events))
}

// complete looks whether each window has an estimate of each probe and of each key in its top, and
// no two that differ.
func (j judged) complete() {
	of := map[TopRow]EstimateRow{} // by window and key
	for _, row := range j.Estimates {
		at := TopRow{Window: row.Window, Key: row.Key}
		if was, twice := of[at]; twice && was != row {
			j.Violate(j.truth.span(row.Window, 1).ops, "window %d has two estimates of key %d", row.Window,
				row.Key)
		}
		of[at] = row
	}
	whole := true
	needed := func(window int64, key uint64) {
		if _, there := of[TopRow{Window: window, Key: key}]; !there && whole {
			whole = false
			j.Need(false, "window %d has no estimate of key %d", window, key)
		}
	}
	for _, row := range j.Windows {
		for _, key := range j.p.probes() {
			needed(row.Window, key)
		}
	}
	for _, row := range j.Top {
		if row.Span == 1 {
			needed(row.Window, row.Key)
		}
	}
}

// group is the top of some windows, and what is true of these.
type group struct {
	window int64
	span   int
	rows   []TopItem
	truth  *tally
	best   []sketch.Item
}

// group is what is true of some windows, the last of which is given, and their k best keys.
func (j judged) group(window int64, span, k int) group {
	truth := j.truth.span(window, span)
	return group{window: window, span: span, truth: truth, best: truth.sorted(k)}
}

// String names the windows.
func (g group) String() string { return fmt.Sprintf("window %d (span %d)", g.window, g.span) }

// groups are the tops that the audit has, and of windows without one, an empty one.
func (j judged) groups() (list []group) {
	at := map[[2]int64]int{}
	add := func(window int64, span int) int {
		key := [2]int64{window, int64(span)}
		if _, known := at[key]; !known {
			at[key] = len(list)
			list = append(list, j.group(window, span, j.p.K))
		}
		return at[key]
	}
	for _, row := range j.Windows {
		add(row.Window, 1)
		add(row.Window, j.p.Span)
	}
	for _, row := range j.Top {
		i := add(row.Window, row.Span)
		list[i].rows = append(list[i].rows, TopItem{row.Key, row.Count})
	}
	return list
}

// heavyOnes looks for keys that should be in a top, and at its order.
func heavyOnes(j judged) {
	c, good := j.promised()
	if !good {
		return
	}
	m := check.Mostly{Run: j.Run, Share: c.Misses}
	for _, g := range j.groups() {
		listed := j.listed(g.truth.ops, fmt.Sprint("the top of ", g), j.p.K, g.rows)
		slack := (c.Under + c.Over) * float64(g.truth.n)
		g.absent(&m, j.p.K, slack, listed, func(it sketch.Item, floor float64) {
			m.Miss(g.truth.ops, j.behind, "key %d occurred %d times in %v and is not in its top; the last "+
				"one there is %v, and the bound %v", it.Key, it.Count, g, floor, slack)
		})
	}
	j.Need(m.Cases > 0, "no key is above the bound of the last one in a top")
	m.End()
}

// absent notes the keys that are more frequent than the last one in a top of k by more than the
// slack, and are not in it. Of a top that has room, each key must be above the slack.
func (g group) absent(m *check.Mostly, k int, slack float64, listed map[uint64]bool,
	miss func(it sketch.Item, floor float64),
) {
	floor := 0.
	if len(g.best) == k && len(listed) >= k {
		floor = float64(g.best[k-1].Count)
	}
	for _, it := range g.best {
		if float64(it.Count) <= floor+slack+0.5 {
			break // it may be absent, and so may the ones after it
		}
		m.Cases++
		if !listed[it.Key] {
			miss(it, floor)
		}
	}
}

// listed are the keys of a top, each of which it must have once, the highest count first.
func (j judged) listed(ops []uint64, top string, k int, items []TopItem) map[uint64]bool {
	keys := map[uint64]bool{}
	for _, it := range items {
		if keys[it.Key] {
			j.Violate(ops, "key %d is twice in %s", it.Key, top)
		}
		keys[it.Key] = true
	}
	if len(items) > k || !slices.IsSortedFunc(items, func(a, b TopItem) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	}) {
		j.Violate(ops, "%s is not sorted, or has over %d keys: %v", top, k, items)
	}
	return keys
}

// exactly compares the tops of a design that counts exactly with those of the log. It says nothing
// about one that declares estimates, such as a server that is not stampede's own.
func exactly(j judged) {
	if j.Contract != (Contract{}) {
		j.Checked(1)
		j.Note("the design promises estimates")
		return
	}
	for _, g := range j.groups() {
		j.Checked(1)
		same := slices.EqualFunc(g.rows, g.best, func(row TopItem, it sketch.Item) bool {
			return row.Key == it.Key && row.Count == int64(it.Count)
		})
		switch {
		case same:
		case j.behind:
			j.Unfinished(g.truth.ops, "the top of %v is not that of the log", g)
		default:
			j.Violate(g.truth.ops, "the top of %v is %v, and that of the log %v", g, g.rows, g.best)
		}
	}
}

// onePass compares what was merged with one pass over the log.
func onePass(j judged) {
	c, good := j.promised()
	several := map[int64]bool{}
	for _, row := range j.Windows {
		several[row.Window] = row.Shards > 1
	}
	m := check.Mostly{Run: j.Run, Share: c.Misses}
	for _, row := range j.Estimates {
		truth := j.truth.span(row.Window, 1)
		if !several[row.Window] || !good {
			continue
		}
		m.Cases++
		bound := (c.Under + c.Over) * float64(truth.n)
		if math.Abs(float64(row.Count-row.OnePass)) > bound+0.5 {
			m.Miss(truth.ops, j.behind, "key %d in window %d is %d where partitions are merged, and %d in "+
				"one pass; the bound is %v", row.Key, row.Window, row.Count, row.OnePass, bound)
		}
	}
	j.Need(m.Cases > 0, "no window has events in two partitions")
	m.End()
}

// Six standard errors of the counters of uniques, of 2^14 registers, and of events: see PaneRow.
const uniquesError, approxError = 6 * 1.04 / 128, 6 * sketch.MorrisError

// uniques compares the number of keys with the log, and that of events with how many were counted.
func uniques(j judged) {
	for _, row := range j.Windows {
		j.Checked(1)
		truth := j.truth.span(row.Window, 1)
		if math.Abs(float64(row.Approx-row.Events)) > 1+approxError*float64(row.Events) {
			j.Violate(truth.ops, "window %d has about %d events, not %d", row.Window, row.Approx, row.Events)
		}
		keys := len(truth.sorted(math.MaxInt))
		if row.Events == truth.n && // window-totals says so
			math.Abs(float64(row.Uniques-int64(keys))) > 1+uniquesError*float64(keys) {
			j.Violate(truth.ops, "window %d has about %d keys, the log %d", row.Window, row.Uniques, keys)
		}
	}
}

// reads compares what was read with the log in the end: until then counts only grow. Each key in a
// read is a case; one that is beyond the bound more often in the same windows is so once. A run in
// which hardly any read shows anything is left open; few are enough: consumers may be far behind.
func reads(j judged) {
	c, good := j.promised()
	table, ends := API(), map[TopRequest]group{}
	m, shown, missed := check.Mostly{Run: j.Run, Share: c.Misses}, map[bool]int{}, map[TopRow]bool{}
	for _, rec := range j.truth.reads {
		if rec.Outcome != history.OK {
			continue
		}
		ops := []uint64{rec.Op.ID}
		req, err := api.RequestOf[TopRequest](table, rec.Op)
		var reply Top
		if err = errors.Join(err, json.Unmarshal(rec.Reply.Body, &reply)); err != nil {
			j.Violate(ops, "a reply cannot be read: %v", err)
			continue
		}
		j.Checked(1)
		req.ID = 0
		e, known := ends[req]
		if !known {
			e = j.group(req.Window, req.Span, req.K)
			ends[req] = e
		}
		if reply.Total > e.truth.n {
			j.Violate(ops, "%v was read with %d events, and the log has %d in the end", e, reply.Total,
				e.truth.n)
		}
		listed := j.listed(ops, fmt.Sprintf("what was read of %v", e), req.K, reply.Items)
		sum := int64(0)
		for _, it := range reply.Items {
			sum += it.Count
		}
		over := c.Over * float64(e.truth.n) * float64(len(reply.Items))
		if good && c.Misses == 0 && float64(sum) > float64(reply.Total)+over+0.5 ||
			len(reply.Items) > 0 && reply.Items[0].Count > reply.Total {
			j.Violate(ops, "%v was read with %d events, and with counts in the top of %d in all, the first "+
				"of %d", e, reply.Total, sum, reply.Items[0].Count)
		}
		shown[len(reply.Items) > 0 && reply.Total > 0]++
		if good {
			j.near(&m, e, req.K, reply, listed, func(key uint64, format string, args ...any) {
				if row := (TopRow{Window: e.window, Span: e.span, Key: key}); !missed[row] {
					missed[row] = true
					m.Miss(ops, false, format, args...)
				}
			})
		}
	}
	j.Need(shown[true] > 0 && 19*shown[true] >= shown[false], "%d reads had events and keys, and %d "+
		"had none; a twentieth is needed", shown[true], shown[false])
	m.End()
}

// near compares the counts of a read with those in the end, of which the read lacks no more than
// the events that were not counted. As in absent, a key that was above the last one by more than
// that and the bound must have been in it.
func (j judged) near(
	m *check.Mostly, e group, k int, reply Top, listed map[uint64]bool,
	miss func(key uint64, format string, args ...any),
) {
	c, n := j.Contract, float64(e.truth.n)
	uncounted := max(0, n-float64(reply.Total))
	for _, it := range reply.Items {
		m.Cases++
		was := e.truth.of(it.Key)
		switch count := float64(it.Count); {
		case count > float64(was)+c.Over*n+0.5:
			miss(it.Key, "key %d was read in %v with a count of %d, and occurred %d times in the end: "+
				"more than %v of %d events too high", it.Key, e, it.Count, was, c.Over, e.truth.n)
		case count < float64(was)-uncounted-c.Under*n-0.5:
			miss(it.Key, "key %d was read in %v with a count of %d, and occurred %d times in the end: "+
				"more than %v of %d events too low, of which %d were counted", it.Key, e, it.Count, was,
				c.Under, e.truth.n, reply.Total)
		}
	}
	e.absent(m, k, uncounted+(c.Under+c.Over)*n, listed, func(it sketch.Item, _ float64) {
		miss(it.Key, "key %d occurred %d times in %v in the end, and was not in the top that was read "+
			"of %d events of %d", it.Key, it.Count, e, reply.Total, e.truth.n)
	})
}
