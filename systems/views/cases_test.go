package views

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
)

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

// verdictCase is what becomes of the good run by a change.
type verdictCase suttest.Case[*evidence]

// lacks ends the name of a case in which something has not been done yet.
const lacks = " - not finished"

// unfinished checks that what is not finished yet, and nothing else, is told as such.
func unfinished(t *testing.T, c suttest.Case[*evidence], v check.Verdict) {
	if c.Want == fail && strings.HasSuffix(c.Name, lacks) != (v.Unfinished == v.Count) {
		t.Errorf("%d of %d violations are of what was not finished", v.Unfinished, v.Count)
	}
}

// surely makes a change to the good run, which must have something to change.
func surely(do change) func(*evidence) {
	return func(e *evidence) {
		if !do(e, func(int) int { return 0 }) {
			panic("the good run has nothing to change")
		}
	}
}

// fault adds a fault from the beginning of the run until a moment.
func (e *evidence) fault(text string, end time.Duration) {
	e.windows = append(e.windows, history.Window{Kind: history.FaultWindow,
		Name: strconv.Itoa(len(e.windows)), Fault: text, End: end})
}

// forgottenCases: what Redis has lost is not held against the filter, and nothing else is
// excused by it. After a loss sessions are judged anew, a window may have as many views again,
// and an event may have been turned away for others that were turned away then.
func forgottenCases() (list []verdictCase) {
	const inv, limit = ExactCounts, "the limit is"
	for _, c := range []struct {
		name, fault, log string
		anew, losses     int
		end              time.Duration
		want             check.Status
		says             string
	}{
		{"a wipe", "kill redis wipe", "yes", 1, 1, time.Minute, pass, ""},
		{"no log", "kill redis", "no", 1, 1, time.Minute, pass, ""},
		{"a loss of power", "power-loss redis 1s", "yes", 1, 1, time.Minute, pass, ""},
		{"two losses", "kill redis wipe", "yes", 2, 2, time.Minute, pass, "Redis lost its data 2 times"},
		{"the log has it all", "kill redis", "yes", 1, 1, time.Minute, fail, limit},
		{"a pause", "pause redis", "no", 1, 1, time.Minute, fail, limit},
		{"another store", "kill postgres", "no", 1, 1, time.Minute, fail, limit},
		{"nothing is in Redis", "kill redis wipe", Unused, 1, 1, time.Minute, fail, limit},
		{"over before the session began", "kill redis wipe", "yes", 1, 1, 1, fail, "counts as a view"},
		{"forgotten too often", "kill redis wipe", "yes", 2, 1, time.Minute, fail, "forgotten 2 times"},
		{"nothing was judged anew", "kill redis wipe", "yes", 0, 1, time.Minute, pass, ""},
	} {
		list = append(list, verdictCase{inv, c.name, c.want, func(e *evidence) {
			e.audit.RedisLog = c.log
			if n := e.judgedAnew(c.anew); n != c.anew {
				panic(fmt.Sprintf("the good run has %d stretches", n))
			}
			for range c.losses {
				e.fault(c.fault, c.end)
			}
		}, c.says})
	}
	for _, c := range []struct {
		name string
		end  time.Duration
		do   change
		want check.Status
		says string
	}{
		{"a repeat counts", time.Minute, repeatsAnew, pass, "views count beyond the rules"},
		{"a repeat counts and is turned away", time.Minute, alsoView(Repeat), fail, "rejected"},
		{"a view is turned away that was sent after the loss", 1, turnAway, fail, "but does not count"},
		{"bots count", time.Minute, relabel(Bot, Short), fail, "as bot"},
		{"judged events are turned away twice", time.Minute, relabel(Bot, Repeat), fail,
			"because a window was full"},
		{"windows were full, and it is denied", time.Minute, relabel(Repeat, Continued), fail,
			"because a window was full"},
	} {
		list = append(list, verdictCase{inv, "after a loss " + c.name, c.want, func(e *evidence) {
			surely(c.do)(e)
			e.fault("kill redis wipe", c.end)
		}, c.says})
	}
	return list
}

// stageCases: what a stage has not come to is not finished; what is missing although it came to
// it is lost. A generation that ended half way, because a later one took its place, is no error.
func stageCases() (list []verdictCase) {
	filter := func(e *evidence) *ProgressAudit {
		return suttest.PickFrom(e.audit.Progress, func(int) int { return 0 },
			func(s *ProgressAudit) bool { return s.Stage == "filter" && s.Next > 0 })
	}
	// more has an event at the end of a partition.
	more := func(e *evidence) {
		p := filter(e).Partition
		e.log(int(p), e.watch[p][len(e.watch[p])-1])
	}
	empty := func(e *evidence) {
		e.watch, e.valid = make([][]Logged, partitions), make([][]Logged, partitions)
		e.audit.Drops, e.audit.Progress = []DropAudit{}, nil
		e.recount()
	}
	for _, name := range proof().Invariants {
		list = append(list, verdictCase{name, "a generation was retired", pass, func(e *evidence) {
			surely(func(e *evidence, _ picker) bool { return e.retire() })(e)
		}, ""})
	}
	return append(list, []verdictCase{
		{OnceInEffect, "the filter is behind" + lacks, fail, more, "which ends at"},
		{OnceInEffect, "it came to it and did nothing", fail, func(e *evidence) {
			more(e)
			filter(e).Next++
		}, "unaccounted for"},
		{OnceInEffect, "it is behind the end of a transaction", pass, func(e *evidence) {
			filter(e).Next++
		}, ""},
		{OnceInEffect, "one is turned away too few", fail, func(e *evidence) {
			e.audit.Drops[0].Events--
		}, "unaccounted for"},
		{OnceInEffect, "readers do not see the recount" + lacks, fail, func(e *evidence) {
			e.audit.Generations[1].Live = false
		}, "readers do not see generation 2"},
		{OnceInEffect, "nothing happened", maybe, empty, "the log is empty"},
		{AckedInLog, "an acknowledged one is not reached" + lacks, fail, func(e *evidence) {
			filter(e).Next = 0
		}, "the filter only reached offset 0"},
		{ExactCounts, "readers see less than the shards" + lacks, fail, func(e *evidence) {
			e.audit.Totals[0].Shown--
		}, "and readers see"},
		{ExactCounts, "a window has one too few", fail, func(e *evidence) {
			e.audit.Counts[0].Views--
		}, "views are counted, the log has"},
		{ExactCounts, "nothing happened", maybe, empty, "no event was a view"},
	}...)
}

