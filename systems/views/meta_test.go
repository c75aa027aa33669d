package views_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/views"
)

// smallParams is a pipeline whose rules all bite.
func smallParams() views.Params {
	p := views.DefaultParams()
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

// TestGoodRunHolds: without trouble all is decided, whatever the seed and
// wherever the videos lie.
func TestGoodRunHolds(t *testing.T) {
	for seed := range uint64(10) {
		for _, composite := range []bool{false, true} {
			e := runOf(t, seed, smallParams(), trouble{forwardedTwice: 0.05}, composite, 300)
			for name, v := range e.judge(t) {
				if v.Status != check.Held {
					t.Errorf("seed %d, composite %v: %s is %s: %s", seed, composite, name, v.Status, v.Reason)
				}
			}
		}
	}
}

// TestCorrectPipelineIsNeverBroken: the judges are sound.
func TestCorrectPipelineIsNeverBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
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
		mishap := rapid.Float64Range(0, 0.15)
		tr := trouble{suttest.DrawTrouble(t), mishap.Draw(t, "forwarded twice")}
		e := runOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.Bool().Draw(t, "composite"),
			rapid.IntRange(0, 150).Draw(t, "sessions"))
		for name, v := range e.judge(t) {
			if v.Status == check.Broken {
				t.Fatalf("%s is broken: %+v", name, v.Violations)
			}
		}
	})
}

// picker draws one of so many.
type picker = func(n int) int

// change changes evidence. It returns false if there is nothing to change.
type change = func(*evidence, picker) bool

// corruption is one thing that a correct pipeline never does.
type corruption struct {
	name, breaks string
	do           change
}

// one changes one element of a list, of those that fit if that says anything.
func one[T any](list func(*evidence) []T, fits func(*T) bool, do func(*evidence, *T)) change {
	return func(e *evidence, pick picker) bool {
		var fit []*T
		for i, all := 0, list(e); i < len(all); i++ {
			if fits == nil || fits(&all[i]) {
				fit = append(fit, &all[i])
			}
		}
		if len(fit) > 0 {
			do(e, fit[pick(len(fit))])
		}
		return len(fit) > 0
	}
}

// TestCorruptionsAreCaught: each clause refuses a run that differs from a good
// one in one thing, also in the midst of unknown outcomes.
func TestCorruptionsAreCaught(t *testing.T) {
	for _, c := range slices.Concat(decisionCorruptions(), countCorruptions(), logCorruptions(),
		timeCorruptions()) {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			if !c.do(e, func(int) int { return 0 }) {
				t.Fatal("the good run has nothing to corrupt")
			}
			if v := e.judge(t)[c.breaks]; v.Status != check.Broken {
				t.Errorf("good run: %s is %s: %s", c.breaks, v.Status, v.Reason)
			}
			rapid.Check(t, func(t *rapid.T) {
				tr := trouble{suttest.Trouble{LostRequest: 0.02, LostReply: 0.02, Late: 0.02,
					Dropped: 0.02}, 0.02}
				e := runOf(t, rapid.Uint64().Draw(t, "seed"), smallParams(), tr,
					rapid.Bool().Draw(t, "composite"), 120)
				n := 0
				pick := func(most int) int {
					n++
					return rapid.IntRange(0, most-1).Draw(t, "which")
				}
				if !c.do(e, pick) {
					return
				}
				if v := e.judge(t)[c.breaks]; v.Status != check.Broken || v.Count == 0 {
					t.Fatalf("%s is %s: %s", c.breaks, v.Status, v.Reason)
				}
			})
		})
	}
}

func dropsOf(e *evidence) []views.DropAudit        { return e.audit.Drops }
func countsOf(e *evidence) []views.CountAudit      { return e.audit.Counts }
func totalsOf(e *evidence) []views.TotalAudit      { return e.audit.Totals }
func progressOf(e *evidence) []views.ProgressAudit { return e.audit.Progress }
func recordsOf(e *evidence) []history.Record       { return e.records }

// acked are the heartbeats that were acknowledged, counted the reads that returned a view.
func acked(r *history.Record) bool {
	return r.Op.Kind == views.KindHeartbeat && r.Outcome == history.OK
}

