package views_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/views"
)

const ms = time.Millisecond

type tb = suttest.TB

// evidence is a history and an audit that a case may change.
type evidence struct {
	params       views.Params
	records      []history.Record
	windows      []history.Window
	samples      []history.Sample
	watch, valid [][]views.Logged
	audit        views.Audit
}

// raw encodes the audit with the logs as they are now.
func (e *evidence) raw(t tb) json.RawMessage {
	t.Helper()
	var err error
	if e.audit.Watch, err = views.EncodeLog(e.watch); err != nil {
		t.Fatal(err)
	}
	if e.audit.Valid, err = views.EncodeLog(e.valid); err != nil {
		t.Fatal(err)
	}
	return suttest.Encoded(t, e.audit)
}

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
	t.Helper()
	return e.judgeRaw(e.raw(t))
}

func (e *evidence) judgeRaw(raw json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(views.Invariants(e.params),
		history.Slice(e.records, e.windows...).WithSamples(e.samples), raw)
}

// trouble is that of the network, and how often a view is forwarded twice.
type trouble struct {
	suttest.Trouble
	forwardedTwice float64
}

// world is a whole run in virtual time, with the smallest correct pipeline.
type world struct {
	*suttest.World
	trouble
	*evidence
	composite bool

	rules     []views.Rules
	decided   []int // how many events of a partition were
	counted   []int // how many records of valid_events were
	session   map[string]*views.Logged
	used      map[string]int64
	drops     map[views.DropAudit]int64
	counts    map[views.CountAudit]int64
	shown     map[string]int64
	reprocess int64
}

const partitions = 4

// runOf is a run of so many sessions through a correct pipeline.
func runOf(t tb, seed uint64, p views.Params, tr trouble, composite bool, sessions int) *evidence {
	t.Helper()
	load, err := views.NewWorkload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{World: suttest.NewWorld(seed, load, tr.Trouble), trouble: tr, composite: composite,
		evidence: &evidence{params: p, watch: make([][]views.Logged, partitions),
			valid: make([][]views.Logged, partitions)},
		rules:   []views.Rules{views.RulesOf(p)},
		decided: make([]int, partitions), counted: make([]int, partitions),
		session: map[string]*views.Logged{}, used: map[string]int64{},
		drops: map[views.DropAudit]int64{}, counts: map[views.CountAudit]int64{},
		shown: map[string]int64{}, reprocess: 1}
	w.Spared = func(op history.Op) bool { return op.Kind != views.KindHeartbeat }
	for at := time.Duration(0); at < 3*time.Second; at += 100 * ms {
		w.After(at, w.look)
	}
	w.Run(w, sessions, 2*time.Second)
	w.finish()
	return w.evidence
}

// Do performs an operation.
func (w *world) Do(op history.Op, answer func(history.Reply, error)) { answer(w.do(op), nil) }

// do is what the API does.
func (w *world) do(op history.Op) history.Reply {
	switch op.Kind {
	case views.KindHeartbeat:
		return w.append(op)
	case views.KindViews:
		return history.Reply{Key: "1", Value: w.shown[op.Key]}
	case views.KindRules:
		var rules views.Rules
		if err := json.Unmarshal(op.Body, &rules); err != nil {
			panic(err)
		}
		rules.Version = int64(len(w.rules) + 1)
		w.rules = append(w.rules, rules)
		return history.Reply{Value: rules.Version}
	}
	w.reprocess = 2
	return history.Reply{Value: 2}
}

