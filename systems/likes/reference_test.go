package likes_test

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/likes"
)

// world is a whole run in virtual time: the workload, a network that loses and
// delays, and a correct service. Everything follows from the seed.
type world struct {
	params likes.Params
	rng    *rand.Rand
	load   sut.Workload
	trouble
	regions int

	now     time.Duration
	events  events
	records []history.Record
	second  map[int]bool // the attempts that repeat another one
	service *refLikes
}

// likesOf is a run of so many scheduled operations at a correct service.
func likesOf(t tb, seed uint64, p likes.Params, tr trouble, regions, ops int) *evidence {
	t.Helper()
	load, err := likes.NewWorkload(seed, p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{params: p, rng: rand.New(rand.NewPCG(seed, 1)), load: load, trouble: tr,
		regions: regions, second: map[int]bool{}}
	w.service = newRefLikes(w)
	for i := range ops {
		op := load.Op(uint64(i))
		w.at(time.Duration(i)*time.Second/time.Duration(ops), func() { w.send(op, false) })
	}
	w.at(0, w.service.exchange)
	for w.events.Len() > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	return &evidence{params: p, records: w.records, audit: w.service.audit()}
}

// trouble is how often an attempt meets each mishap, and an interaction that was
// counted is not logged by its server.
type trouble struct {
	lostRequest, lostReply, late, hang, dialFails, dropped, unlogged float64
}

// event is something that happens at a moment; n breaks ties in the order of
// planning.
type event struct {
	at time.Duration
	n  int
	do func()
}

type events struct {
	list []event
	n    int
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, k int) bool {
	a, b := e.list[i], e.list[k]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) < 0
}
func (e *events) Swap(i, k int) { e.list[i], e.list[k] = e.list[k], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func (w *world) at(at time.Duration, do func()) {
	w.events.n++
	heap.Push(&w.events, event{max(at, w.now), w.events.n, do})
}

// some of a duration, uniform.
func (w *world) some(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

const (
	netDelay  = 2 * ms
	opTimeout = 100 * ms
)

// send starts one attempt and decides what the network does to it. Some are sent twice: again
// is the second time.
func (w *world) send(op history.Op, again bool) {
	i := len(w.records)
	if w.second[i] = again; !again {
		w.resend(op, sut.Together)
	}
	w.records = append(w.records, history.Record{
		Seq: uint64(i), Op: op, Intended: w.now, Start: w.now, End: history.Never})
	u := w.rng.Float64()
	for _, fate := range []struct {
		share float64
		do    func()
	}{
		{w.dropped, func() {
			w.records[i].Outcome, w.records[i].Start = history.Dropped, history.Never
		}},
		{w.dialFails, func() { w.end(i, w.some(netDelay), history.Refused, 0) }},
		{w.lostRequest, func() { w.end(i, opTimeout, history.Unknown, 0) }},
		{w.lostReply, func() {
			w.execute(i, w.some(netDelay), nil)
			w.end(i, opTimeout, history.Unknown, 0)
		}},
		{w.late, func() {
			w.execute(i, opTimeout+w.some(2*opTimeout), nil)
			w.end(i, opTimeout, history.Unknown, 0)
		}},
		{w.hang, func() { w.execute(i, w.some(netDelay), nil) }},
	} {
		if u < fate.share {
			fate.do()
			return
		}
		u -= fate.share
	}
	w.execute(i, w.some(netDelay), func(value int64, logged bool) {
		if !logged {
			w.end(i, opTimeout, history.Unknown, 0)
			return
		}
		w.end(i, w.some(netDelay), history.OK, value)
	})
}

func (w *world) execute(i int, after time.Duration, done func(int64, bool)) {
	w.at(w.now+after, func() {
		value, logged := w.service.do(w.records[i].Op)
		if done != nil {
			done(value, logged)
		}
	})
}

func (w *world) end(i int, after time.Duration, outcome history.Outcome, value int64) {
	w.at(w.now+after, func() {
		rec := &w.records[i]
		rec.Outcome, rec.Reply, rec.End = outcome, history.Reply{}, w.now
		if outcome == history.OK {
			rec.Reply.Value = value
		}
		if w.second[i] {
			return // nothing follows from it
		}
		for _, next := range w.load.Follow(rec.Op, outcome, rec.Reply) {
			w.at(w.now+next.After, func() { w.send(next.Op, false) })
		}
		if outcome == history.OK {
			w.resend(rec.Op, sut.Later)
		}
	})
}

// resend plans the second sending of an operation that has one at that time.
func (w *world) resend(op history.Op, when sut.Resending) {
	if wanted, pause := w.load.(sut.Resender).Resend(op); wanted == when {
		w.at(w.now+pause, func() { w.send(op, true) })
	}
}

// refLikes is a correct service: one thing at a time. Regions see each other's
// counts of the last exchange, and reads are as old as the time to live.
type refLikes struct {
	w       *world
	members map[[2]uint64]likes.Event
	counts  map[[2]uint64]int64 // by region and video
	seen    map[[2]uint64]int64 // of the other regions, at the last exchange
	cached  map[[2]uint64]refCount
	viewers map[uint64]map[uint64]bool
	log     [2]likes.PackedEvents
	lost    []likes.Event // counted and not logged by their server
}

type refCount struct {
	value int64
	until time.Duration
}

func newRefLikes(w *world) *refLikes {
	return &refLikes{w: w, members: map[[2]uint64]likes.Event{}, counts: map[[2]uint64]int64{},
		seen: map[[2]uint64]int64{}, cached: map[[2]uint64]refCount{},
		viewers: map[uint64]map[uint64]bool{}}
}

func number(name string) uint64 {
	n := uint64(0)
	for _, c := range name {
		if c >= '0' && c <= '9' {
			n = 10*n + uint64(c-'0')
		}
	}
	return n
}

func (s *refLikes) do(op history.Op) (value int64, logged bool) {
	video, user := number(op.Key), number(op.Client)
	region := user % uint64(s.w.regions)
	switch op.Kind {
	case likes.KindView:
		if s.viewers[video] == nil {
			s.viewers[video] = map[uint64]bool{}
		}
		s.viewers[video][user] = true
		return 0, true
	case likes.KindCount:
		return s.count(region, video), true
	}
	pair := [2]uint64{video, user}
	before := s.members[pair]
	e := likes.Event{OpID: op.ID, Video: video, User: user, Liked: op.Kind == likes.KindLike,
		Version: before.Version + 1}
	s.members[pair] = e
	if before.Liked != e.Liked {
		value = 1
		s.counts[[2]uint64{region, video}] += map[bool]int64{true: 1, false: -1}[e.Liked]
	}
	if s.w.rng.Float64() < s.w.unlogged {
		s.lost = append(s.lost, e)
		return value, false
	}
	s.append(e)
	return value, true
}

func (s *refLikes) append(e likes.Event) {
	p := e.User / 2 % 2
	s.log[p] = append(s.log[p], e)
}

// count is what a reader of a region is told.
func (s *refLikes) count(region, video uint64) int64 {
	key := [2]uint64{region, video}
	if c := s.cached[key]; c.until > s.w.now {
		return c.value
	}
	value := s.counts[key]
	for other := range uint64(s.w.regions) {
		if other != region {
			value += s.seen[[2]uint64{other, video}]
		}
	}
	s.cached[key] = refCount{value, s.w.now + s.w.params.ReadTTL.D()}
	return value
}

// exchange tells each region of the others, now and then.
func (s *refLikes) exchange() {
	for key, n := range s.counts {
		s.seen[key] = n
	}
	if s.w.events.Len() > 0 {
		s.w.at(s.w.now+s.w.some(50*ms), s.exchange)
	}
}

// audit is the truth after everything was repaired: what was lost is logged again
// if nothing newer of its pair was.
func (s *refLikes) audit() likes.Audit {
	for _, e := range s.lost {
		if s.members[[2]uint64{e.Video, e.User}] == e {
			s.append(e)
		}
	}
	a := likes.Audit{Contract: likes.Contract{Ack: likes.AckLog, Regions: s.w.regions,
		StalenessNS: int64(s.w.params.ReadTTL)}, Logged: likes.Packed{}}
	for p, records := range s.log {
		a.Log = append(a.Log, likes.PartitionAudit{Partition: int32(p),
			Committed: int64(len(records)), Records: append(likes.PackedEvents{}, records...)})
		for _, e := range records {
			a.Logged = append(a.Logged, e.OpID)
		}
	}
	slices.Sort(a.Logged)
	a.Logged = slices.Compact(a.Logged)
	for n := range s.w.params.Videos {
		a.Videos = append(a.Videos, s.auditVideo(uint64(n+1)))
	}
	return a
}

func (s *refLikes) auditVideo(video uint64) likes.VideoAudit {
	v := likes.VideoAudit{Video: video, Shards: 1, Members: likes.Packed{}, Ledger: likes.Packed{},
		Viewers: int64(len(s.viewers[video]))}
	for pair, e := range s.members {
		if pair[0] == video && e.Liked {
			v.Members = append(v.Members, pair[1])
		}
	}
	slices.Sort(v.Members)
	v.Ledger = append(v.Ledger, v.Members...)
	sum := int64(0)
	for region := range uint64(s.w.regions) {
		sum += s.counts[[2]uint64{region, video}]
	}
	for range s.w.regions {
		v.Counts = append(v.Counts, sum)
	}
	return v
}