func counted(r *history.Record) bool {
	return r.Op.Kind == views.KindViews && r.Outcome == history.OK && r.Reply.Value > 0
}

// relabel says of an event that was turned away for one reason that it was for
// another one.
func relabel(from, to string) change {
	return one(dropsOf, func(d *views.DropAudit) bool { return d.Reason == from },
		func(e *evidence, d *views.DropAudit) {
			d.Events--
			e.audit.Drops = append(e.audit.Drops, views.DropAudit{Partition: d.Partition, Video: d.Video,
				Reason: to, Events: 1})
		})
}

// recount makes the tables follow valid_events, so that only the decisions are
// wrong.
func (e *evidence) recount() {
	e.audit.Counts, e.audit.Totals = []views.CountAudit{}, []views.TotalAudit{}
	for i := range e.audit.Progress {
		if s := &e.audit.Progress[i]; s.Stage == "counter" {
			s.Next = int64(len(e.valid[s.Partition]))
		}
	}
	for _, g := range e.audit.Generations {
		e.count(g.Generation)
	}
}

// count adds what a generation has counted by its progress to the tables.
func (e *evidence) count(generation int64) {
	counts, totals := map[views.CountAudit]int64{}, map[string]int64{}
	for _, s := range e.audit.Progress {
		if s.Stage != "counter" || s.Generation != generation {
			continue
		}
		last := int64(-1)
		for _, v := range e.valid[s.Partition][:s.Next] {
			if v.Source <= last {
				continue
			}
			last = v.Source
			counts[views.CountAudit{Generation: generation, Video: v.Video,
				WindowMS: v.TimeMS - v.TimeMS%e.audit.CountWindowMS}]++
			totals[v.Video]++
		}
	}
	for c, n := range counts {
		c.Views = n
		e.audit.Counts = append(e.audit.Counts, c)
	}
	for video, n := range totals {
		e.audit.Totals = append(e.audit.Totals, views.TotalAudit{Generation: generation,
			Video: video, Views: n, Shown: n})
	}
}

