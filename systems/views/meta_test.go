package views

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// smallParams is a pipeline whose rules all bite.
func smallParams() Params {
	p := DefaultParams()
	p.Videos, p.Users, p.VideoSkew = 5, 30, keys.SkewHot
	p.EventRate, p.TimeScale = 5, 500
	p.Creators, p.Bots, p.Farm, p.FarmAddresses = 0.05, 0.1, 0.2, 2
	p.ViewReads, p.IPViews = 1, 4
	p.VisibleWithin = sut.Duration(200 * time.Millisecond)
	p.SessionTimeout = sut.Duration(time.Second)
	p.RulesAfter, p.ReprocessAfter = 150, 100
	return p
}

// goodRun is a run that every invariant accepts.
func goodRun(t tb) *evidence {
	t.Helper()
	return runOf(t, 1, smallParams(), trouble{}, false, 300)
}

// drawRun is any run of a correct pipeline with any amount of trouble.
func drawRun(t *rapid.T) *evidence {
	share := rapid.Float64Range(0, 1)
	p := smallParams()
	p.Videos = rapid.IntRange(2, 6).Draw(t, "videos")
	p.Users = rapid.IntRange(1, 60).Draw(t, "users")
	p.VideoSkew = rapid.SampledFrom([]string{"uniform", "zipf", "hot"}).Draw(t, "skew")
	p.Brief, p.Return = share.Draw(t, "brief"), share.Draw(t, "return")
	p.Farm = share.Draw(t, "farm") / 2
	p.IPViews = rapid.IntRange(1, 6).Draw(t, "ip views")
	p.RulesAfter = rapid.IntRange(0, 90).Draw(t, "rules after")
	p.ReprocessAfter = rapid.IntRange(91, 200).Draw(t, "reprocess after")
	tr := trouble{suttest.DrawTrouble(t), rapid.Float64Range(0, 0.15).Draw(t, "forwarded twice")}
	return runOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.Bool().Draw(t, "composite"),
		rapid.IntRange(0, 150).Draw(t, "sessions"))
}

// proof is what the judges of views are proved by.
func proof() suttest.Proof[*evidence] {
	p := suttest.Proof[*evidence]{Any: drawRun, Judge: (*evidence).judge, Judged: unfinished,
		Parts: func(e *evidence) ([]history.Record, any) { return e.records, &e.audit },
		Absent: map[string][]string{
			"none is refused": {"invent heartbeat", "invent reprocess", "invent views"},
			"one is answered": {"exchange answers to reprocess"},
			"the rules change after more sessions": {"exchange version of rules",
				"exchange min_watch_ms of rules", "exchange repeat_window_ms of rules",
				"exchange ip_views of rules", "exchange ip_window_ms of rules"},
		},
		Some: func(t *rapid.T) *evidence {
			tr := trouble{suttest.Trouble{LostRequest: 0.02, LostReply: 0.02, Late: 0.02, Dropped: 0.02},
				0.02}
			return runOf(t, rapid.Uint64().Draw(t, "seed"), smallParams(), tr,
				rapid.Bool().Draw(t, "composite"), 120)
		},
		Whole: func(t suttest.TB, seed uint64) *evidence {
			return runOf(t, seed/2, smallParams(), trouble{forwardedTwice: 0.05}, seed%2 == 1, 300)
		},
	}
	p.Unnoticed = map[string][]string{
		"its body says all": {"change client of heartbeat",
			"change key of heartbeat"},
		"the end of a transaction has an offset": {"raise next_offset of progress"},
		"nobody need be told":                    {"deny reprocess", "deny views"},
		"anybody may ask": {"change client of reprocess", "change key of reprocess",
			"change client of views"},
		"it says the same": {"double of rules", "double of progress", "double of generations",
			"exchange generation of generations"},
	}
	for _, inv := range Invariants(DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// TestJudges: the judges are sound, a run without trouble decides all of them wherever the
// videos lie, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 20, slices.Concat(decisionCorruptions(), logCorruptions(),
		timeCorruptions()))
	suttest.Clauses(t, proof(), func() *evidence { return goodRun(t) }, slices.Concat(forgottenCases(),
		stageCases(), heartbeatCases(), askedCases(), timeCases(), auditCases()))
}

// corruption is one thing that a correct pipeline never does.
type corruption suttest.Corruption[*evidence]

// picker draws one of so many.
type picker = func(n int) int

// change changes evidence. It returns false if there is nothing to change.
type change = func(*evidence, picker) bool

// one changes one element of a list, of those that fit.
func one[T any](list func(*evidence) []T, fits func(*T) bool, do func(*evidence, *T)) change {
	return func(e *evidence, pick picker) bool {
		return suttest.Change(list(e), pick, fits, func(found *T) { do(e, found) })
	}
}

func dropRows(e *evidence) []DropAudit         { return e.audit.Drops }
func countRows(e *evidence) []CountAudit       { return e.audit.Counts }
func progressRows(e *evidence) []ProgressAudit { return e.audit.Progress }
func recordsOf(e *evidence) []history.Record   { return e.records }