// heartbeatCases: one that was acknowledged must have been sent again and acknowledged again, if
// the run sends any twice, and none may be denied then.
func heartbeatCases() []verdictCase {
	const inv = AckedInLog
	// second refuses every attempt at a heartbeat that was acknowledged before.
	second := func(code string) func(*evidence) {
		return func(e *evidence) {
			before := map[uint64]bool{}
			for i := range e.records {
				rec := &e.records[i]
				if !acked(rec) {
					continue
				}
				if before[rec.Op.ID] {
					rec.Outcome, rec.Code, rec.Reply = history.Refused, code, history.Reply{}
				}
				before[rec.Op.ID] = true
			}
		}
	}
	return []verdictCase{
		{inv, "the second was turned away", maybe, second("overloaded"), "was acknowledged again"},
		{inv, "nothing is sent again", pass, func(e *evidence) {
			second("overloaded")(e)
			e.params.Resend = 0
		}, ""},
		{inv, "the second was denied", fail, second("unknown_video"),
			"as if there were no such thing"},
	}
}

// askedCases: what is asked for is done, and is new.
func askedCases() []verdictCase {
	const inv = ExactCounts
	// asked changes the answer to the one request of a kind.
	asked := func(kind string, do func(*evidence, *history.Record)) func(*evidence) {
		return surely(one(recordsOf, func(r *history.Record) bool { return r.Op.Kind == kind }, do))
	}
	// third puts the new rules into force as a version that no event names, at a moment.
	third := func(at time.Duration) func(*evidence) {
		return asked(KindRules, func(e *evidence, r *history.Record) {
			rules := e.audit.Rules[1]
			rules.Version, r.Reply.Value, e.params.RulesReload = 3, 3, 1
			e.audit.Rules, r.Start, r.End = append(e.audit.Rules, rules), at, at
		})
	}
	return []verdictCase{
		{inv, "no recount may be asked for", maybe, asked(KindReprocess,
			func(_ *evidence, r *history.Record) { r.Outcome = history.Refused }),
			"every reprocess was refused"},
		{inv, "a recount that was there before", fail, asked(KindReprocess,
			func(_ *evidence, r *history.Record) { r.Reply.Value = 1 }),
			"generation 1 was begun, and is not there, or was before"},
		{inv, "an event of rules that do not exist", fail, func(e *evidence) {
			e.audit.Rules = e.audit.Rules[:1]
		}, "names version 2 of the rules"},
		{inv, "new rules decide nothing", maybe, third(0), "no event is decided by version 3"},
		{inv, "new rules come late", pass, third(time.Minute), ""},
	}
}

// blind lets the last look see nothing.
func blind(e *evidence, _ picker) bool {
	last := &e.samples[len(e.samples)-1]
	saw := !strings.HasPrefix(string(last.Body), `{"shown":0,`)
	last.Body = []byte(`{"shown":0}`)
	return saw
}

// timeCases: the promise is the same however long viewers had to wait; after a fault a look may
// be late for a while.
func timeCases() []verdictCase {
	return []verdictCase{
		{Fresh, "late, and a read took a minute", fail, func(e *evidence) {
			surely(blind)(e)
			e.records = append(e.records, history.Record{Seq: uint64(len(e.records)),
				Op:      history.Op{ID: 1 << 41, Kind: KindViews, Key: "video-1"},
				Outcome: history.OK, Reply: history.Reply{Key: "1"}, End: time.Minute})
		}, "readers saw 0 views"},
		{Fresh, "late soon after a fault", pass, func(e *evidence) {
			surely(blind)(e)
			e.fault("pause kafka", e.samples[len(e.samples)-1].From-900*ms)
			e.windows[0].Start = e.windows[0].End - 100*ms
		}, "1 within"},
		{Fresh, "late long after a fault", fail, func(e *evidence) {
			surely(blind)(e)
			e.fault("pause kafka", ms)
		}, "readers saw 0 views"},
		{Fresh, "nobody looked", maybe, func(e *evidence) { e.samples = nil }, "were not sampled"},
		{MonotoneCounts, "more was read than is there", fail, surely(one(recordsOf, sawViews,
			func(_ *evidence, r *history.Record) { r.Reply.Value += 1000 })), "more than its final count"},
		{MonotoneCounts, "nobody read", maybe, func(e *evidence) { e.records = nil },
			"no read returned a view"},
	}
}

// auditCases: an audit that cannot be read decides nothing.
func auditCases() (list []verdictCase) {
	for _, raw := range []string{"", "null", "{", "{}", `{"watch_events":{"partitions":1}}`} {
		for _, name := range proof().Invariants {
			list = append(list, verdictCase{name, "the audit is " + raw, maybe, func(e *evidence) {
				e.text = &raw
			}, "the final audit cannot be read"})
		}
	}
	return list
}