// forwardAlso puts an event that was turned away into valid_events, at its
// place.
func (e *evidence) forwardAlso(p int, l views.Logged) {
	l.Source = l.In()
	at, _ := slices.BinarySearchFunc(e.valid[p], l.Source, func(v views.Logged, source int64) int {
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

// alsoView makes a view of an event that is none.
func alsoView(fits func(e *evidence, l *views.Logged) bool) change {
	return func(e *evidence, pick picker) bool {
		var fit [][2]int
		for p, list := range e.watch {
			for i := range list {
				if fits(e, &list[i]) {
					fit = append(fit, [2]int{p, i})
				}
			}
		}
		if len(fit) > 0 {
			found := fit[pick(len(fit))]
			e.forwardAlso(found[0], e.watch[found[0]][found[1]])
		}
		return len(fit) > 0
	}
}

func decisionCorruptions() []corruption {
	bots := views.RulesOf(views.DefaultParams()).Blocked
	list := []corruption{
		{"a bot counts", views.ExactCounts, alsoView(func(_ *evidence, l *views.Logged) bool {
			return slices.Contains(bots, l.IP)
		})},
		{"a creator counts", views.ExactCounts, alsoView(func(e *evidence, l *views.Logged) bool {
			return l.User == e.audit.Creators[l.Video]
		})},
		{"a short watch counts", views.ExactCounts, alsoView(func(_ *evidence, l *views.Logged) bool {
			return l.WatchedMS < 10_000
		})},
		{"a session counts twice", views.ExactCounts, secondOfSession},
		{"a repeat counts", views.ExactCounts, overfill(true)},
		{"an address counts too often", views.ExactCounts, overfill(false)},
		{"a view is turned away", views.ExactCounts, turnAway},
		{"an event of another rule version", views.ExactCounts, func(e *evidence, _ picker) bool {
			rules := &e.audit.Rules[0]
			exactly := func(l views.Logged) bool {
				return l.Rules == rules.Version && l.WatchedMS == rules.MinWatchMS
			}
			for _, list := range e.valid {
				if slices.ContainsFunc(list, exactly) {
					rules.MinWatchMS++
					return true
				}
			}
			return false
		}},
		{"a view of nothing", views.ExactCounts, func(e *evidence, pick picker) bool {
			p := pick(len(e.watch))
			if len(e.watch[p]) == 0 {
				return false
			}
			l := e.watch[p][len(e.watch[p])-1]
			l.Offset++
			e.forwardAlso(p, l)
			return true
		}},
		{"a view of another event", views.ExactCounts, func(e *evidence, pick picker) bool {
			p := pick(len(e.valid))
			if len(e.valid[p]) == 0 {
				return false
			}
			e.valid[p][pick(len(e.valid[p]))].User += "x"
			return true
		}},
	}
	for _, pair := range [][2]string{
		{views.Bot, views.Short}, {views.Creator, views.Short}, {views.Short, views.Bot},
		{views.Continued, views.Duplicate}, {views.Repeat, views.Continued},
		{views.IPRate, views.Continued},
	} {
		list = append(list, corruption{pair[0] + " is called " + pair[1], views.ExactCounts,
			relabel(pair[0], pair[1])})
	}
	return list
}

// secondOfSession makes a view of an event whose session has one.
func secondOfSession(e *evidence, pick picker) bool {
	views1 := map[string]uint64{}
	for _, list := range e.valid {
		for _, v := range list {
			views1[v.Session] = v.ID
		}
	}
	return alsoView(func(_ *evidence, l *views.Logged) bool {
		first, is := views1[l.Session]
		return is && l.ID > first
	})(e, pick)
}

// overfill makes a view of the candidate of a session that was turned away
// because a window was full: its user's, or its address's.
func overfill(repeat bool) change {
	return func(e *evidence, pick picker) bool {
		is := map[[2]string]bool{}
		perIP, accepted := map[string]int{}, map[string]bool{}
		minute := func(l *views.Logged) string {
			return time.UnixMilli(l.TimeMS-l.TimeMS%60_000).String() + l.IP
		}
		for _, list := range e.valid {
			last := int64(-1)
			for i := range list {
				v := &list[i]
				if v.Source <= last {
					continue
				}
				last = v.Source
				is[[2]string{v.User, v.Video}], accepted[v.Session] = true, true
				perIP[minute(v)]++
			}
		}
		rules := e.audit.Rules
		tried := map[string]bool{}
		return alsoView(func(e *evidence, l *views.Logged) bool {
			r := rules[l.Rules-1]
			if accepted[l.Session] || tried[l.Session] || l.WatchedMS < r.MinWatchMS ||
				slices.Contains(r.Blocked, l.IP) || l.User == e.audit.Creators[l.Video] {
				return false
			}
			tried[l.Session] = true
			full := perIP[minute(l)] >= int(r.IPViews)
			seen := is[[2]string{l.User, l.Video}]
			if repeat {
				return seen && !full && sameWindow(e, l)
			}
			return full
		})(e, pick)
	}
}

// sameWindow: the user has a view of the video in the same five minutes.
func sameWindow(e *evidence, l *views.Logged) bool {
	for _, list := range e.valid {
		for _, v := range list {
			if v.User == l.User && v.Video == l.Video && v.TimeMS/300_000 == l.TimeMS/300_000 {
				return true
			}
		}
	}
	return false
}

// turnAway takes a view out that is the only one of its user, and calls it a
// repeat.
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
			e.audit.Drops = append(e.audit.Drops, views.DropAudit{Partition: int32(p),
				Video: v.Video, Reason: views.Repeat, Events: 1})
			return true
		}
	}
	return false
}