func anyOf[T any](*T) bool { return true }

// acked are the heartbeats that were acknowledged, sawViews the reads that returned a view.
func acked(r *history.Record) bool {
	return r.Op.Kind == KindHeartbeat && r.Outcome == history.OK
}

func sawViews(r *history.Record) bool {
	return r.Op.Kind == KindViews && r.Outcome == history.OK && r.Reply.Value > 0
}

// relabel says of an event that was turned away for one reason that it was for another one.
func relabel(from, to string) change {
	return one(dropRows, func(d *DropAudit) bool { return d.Reason == from },
		func(e *evidence, d *DropAudit) {
			d.Events--
			e.audit.Drops = append(e.audit.Drops, DropAudit{Partition: d.Partition, Video: d.Video,
				Reason: to, Events: 1})
		})
}

// forwardAlso puts an event that was turned away into valid_events, at its place.
func (e *evidence) forwardAlso(p int, l Logged) {
	l.Source = l.In()
	at, _ := slices.BinarySearchFunc(e.valid[p], l.Source, func(v Logged, source int64) int {
		return int(v.Source - source)
	})
	e.valid[p] = slices.Insert(e.valid[p], at, l)
	e.renumber(p)
}

func (e *evidence) renumber(p int) {
	for i := range e.valid[p] {
		e.valid[p][i].Offset = int64(i)
	}
	e.recount()
}

// alsoView makes a view of an event that was turned away for a reason.
func alsoView(reason string) change {
	return func(e *evidence, pick picker) bool {
		var fit []place
		for p, reasons := range e.reasons {
			for i, r := range reasons {
				if r == reason {
					fit = append(fit, place{int32(p), int64(i)})
				}
			}
		}
		if len(fit) > 0 {
			at := fit[pick(len(fit))]
			e.forwardAlso(int(at.partition), e.watch[at.partition][at.in])
		}
		return len(fit) > 0
	}
}

func decisionCorruptions() (list []corruption) {
	for _, reason := range Reasons() {
		list = append(list, corruption{"one counts that is " + reason, ExactCounts, alsoView(reason)})
	}
	list = append(list, []corruption{
		{"a view is turned away", ExactCounts, turnAway},
		{"a view of nothing", ExactCounts, inLog(func(e *evidence, p int, last Logged) {
			last.Offset++
			e.forwardAlso(p, last)
		})},
		{"a view of another event", ExactCounts, func(e *evidence, pick picker) bool {
			return suttest.Change(e.valid[pick(len(e.valid))], pick, anyOf[Logged],
				func(v *Logged) { v.User += "x" })
		}},
	}...)
	for _, pair := range [][2]string{
		{Bot, Short}, {Creator, Short}, {Short, Bot}, {Continued, Duplicate}, {Repeat, Continued},
		{IPRate, Continued},
	} {
		list = append(list, corruption{pair[0] + " is called " + pair[1], ExactCounts,
			relabel(pair[0], pair[1])})
	}
	return list
}

// inLog does something with the last event of a partition.
func inLog(do func(e *evidence, p int, last Logged)) change {
	return func(e *evidence, pick picker) bool {
		p := pick(len(e.watch))
		if len(e.watch[p]) == 0 {
			return false
		}
		do(e, p, e.watch[p][len(e.watch[p])-1])
		return true
	}
}

// log adds an event to the end of a partition.
func (e *evidence) log(p int, l Logged) {
	l.Offset = int64(len(e.watch[p]))
	e.watch[p] = append(e.watch[p], l)
}

// turnAway takes a view out that is the only one of its user, and calls it a repeat.
func turnAway(e *evidence, pick picker) bool {
	n := map[[2]string]int{}
	for _, list := range e.valid {
		for _, v := range list {
			n[[2]string{v.User, v.Video}]++
		}
	}
	for p, list := range e.valid {
		for i, v := range list {
			if n[[2]string{v.User, v.Video}] != 1 {
				continue
			}
			e.valid[p] = slices.Delete(list, i, i+1)
			e.renumber(p)
			e.audit.Drops = append(e.audit.Drops, DropAudit{Partition: int32(p),
				Video: v.Video, Reason: Repeat, Events: 1})
			return true
		}
	}
	return false
}

