package views

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
)

const ms = time.Millisecond

type tb = suttest.TB

// evidence is a history and an audit that a case may change.
type evidence struct {
	params       Params
	records      []history.Record
	windows      []history.Window
	samples      []history.Sample
	watch, valid [][]Logged
	audit        Audit
	reasons      [][]string // why each event of watch is no view, "" if it is one
	text         *string    // what is judged in place of the audit, unless it is nil
}

// raw encodes the audit with the logs as they are now.
func (e *evidence) raw(t tb) json.RawMessage {
	t.Helper()
	var err error
	if e.audit.Watch, err = EncodeLog(e.watch); err != nil {
		t.Fatal(err)
	}
	if e.audit.Valid, err = EncodeLog(e.valid); err != nil {
		t.Fatal(err)
	}
	return suttest.Encoded(t, e.audit)
}

// judge returns the verdicts by name.
func (e *evidence) judge(t tb) map[string]check.Verdict {
	t.Helper()
	raw := e.raw(t)
	if e.text != nil {
		raw = json.RawMessage(*e.text)
	}
	return suttest.Verdicts(Invariants(e.params),
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

	rules     []Rules
	counted   []int // how many records of valid_events were
	session   map[string]*Logged
	used      map[string]int64
	drops     map[DropAudit]int64
	shown     map[string]int64
	reprocess int64
}

const partitions = 4

// runOf is a run of so many sessions through a correct pipeline.
func runOf(t tb, seed uint64, p Params, tr trouble, composite bool, sessions int) *evidence {
	t.Helper()
	w := &world{World: suttest.NewWorld(t, System(), seed, p, tr.Trouble), trouble: tr,
		composite: composite,
		evidence: &evidence{params: p, watch: make([][]Logged, partitions),
			valid: make([][]Logged, partitions), reasons: make([][]string, partitions)},
		rules: []Rules{p.rules()}, counted: make([]int, partitions), session: map[string]*Logged{},
		used:  map[string]int64{},
		drops: map[DropAudit]int64{}, shown: map[string]int64{}, reprocess: 1}
	w.Spared = func(op history.Op) bool { return op.Kind != KindHeartbeat }
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
	case KindHeartbeat:
		return w.append(op)
	case KindViews:
		return history.Reply{Key: "1", Value: w.shown[op.Key]}
	case KindRules:
		var rules Rules
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
	h, _, err := heartbeatOf(op)
	if err != nil {
		panic(err)
	}
	key := h.Video
	if w.composite {
		key += h.Session
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	p := int(hash.Sum32() % partitions)
	e := Logged{Event: Event{Heartbeat: h, Rules: int64(len(w.rules))},
		Offset: int64(len(w.watch[p]))}
	w.watch[p] = append(w.watch[p], e)
	w.After(w.Some(30*ms), func() { w.decide(p) })
	return history.Reply{Key: Position{Partition: int32(p), Offset: e.Offset}.String()}
}

// decide decides the next event of a partition.
func (w *world) decide(p int) {
	e := w.watch[p][len(w.reasons[p])]
	reason := w.reason(&e)
	w.reasons[p] = append(w.reasons[p], reason)
	if reason != "" {
		w.drops[DropAudit{Partition: int32(p), Video: e.Video, Reason: reason}]++
		return
	}
	w.forward(p, e)
	if w.Rand.Float64() < w.forwardedTwice {
		w.forward(p, e)
	}
}

// reason is why an event is no view.
func (w *world) reason(e *Logged) string {
	r := w.rules[e.Rules-1]
	first := w.session[e.Session]
	switch {
	case slices.Contains(r.Blocked, e.IP):
		return Bot
	case r.Creators && e.User == "creator-"+e.Video[len("video-"):]:
		return Creator
	case e.WatchedMS < r.MinWatchMS:
		return Short
	case first != nil && first.ID == e.ID:
		return Duplicate
	case first != nil:
		return Continued
	}
	w.session[e.Session] = e
	repeat := fmt.Sprint("r", r.RepeatWindowMS, e.TimeMS/r.RepeatWindowMS, e.User, e.Video)
	rate := fmt.Sprint("i", r.IPWindowMS, e.TimeMS/r.IPWindowMS, e.IP)
	switch {
	case w.used[repeat] > 0:
		return Repeat
	case w.used[rate] >= r.IPViews:
		return IPRate
	}
	w.used[repeat]++
	w.used[rate]++
	return ""
}

func (w *world) forward(p int, e Logged) {
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
	if !again {
		w.shown[v.Video]++
	}
}

// look is what a gauge does.
func (w *world) look() {
	l := Look{Dropped: map[string]int64{}}
	for _, n := range w.shown {
		l.Shown += n
	}
	for d, n := range w.drops {
		l.Dropped[d.Reason] += n
	}
	for p := range partitions {
		l.FilterLag = append(l.FilterLag, int64(len(w.watch[p])-len(w.reasons[p])))
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
	*a = Audit{Rules: w.rules, Creators: map[string]string{}, Drops: []DropAudit{},
		CountWindowMS: w.params.CountWindow.D().Milliseconds()}
	for n := range w.params.Videos {
		a.Creators[VideoKey(n+1)] = "creator-" + strconv.Itoa(n+1)
	}
	for d, n := range w.drops {
		d.Events = n
		a.Drops = append(a.Drops, d)
	}
	slices.SortFunc(a.Drops, func(x, y DropAudit) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Video, y.Video),
			cmp.Compare(x.Reason, y.Reason))
	})
	for p := range partitions {
		a.Progress = append(a.Progress, ProgressAudit{Stage: "filter", Partition: int32(p),
			Next: int64(len(w.watch[p]))})
	}
	for g := int64(1); g <= w.reprocess; g++ {
		a.Generations = append(a.Generations, GenerationAudit{Generation: g, Live: true})
		for p := range partitions {
			a.Progress = append(a.Progress, ProgressAudit{Stage: "counter", Generation: g,
				Partition: int32(p)})
		}
	}
	w.recount()
}

// recount makes the tables follow valid_events.
func (e *evidence) recount() {
	e.audit.Counts, e.audit.Totals = []CountAudit{}, []TotalAudit{}
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
	a, totals := &e.audit, map[string]int64{}
	counts := map[CountAudit]int64{}
	for _, s := range a.Progress {
		if s.Stage != "counter" || s.Generation != generation {
			continue
		}
		last := int64(-1)
		for _, v := range e.valid[s.Partition][:s.Next] {
			if v.Source <= last {
				continue
			}
			last = v.Source
			counts[CountAudit{Generation: generation, Video: v.Video,
				WindowMS: v.TimeMS - v.TimeMS%a.CountWindowMS}]++
			totals[v.Video]++
		}
	}
	for c, n := range counts {
		c.Views = n
		a.Counts = append(a.Counts, c)
	}
	slices.SortFunc(a.Counts, func(x, y CountAudit) int {
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Video, y.Video),
			cmp.Compare(x.WindowMS, y.WindowMS))
	})
	for _, video := range slices.Sorted(maps.Keys(totals)) {
		n := totals[video]
		a.Totals = append(a.Totals, TotalAudit{Generation: generation, Video: video, Views: n,
			Shown: n})
	}
}