func countCorruptions() []corruption {
	count := func(do func(*views.CountAudit)) change {
		return one(countsOf, nil, func(_ *evidence, c *views.CountAudit) { do(c) })
	}
	total := func(do func(*views.TotalAudit)) change {
		return one(totalsOf, nil, func(_ *evidence, c *views.TotalAudit) { do(c) })
	}
	return []corruption{
		{"a window has one more", views.ExactCounts, count(func(c *views.CountAudit) { c.Views++ })},
		{"a window has one less", views.ExactCounts, count(func(c *views.CountAudit) { c.Views-- })},
		{"a view in another window", views.ExactCounts,
			count(func(c *views.CountAudit) { c.WindowMS += 10_000_000 })},
		{"a window is missing", views.ExactCounts, one(countsOf, nil,
			func(e *evidence, gone *views.CountAudit) {
				e.audit.Counts = slices.DeleteFunc(slices.Clone(e.audit.Counts),
					func(c views.CountAudit) bool { return c == *gone })
			})},
		{"a total that is not the sum", views.ExactCounts,
			total(func(c *views.TotalAudit) { c.Views++ })},
		{"readers see another total", views.ExactCounts,
			total(func(c *views.TotalAudit) { c.Shown-- })},
		{"views counted twice", views.OnceInEffect,
			count(func(c *views.CountAudit) { c.Views *= 2 })},
		{"views lost", views.OnceInEffect, count(func(c *views.CountAudit) { c.Views-- })},
	}
}

func logCorruptions() []corruption {
	progress := func(stage string, do func(*views.ProgressAudit)) change {
		return one(progressOf, func(s *views.ProgressAudit) bool {
			return s.Stage == stage && s.Next > 0
		}, func(_ *evidence, s *views.ProgressAudit) { do(s) })
	}
	less := func(s *views.ProgressAudit) { s.Next-- }
	return []corruption{
		{"acknowledged elsewhere", views.AckedInLog, one(recordsOf, acked,
			func(_ *evidence, r *history.Record) { r.Reply.Key = "3/999999/0" })},
		{"acknowledged as another", views.AckedInLog, one(recordsOf, acked,
			func(e *evidence, r *history.Record) {
				if at, err := views.ParsePosition(r.Reply.Key); err == nil {
					e.watch[at.Partition][at.Offset].WatchedMS++
				}
			})},
		{"an event that nobody sent", views.AckedInLog, func(e *evidence, _ picker) bool {
			p := slices.IndexFunc(e.watch, func(l []views.Logged) bool { return len(l) > 0 })
			if p < 0 {
				return false
			}
			l := e.watch[p][len(e.watch[p])-1]
			l.ID, l.Offset = 1<<40, l.Offset+1
			e.watch[p] = append(e.watch[p], l)
			return true
		}},
		{"an event that was refused", views.AckedInLog, one(recordsOf, acked,
			func(e *evidence, refused *history.Record) {
				for i := range e.records {
					if r := &e.records[i]; r.Op.ID == refused.Op.ID {
						r.Outcome, r.Reply = history.Refused, history.Reply{}
					}
				}
			})},
		{"the filter stopped early", views.AckedInLog,
			progress("filter", func(s *views.ProgressAudit) { s.Next = 0 })},
		{"the filter did not come to the end", views.OnceInEffect, progress("filter", less)},
		{"the counter did not come to the end", views.OnceInEffect, progress("counter", less)},
		{"an event is unaccounted for", views.OnceInEffect, one(dropsOf, nil,
			func(_ *evidence, d *views.DropAudit) { d.Events-- })},
		{"the newest generation is retired", views.OnceInEffect, func(e *evidence, _ picker) bool {
			e.audit.Generations[len(e.audit.Generations)-1].Retired = true
			return true
		}},
		{"a retired generation counted twice", views.ExactCounts, func(e *evidence, pick picker) bool {
			return e.retire() && one(countsOf, func(c *views.CountAudit) bool { return c.Generation == 2 },
				func(_ *evidence, c *views.CountAudit) { c.Views *= 2 })(e, pick)
		}},
		{"readers see no successor of a retired generation", views.OnceInEffect,
			func(e *evidence, _ picker) bool {
				if !e.retire() {
					return false
				}
				e.audit.Generations[1].Live, e.audit.Generations[2].Live = true, false
				return true
			}},
		{"an offset is missing", views.OnceInEffect, func(e *evidence, _ picker) bool {
			p := slices.IndexFunc(e.watch, func(l []views.Logged) bool { return len(l) > 2 })
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
					if counted(a) && counted(b) && a.Op.Key == b.Op.Key && a.End < b.Start {
						do(a, b)
						return true
					}
				}
			}
			return false
		}
	}
	return []corruption{
		{"a count goes down", views.MonotoneCounts, later(func(a, b *history.Record) {
			b.Reply.Value = a.Reply.Value - 1
		})},
		{"a reader goes back a generation", views.MonotoneCounts,
			later(func(a, _ *history.Record) { a.Reply.Key = "2" })},
		{"a generation that never went live", views.MonotoneCounts, one(recordsOf, counted,
			func(_ *evidence, r *history.Record) { r.Reply.Key = "7" })},
		{"more was read than is there", views.MonotoneCounts, one(recordsOf, counted,
			func(_ *evidence, r *history.Record) { r.Reply.Value += 1_000_000 })},
		{"a look sees nothing", views.Fresh, func(e *evidence, _ picker) bool {
			last := &e.samples[len(e.samples)-1]
			var l views.Look
			if err := json.Unmarshal(last.Body, &l); err != nil || l.Shown == 0 {
				return false
			}
			l.Shown = 0
			last.Body, _ = json.Marshal(l)
			return true
		}},
	}
}