func logCorruptions() []corruption {
	return []corruption{
		{"acknowledged elsewhere", AckedInLog, one(recordsOf, acked,
			func(_ *evidence, r *history.Record) { r.Reply.Key = "3/999999/0" })},
		{"acknowledged as another", AckedInLog, one(recordsOf, acked,
			func(e *evidence, r *history.Record) {
				if at, err := ParsePosition(r.Reply.Key); err == nil {
					e.watch[at.Partition][at.Offset].WatchedMS++
				}
			})},
		{"an event that nobody sent", AckedInLog, inLog(func(e *evidence, p int, last Logged) {
			last.ID = 1 << 40
			e.log(p, last)
		})},
		{"a heartbeat of another user", AckedInLog, inLog(func(e *evidence, p int, last Logged) {
			last.User += "x"
			e.log(p, last)
		})},
		{"a session in two partitions", AckedInLog, inLog(func(e *evidence, p int, last Logged) {
			e.log((p+1)%partitions, last)
		})},
		{"an event that was refused", AckedInLog, one(recordsOf, acked,
			func(e *evidence, refused *history.Record) {
				for i := range e.records {
					if r := &e.records[i]; r.Op.ID == refused.Op.ID {
						r.Outcome, r.Reply = history.Refused, history.Reply{}
					}
				}
			})},
		{"the counter did not come to the end", OnceInEffect, one(progressRows,
			func(s *ProgressAudit) bool { return s.Stage == "counter" && s.Next > 0 },
			func(_ *evidence, s *ProgressAudit) { s.Next-- })},
		{"the newest generation is retired", OnceInEffect, func(e *evidence, _ picker) bool {
			e.audit.Generations[len(e.audit.Generations)-1].Retired = true
			return true
		}},
		{"a retired generation counted twice", ExactCounts, func(e *evidence, pick picker) bool {
			return e.retire() && one(countRows, func(c *CountAudit) bool { return c.Generation == 2 },
				func(_ *evidence, c *CountAudit) { c.Views *= 2 })(e, pick)
		}},
		{"readers see no successor of a retired generation", OnceInEffect,
			func(e *evidence, _ picker) bool {
				if !e.retire() {
					return false
				}
				e.audit.Generations[1].Live, e.audit.Generations[2].Live = true, false
				return true
			}},
		{"an offset is missing", OnceInEffect, func(e *evidence, _ picker) bool {
			p := slices.IndexFunc(e.watch, func(l []Logged) bool { return len(l) > 2 })
			if p < 0 {
				return false
			}
			e.watch[p] = slices.Delete(e.watch[p], 1, 2)
			return true
		}},
	}
}

func timeCorruptions() []corruption {
	// later changes two reads of one video, of which one was sent after the other returned.
	later := func(do func(first, second *history.Record)) change {
		return func(e *evidence, _ picker) bool {
			for i := range e.records {
				for k := range e.records {
					a, b := &e.records[i], &e.records[k]
					if sawViews(a) && sawViews(b) && a.Op.Key == b.Op.Key && a.End < b.Start {
						do(a, b)
						return true
					}
				}
			}
			return false
		}
	}
	return []corruption{
		{"a count goes down", MonotoneCounts, later(func(a, b *history.Record) {
			b.Reply.Value = a.Reply.Value - 1
		})},
		{"a reader goes back a generation", MonotoneCounts,
			later(func(a, _ *history.Record) { a.Reply.Key = "2" })},
		{"a generation that never went live", MonotoneCounts, one(recordsOf, sawViews,
			func(_ *evidence, r *history.Record) { r.Reply.Key = "7" })},
		{"a look sees nothing", Fresh, blind},
	}
}

// judgedAnew makes views of events whose session has one before, in stretches of
// one partition that do not overlap, and takes them off what was turned away. It
// returns how many it found, at most so many.
func (e *evidence) judgedAnew(most int) (found int) {
	for p, list := range e.watch {
		found = 0
		views1, end := map[string]Logged{}, int64(-1)
		for _, v := range e.valid[p] {
			views1[v.Session] = v
		}
		var chosen []Logged
		for _, l := range list {
			v, is := views1[l.Session]
			if is && l.ID > v.ID && v.Source >= end && l.Rules == v.Rules && found < most {
				chosen, end, found = append(chosen, l), l.In(), found+1
			}
		}
		if found < most {
			continue
		}
		for _, l := range chosen {
			e.forwardAlso(p, l)
			e.notTurnedAway(p, l.Video, Continued)
		}
		return found
	}
	return found
}

func (e *evidence) notTurnedAway(p int, video, reason string) {
	for i := range e.audit.Drops {
		d := &e.audit.Drops[i]
		if d.Partition == int32(p) && d.Video == video && d.Reason == reason {
			d.Events--
		}
	}
}

// repeatsAnew makes a view of a repeat, which was then not turned away.
func repeatsAnew(e *evidence, _ picker) bool {
	for p, list := range e.reasons {
		if i := slices.Index(list, Repeat); i >= 0 {
			e.forwardAlso(p, e.watch[p][i])
			e.notTurnedAway(p, e.watch[p][i].Video, Repeat)
			return true
		}
	}
	return false
}

// retire ends the second generation half way, because a third one took its
// place. It returns false if there was no second one.
func (e *evidence) retire() bool {
	a := &e.audit
	if len(a.Generations) != 2 {
		return false
	}
	a.Generations = []GenerationAudit{a.Generations[0], {Generation: 2, Retired: true},
		{Generation: 3, Live: true}}
	a.Counts, a.Totals = []CountAudit{}, []TotalAudit{}
	for i := range a.Progress {
		if s := &a.Progress[i]; s.Generation == 2 {
			a.Progress = append(a.Progress, ProgressAudit{Stage: s.Stage, Generation: 3,
				Partition: s.Partition, Next: s.Next})
			a.Progress[i].Next /= 2
		}
	}
	for _, g := range a.Generations {
		e.count(g.Generation)
	}
	return true
}