func (w *world) append(op history.Op) history.Reply {
	h := views.HeartbeatOf(op)
	key := h.Video
	if w.composite {
		key += h.Session
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	p := int(hash.Sum32() % partitions)
	e := views.Logged{Event: views.Event{Heartbeat: h, Rules: int64(len(w.rules))},
		Offset: int64(len(w.watch[p]))}
	w.watch[p] = append(w.watch[p], e)
	w.After(w.Some(30*ms), func() { w.decide(p) })
	return history.Reply{Key: views.Position{Partition: int32(p), Offset: e.Offset}.String(),
		Value: e.Offset}
}

// decide decides the next event of a partition.
func (w *world) decide(p int) {
	e := w.watch[p][w.decided[p]]
	w.decided[p]++
	reason := w.reason(&e)
	if reason != "" {
		w.drops[views.DropAudit{Partition: int32(p), Video: e.Video, Reason: reason}]++
		return
	}
	w.forward(p, e)
	if w.Rand.Float64() < w.forwardedTwice {
		w.forward(p, e)
	}
}

// reason is why an event is no view.
func (w *world) reason(e *views.Logged) string {
	r := w.rules[e.Rules-1]
	first := w.session[e.Session]
	switch {
	case slices.Contains(r.Blocked, e.IP):
		return views.Bot
	case r.Creators && e.User == "creator-"+e.Video[len("video-"):]:
		return views.Creator
	case e.WatchedMS < r.MinWatchMS:
		return views.Short
	case first != nil && first.ID == e.ID:
		return views.Duplicate
	case first != nil:
		return views.Continued
	}
	w.session[e.Session] = e
	repeat := fmt.Sprint("r", r.RepeatWindowMS, e.TimeMS/r.RepeatWindowMS, e.User, e.Video)
	rate := fmt.Sprint("i", r.IPWindowMS, e.TimeMS/r.IPWindowMS, e.IP)
	switch {
	case w.used[repeat] > 0:
		return views.Repeat
	case w.used[rate] >= r.IPViews:
		return views.IPRate
	}
	w.used[repeat]++
	w.used[rate]++
	return ""
}

func (w *world) forward(p int, e views.Logged) {
	source := e.In()
	e.Offset, e.Source = int64(len(w.valid[p])), source
	w.valid[p] = append(w.valid[p], e)
	w.After(w.Some(100*ms), func() { w.count(p) })
}

// count counts the next view of a partition, unless it came before.
func (w *world) count(p int) {
	v := w.valid[p][w.counted[p]]
	again := w.counted[p] > 0 && w.valid[p][w.counted[p]-1].Source >= v.Source
	w.counted[p]++
	if again {
		return
	}
	window := w.params.CountWindow.D().Milliseconds()
	w.counts[views.CountAudit{Video: v.Video, WindowMS: v.TimeMS / window * window}]++
	w.shown[v.Video]++
}

// look is what a gauge does.
func (w *world) look() {
	l := views.Look{Dropped: map[string]int64{}}
	for _, n := range w.shown {
		l.Shown += n
	}
	for d, n := range w.drops {
		l.Dropped[d.Reason] += n
	}
	for p := range partitions {
		l.FilterLag = append(l.FilterLag, int64(len(w.watch[p])-w.decided[p]))
		l.CounterLag = append(l.CounterLag, int64(len(w.valid[p])-w.counted[p]))
	}
	body, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	w.samples = append(w.samples, history.Sample{From: w.Now, To: w.Now, Body: body})
}

// finish makes the audit.
func (w *world) finish() {
	w.records = w.Records
	a := &w.audit
	*a = views.Audit{Rules: w.rules, Creators: map[string]string{}, Drops: []views.DropAudit{},
		Counts: []views.CountAudit{}, Totals: []views.TotalAudit{},
		CountWindowMS: w.params.CountWindow.D().Milliseconds()}
	for n := range w.params.Videos {
		a.Creators[views.VideoKey(n+1)] = "creator-" + strconv.Itoa(n+1)
	}
	for d, n := range w.drops {
		d.Events = n
		a.Drops = append(a.Drops, d)
	}
	slices.SortFunc(a.Drops, func(x, y views.DropAudit) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Video, y.Video),
			cmp.Compare(x.Reason, y.Reason))
	})
	for p := range partitions {
		a.Progress = append(a.Progress, views.ProgressAudit{Stage: "filter", Partition: int32(p),
			Next: int64(len(w.watch[p]))})
	}
	for g := int64(1); g <= w.reprocess; g++ {
		a.Generations = append(a.Generations, views.GenerationAudit{Generation: g, Live: true})
		for p := range partitions {
			a.Progress = append(a.Progress, views.ProgressAudit{Stage: "counter", Generation: g,
				Partition: int32(p), Next: int64(len(w.valid[p]))})
		}
		for c, n := range w.counts {
			c.Generation, c.Views = g, n
			a.Counts = append(a.Counts, c)
		}
		for _, video := range slices.Sorted(maps.Keys(w.shown)) {
			n := w.shown[video]
			a.Totals = append(a.Totals, views.TotalAudit{Generation: g, Video: video, Views: n,
				Shown: n})
		}
	}
	slices.SortFunc(a.Counts, func(x, y views.CountAudit) int {
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Video, y.Video),
			cmp.Compare(x.WindowMS, y.WindowMS))
	})
}