// TestSlowOperationIsNoExcuse: the promise is the same however long viewers had
// to wait.
func TestSlowOperationIsNoExcuse(t *testing.T) {
	e := goodRun(t)
	last := &e.samples[len(e.samples)-1]
	last.Body = json.RawMessage(`{"shown":0}`)
	e.records = append(e.records, history.Record{Seq: uint64(len(e.records)),
		Op:      history.Op{ID: 1 << 41, Kind: views.KindViews, Key: "video-1"},
		Outcome: history.OK, Reply: history.Reply{Key: "1"}, End: time.Minute})
	if v := e.judge(t)[views.Fresh]; v.Status != check.Broken {
		t.Errorf("a read of a minute excuses a late count: %s is %s: %s", views.Fresh, v.Status, v.Reason)
	}
}

// TestExcuses: after a fault a look may be late, and Redis may have forgotten.
func TestExcuses(t *testing.T) {
	late := goodRun(t)
	last := &late.samples[len(late.samples)-1]
	last.Body = json.RawMessage(`{"shown":0}`)
	late.windows = []history.Window{{Kind: history.FaultWindow, Name: "f", Fault: "pause kafka",
		Start: last.From - time.Second, End: last.From - 900*ms}}
	if v := late.judge(t)[views.Fresh]; v.Status == check.Broken {
		t.Errorf("a look soon after a fault is not excused: %+v", v.Violations)
	}
	late.windows[0].Start, late.windows[0].End = 0, ms
	if v := late.judge(t)[views.Fresh]; v.Status != check.Broken {
		t.Errorf("a look long after a fault is excused: %s", v.Reason)
	}
}

