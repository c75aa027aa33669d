package likes

import (
	"errors"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
)

// trouble is that of the network, and how often an interaction that was counted is not
// logged by its server.
type trouble struct {
	suttest.Trouble
	unlogged float64
}

// likesOf is a run of so many scheduled operations at a correct service.
func likesOf(
	t suttest.TB, seed uint64, p Params, tr trouble, regions, ops int,
) *evidence {
	t.Helper()
	w := suttest.NewWorld(t, System(), seed, p, tr.Trouble)
	s := newRefLikes(w, p, regions, tr.unlogged)
	w.After(0, s.exchange)
	w.Run(s, ops, time.Second)
	return &evidence{params: p, records: w.Records, audit: s.audit()}
}

// refLikes is a correct service: one thing at a time. Regions see each other's
// counts of the last exchange, and reads are as old as the time to live.
type refLikes struct {
	*suttest.World
	p        Params
	regions  int
	unlogged float64

	members map[[2]uint64]Event
	counts  map[[2]uint64]int64 // by region and video
	seen    map[[2]uint64]int64 // of the other regions, at the last exchange
	cached  map[[2]uint64]refCount
	viewers map[uint64]map[uint64]bool
	log     [2]PackedEvents
	lost    []Event // counted and not logged by their server
}

type refCount struct {
	value int64
	until time.Duration
}

func newRefLikes(w *suttest.World, p Params, regions int, unlogged float64) *refLikes {
	return &refLikes{World: w, p: p, regions: regions, unlogged: unlogged,
		members: map[[2]uint64]Event{}, counts: map[[2]uint64]int64{},
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

var errUnlogged = errors.New("it was not logged")

// Do performs an operation.
func (s *refLikes) Do(op history.Op, answer func(history.Reply, error)) {
	value, logged := s.do(op)
	if !logged {
		answer(history.Reply{}, errUnlogged)
		return
	}
	answer(history.Reply{Value: value}, nil)
}

func (s *refLikes) do(op history.Op) (value int64, logged bool) {
	video, user := number(op.Key), number(op.Client)
	region := user % uint64(s.regions)
	switch op.Kind {
	case KindView:
		if s.viewers[video] == nil {
			s.viewers[video] = map[uint64]bool{}
		}
		s.viewers[video][user] = true
		return 0, true
	case KindCount:
		return s.count(region, video), true
	}
	pair := [2]uint64{video, user}
	before := s.members[pair]
	e := Event{OpID: op.ID, Video: video, User: user, Liked: op.Kind == KindLike,
		Version: before.Version + 1}
	s.members[pair] = e
	if before.Liked != e.Liked {
		value = 1
		s.counts[[2]uint64{region, video}] += map[bool]int64{true: 1, false: -1}[e.Liked]
	}
	if s.Rand.Float64() < s.unlogged {
		s.lost = append(s.lost, e)
		return value, false
	}
	s.append(e)
	return value, true
}

func (s *refLikes) append(e Event) {
	p := e.User / 2 % 2
	s.log[p] = append(s.log[p], e)
}

// count is what a reader of a region is told.
func (s *refLikes) count(region, video uint64) int64 {
	key := [2]uint64{region, video}
	if c := s.cached[key]; c.until > s.Now {
		return c.value
	}
	value := s.counts[key]
	for other := range uint64(s.regions) {
		if other != region {
			value += s.seen[[2]uint64{other, video}]
		}
	}
	s.cached[key] = refCount{value, s.Now + s.p.ReadTTL.D()}
	return value
}

// exchange tells each region of the others, now and then.
func (s *refLikes) exchange() {
	for key, n := range s.counts {
		s.seen[key] = n
	}
	if s.Busy() {
		s.After(s.Some(50*ms), s.exchange)
	}
}

// audit is the truth after everything was repaired: what was lost is logged again
// if nothing newer of its pair was.
func (s *refLikes) audit() Audit {
	for _, e := range s.lost {
		if s.members[[2]uint64{e.Video, e.User}] == e {
			s.append(e)
		}
	}
	a := Audit{Contract: Contract{Ack: AckLog, Regions: s.regions,
		StalenessNS: int64(s.p.ReadTTL)}, Logged: Packed{}}
	for p, records := range s.log {
		a.Log = append(a.Log, PartitionAudit{Partition: int32(p),
			Committed: int64(len(records)), Records: append(PackedEvents{}, records...)})
		for _, e := range records {
			a.Logged = append(a.Logged, e.OpID)
		}
	}
	slices.Sort(a.Logged)
	a.Logged = slices.Compact(a.Logged)
	for n := range s.p.Videos {
		a.Videos = append(a.Videos, s.auditVideo(uint64(n+1)))
	}
	return a
}

func (s *refLikes) auditVideo(video uint64) VideoAudit {
	v := VideoAudit{Video: video, Shards: 1, Members: Packed{}, Ledger: Packed{},
		Viewers: int64(len(s.viewers[video]))}
	for pair, e := range s.members {
		if pair[0] == video && e.Liked {
			v.Members = append(v.Members, pair[1])
		}
	}
	slices.Sort(v.Members)
	v.Ledger = append(v.Ledger, v.Members...)
	sum := int64(0)
	for region := range uint64(s.regions) {
		sum += s.counts[[2]uint64{region, video}]
	}
	for range s.regions {
		v.Counts = append(v.Counts, sum)
	}
	return v
}