// judgedAnew makes views of events whose session has one before, in stretches of
// one partition that do not overlap, and takes them off what was turned away. It
// returns how many it found, at most so many.
func (e *evidence) judgedAnew(most int) (found int) {
	for p, list := range e.watch {
		found = 0
		views1, end := map[string]views.Logged{}, int64(-1)
		for _, v := range e.valid[p] {
			views1[v.Session] = v
		}
		var chosen []views.Logged
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
			e.notTurnedAway(p, l.Video, views.Continued)
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

// TestForgotten: what Redis has lost is not held against the filter, and nothing
// else is excused by it.
func TestForgotten(t *testing.T) {
	for _, c := range []struct {
		name, fault, log string
		anew, losses     int
		end              time.Duration
		want             check.Status
	}{
		{"a wipe", "kill redis wipe", "yes", 1, 1, time.Minute, check.Held},
		{"no log", "kill redis", "no", 1, 1, time.Minute, check.Held},
		{"a loss of power", "power-loss redis 1s", "yes", 1, 1, time.Minute, check.Held},
		{"two losses", "kill redis wipe", "yes", 2, 2, time.Minute, check.Held},
		{"the log has it all", "kill redis", "yes", 1, 1, time.Minute, check.Broken},
		{"a pause", "pause redis", "no", 1, 1, time.Minute, check.Broken},
		{"another store", "kill postgres", "no", 1, 1, time.Minute, check.Broken},
		{"over before the session began", "kill redis wipe", "yes", 1, 1, 1, check.Broken},
		{"forgotten too often", "kill redis wipe", "yes", 2, 1, time.Minute, check.Broken},
		{"nothing was judged anew", "kill redis wipe", "yes", 0, 1, time.Minute, check.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			e.audit.RedisLog = c.log
			if n := e.judgedAnew(c.anew); n != c.anew {
				t.Fatalf("the good run has %d stretches", n)
			}
			for n := range c.losses {
				e.windows = append(e.windows, history.Window{Kind: history.FaultWindow,
					Name: strconv.Itoa(n), Fault: c.fault, End: c.end})
			}
			if v := e.judge(t)[views.ExactCounts]; v.Status != c.want {
				t.Errorf("%s is %s: %s: %+v", v.Invariant, v.Status, v.Reason, v.Violations)
			}
		})
	}
}

// TestForgottenWindows: after a loss a window may have as many views again, and
// an event may have been turned away for others that were turned away then.
func TestForgottenWindows(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   time.Duration
		do    change
		wants check.Status
	}{
		{"a repeat counts", time.Minute, repeatsAnew, check.Held},
		{"a repeat counts and is turned away", time.Minute, overfill(true), check.Broken},
		{"a view is turned away that was sent after the loss", 1, turnAway, check.Broken},
		{"bots count", time.Minute, relabel(views.Bot, views.Short), check.Broken},
		{"judged events are turned away twice", time.Minute, relabel(views.Bot, views.Repeat),
			check.Broken},
		{"windows were full, and it is denied", time.Minute, relabel(views.Repeat, views.Continued),
			check.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := goodRun(t)
			if !c.do(e, func(int) int { return 0 }) {
				t.Fatal("the good run has nothing to change")
			}
			e.windows = []history.Window{{Kind: history.FaultWindow, Name: "f",
				Fault: "kill redis wipe", End: c.end}}
			if v := e.judge(t)[views.ExactCounts]; v.Status != c.wants {
				t.Errorf("%s is %s: %s: %+v", v.Invariant, v.Status, v.Reason, v.Violations)
			}
		})
	}
}

// repeatsAnew makes a view of a repeat, which was then not turned away.
func repeatsAnew(e *evidence, pick picker) bool {
	before := map[uint64]bool{}
	for _, list := range e.valid {
		for _, v := range list {
			before[v.ID] = true
		}
	}
	if !overfill(true)(e, pick) {
		return false
	}
	for p, list := range e.valid {
		for _, v := range list {
			if !before[v.ID] {
				e.notTurnedAway(p, v.Video, views.Repeat)
			}
		}
	}
	return true
}

// retire ends the second generation half way, because a third one took its
// place. It returns false if there was no second one.
func (e *evidence) retire() bool {
	a := &e.audit
	if len(a.Generations) != 2 {
		return false
	}
	a.Generations = []views.GenerationAudit{a.Generations[0], {Generation: 2, Retired: true},
		{Generation: 3, Live: true}}
	a.Counts, a.Totals = []views.CountAudit{}, []views.TotalAudit{}
	for i := range a.Progress {
		if s := &a.Progress[i]; s.Generation == 2 {
			a.Progress = append(a.Progress, views.ProgressAudit{Stage: s.Stage, Generation: 3,
				Partition: s.Partition, Next: s.Next})
			a.Progress[i].Next /= 2
		}
	}
	for _, g := range a.Generations {
		e.count(g.Generation)
	}
	return true
}

// TestRetiredGeneration: a generation that ended half way, because a later one
// took its place, is no error.
func TestRetiredGeneration(t *testing.T) {
	e := goodRun(t)
	if !e.retire() {
		t.Fatal("the good run has no second generation")
	}
	for name, v := range e.judge(t) {
		if v.Status != check.Held {
			t.Errorf("%s is %s: %s", name, v.Status, v.Reason)
		}
	}
}

// TestNeeds: what was not exercised is not Held.
func TestNeeds(t *testing.T) {
	for name, change := range map[string]func(*evidence){
		views.ExactCounts: func(e *evidence) {
			for p := range e.valid {
				e.valid[p] = nil
			}
		},
		views.AckedInLog:     func(e *evidence) { e.records = nil },
		views.OnceInEffect:   func(e *evidence) { e.audit.Drops = []views.DropAudit{} },
		views.MonotoneCounts: func(e *evidence) { e.records = nil },
		views.Fresh:          func(e *evidence) { e.samples = nil },
	} {
		e := goodRun(t)
		change(e)
		if v := e.judge(t)[name]; v.Status == check.Held {
			t.Errorf("%s is held: %s", name, v.Reason)
		}
	}
	for _, raw := range []string{"", "null", "{", "{}", `{"watch_events":{"partitions":1}}`} {
		for name, v := range goodRun(t).judgeRaw(json.RawMessage(raw)) {
			if v.Status != check.Undecided {
				t.Errorf("%s of the audit %q is %s", name, raw, v.Status)
			}
		}
	}
}

// TestUnfinished: what a stage has not come to is not finished; what is missing although it
// came to it is lost.
func TestUnfinished(t *testing.T) {
	filter := func(e *evidence) *views.ProgressAudit {
		return &e.audit.Progress[slices.IndexFunc(e.audit.Progress, func(s views.ProgressAudit) bool {
			return s.Stage == "filter" && s.Next > 0
		})]
	}
	// more has an event at the end of a partition.
	more := func(e *evidence) {
		p := filter(e).Partition
		last := e.watch[p][len(e.watch[p])-1]
		last.Offset++
		e.watch[p] = append(e.watch[p], last)
	}
	for name, c := range map[string]struct {
		invariant  string
		change     func(*evidence)
		unfinished bool
	}{
		"the filter is behind": {views.OnceInEffect, more, true},
		"it came to it and did nothing": {views.OnceInEffect, func(e *evidence) {
			more(e)
			filter(e).Next++
		}, false},
		"it is further than the log": {views.OnceInEffect, func(e *evidence) { filter(e).Next++ }, false},
		"an acknowledged one is not reached": {views.AckedInLog, func(e *evidence) {
			filter(e).Next = 0
		}, true},
		"one is turned away too few": {views.OnceInEffect, func(e *evidence) {
			e.audit.Drops[0].Events--
		}, false},
		"readers see less than the shards": {views.ExactCounts, func(e *evidence) {
			e.audit.Totals[0].Shown--
		}, true},
		"a window has one too few": {views.ExactCounts, func(e *evidence) {
			e.audit.Counts[0].Views--
		}, false},
	} {
		e := goodRun(t)
		c.change(e)
		v := e.judge(t)[c.invariant]
		if v.Status != check.Broken || c.unfinished != (v.Unfinished == v.Count) {
			t.Errorf("%s: %s, %d of %d not finished: %s", name, v.Status, v.Unfinished, v.Count, v.Reason)
		}
	}
}

// TestRepeatedHeartbeats: one that was acknowledged must have been sent again and acknowledged
// again, if the run sends any twice, and none may be denied then.
func TestRepeatedHeartbeats(t *testing.T) {
	// second changes every attempt at a heartbeat that was acknowledged before.
	second := func(code string) func(*evidence) {
		return func(e *evidence) {
			acked := map[uint64]bool{}
			for i := range e.records {
				rec := &e.records[i]
				if rec.Op.Kind != views.KindHeartbeat || rec.Outcome != history.OK {
					continue
				}
				if acked[rec.Op.ID] {
					rec.Outcome, rec.Code, rec.Reply = history.Refused, code, history.Reply{}
				}
				acked[rec.Op.ID] = true
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*evidence)
		want   check.Status
		says   string
	}{
		"acknowledged again": {func(*evidence) {}, check.Held, ""},
		"turned away":        {second("overloaded"), check.Undecided, "was acknowledged again"},
		"never sent again": {func(e *evidence) {
			second("overloaded")(e)
			e.params.Resend = 0
		}, check.Held, ""},
		"denied": {second("unknown_video"), check.Broken, "but denied when it was sent again"},
	} {
		e := goodRun(t)
		c.change(e)
		v := e.judge(t)[views.AckedInLog]
		text := v.Reason
		if len(v.Violations) > 0 {
			text = v.Violations[0].Text
		}
		if v.Status != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s: %s; want %s, %s", name, v.Status, text, c.want, c.says)
		}
	}
}
