package likes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements and commands whose costs the models of designs need. Of those that have rows,
// fields or keys it is for each of them.
const (
	costRow     = "row"     // changeRow
	costCount   = "count"   // reads a number
	costView    = "view"    // adds a viewer
	costGap     = "gap"     // findGap
	costLock    = "lock"    // lockEpochs
	costApply   = "apply"   // applyBatch, for each event
	costMove    = "move"    // moveApplied
	costApplied = "applied" // reads how far the ledger is
	costEpoch   = "epoch"   // begins an epoch
	costPairs   = "pairs"   // reads who likes a video, for each row

	costChange = "change" // changeScript
	costLook   = "look"   // lookScript
	costWrite  = "write"  // writeScript
	costAdopt  = "adopt"  // adoptScript
	costTell   = "tell"   // tellScript
	costExists = "exists"
	costHGet   = "hmget"
	costMGet   = "mget"
	costPFGet  = "pfcount"
	costPFAdd  = "pfadd"
	costFields = "hgetall"
	costHSet   = "hset"
	costDel    = "del"  // removes keys
	costFree   = "free" // and each of their fields
	costSet    = "set"
)

// assumedCosts are what statements and commands cost on a CPU of 2023, until somebody measures
// them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(30), "kafka": us(10)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costRow: us(220), costCount: us(50),
			costView: us(80), costGap: us(30), costLock: us(40), costApply: us(25), costMove: us(60),
			costApplied: us(30), costEpoch: us(60), costPairs: us(1)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(6), costChange: us(14),
			costLook: us(7), costWrite: us(10), costAdopt: us(10), costTell: us(4), costExists: us(1),
			costHGet: us(1.5), costMGet: us(0.3), costPFGet: us(1), costPFAdd: us(1.5),
			costFields: us(0.2), costHSet: us(0.4), costDel: us(10), costFree: us(0.3), costSet: us(1)},
		Kafka: map[string]sim.Cost{"request": us(60), "batch": us(15), "record": us(1),
			"byte": us(0.002), "fetch": us(60)},
	}
}

// eventBytes is the size of a record of the log.
const eventBytes = 110

// modelLedger is what the models of designs have in common: the rows of the ledger.
type modelLedger struct {
	*sim.Cluster
	p       Params
	limit   time.Duration
	videos  *sim.Table[uint64, videoRow]
	likes   *sim.Table[pairID, pair]
	events  *sim.Table[uint64, Event]
	viewers *sim.Table[pairID, struct{}]
	applied *sim.Table[int32, int64]
	users   map[uint64][]uint64 // by video: those of likes, and some who were rolled back
}

// videoRow is a row of videos.
type videoRow struct{ likes, epoch int64 }

func newModelLedger(c *sim.Cluster, p Params, cfg sut.Config) *modelLedger {
	pg := c.Postgres
	m := &modelLedger{Cluster: c, p: p, limit: stores.Timeout(cfg),
		videos:  sim.NewTable[uint64, videoRow](pg, "videos"),
		likes:   sim.NewTable[pairID, pair](pg, "likes"),
		events:  sim.NewTable[uint64, Event](pg, "like_events"),
		viewers: sim.NewTable[pairID, struct{}](pg, "viewers"),
		applied: sim.NewTable[int32, int64](pg, "applied"),
		users:   map[uint64][]uint64{}}
	for video := range uint64(p.Videos) {
		m.videos.Load(video+1, videoRow{epoch: 1})
	}
	return m
}

// put writes a row of likes, whose lock the transaction has.
func (m *modelLedger) put(who pairID, row pair, fresh bool) {
	if fresh {
		m.users[who.video] = append(m.users[who.video], who.user)
	}
	m.likes.Set(who, row)
}

// logged adds an event if it is not there.
func (m *modelLedger) logged(p *sim.Process, e Event) {
	p.Do(m.events.Lock(e.OpID))
	if _, is := m.events.Get(e.OpID); !is {
		m.events.Set(e.OpID, e)
	}
}

// audited is an Audit but for what is counted.
func (m *modelLedger) audited(contract Contract, count func(*VideoAudit)) Audit {
	a := Audit{Contract: contract, Logged: slices.Sorted(slices.Values(m.events.Keys()))}
	if a.Logged == nil {
		a.Logged = Packed{}
	}
	for n := range uint64(m.p.Videos) {
		v := VideoAudit{Video: n + 1, Ledger: Packed{}}
		for _, row := range m.pairs(v.Video) {
			if row.liked {
				v.Ledger = append(v.Ledger, row.user)
			}
		}
		slices.Sort(v.Ledger)
		count(&v)
		a.Videos = append(a.Videos, v)
	}
	return a
}

// pairs are the committed rows of a video.
func (m *modelLedger) pairs(video uint64) (list []pair) {
	m.users[video] = distinct(m.users[video])
	for _, user := range m.users[video] {
		if row, is := m.likes.Get(pairID{video, user}); is {
			list = append(list, row)
		}
	}
	return list
}

// distinct sorts numbers and leaves out those that come again.
func distinct(list []uint64) []uint64 {
	if !slices.IsSorted(list) {
		slices.Sort(list)
	}
	return slices.Compact(list)
}

// modelCounts is what the models of designs have in common that count in Redis and keep a log: the
// keys of store, the log, the ledger's worker and the repairer.
type modelCounts struct {
	*modelLedger
	shards   int64
	life     *sim.Map[string, int64]
	metas    *sim.Map[uint64, int64] // epochs
	members  *sim.Map[pairID, pair]
	counters *sim.Map[[2]uint64, int64] // by video and shard
	sketches *sim.Map[pairID, struct{}]
	views    *sim.Map[uint64, int64]
	fields   map[[2]uint64][]uint64 // by video and part: who was ever a member
	log      *sim.Topic[Event]
	readers  []*sim.Consumer[Event]
	ends     int        // partitions
	cache    *readCache // of one process of the API
	// apply counts an interaction.
	apply func(*modelCounts, *sim.Process, Request, bool) (applied, error)
}

// modelled is the model of a design, by how it counts an interaction.
func (c counted) modelled(
	apply func(*modelCounts, *sim.Process, Request, bool) (applied, error),
) func(*sim.Cluster, Params, sut.Config) design.Model[Likes] {
	return func(cluster *sim.Cluster, p Params, cfg sut.Config) design.Model[Likes] {
		how, r := c.layout(p), cluster.Redis
		m := &modelCounts{modelLedger: newModelLedger(cluster, p, cfg), shards: int64(how.shards),
			life: sim.NewMap[string, int64](r), metas: sim.NewMap[uint64, int64](r),
			members: sim.NewMap[pairID, pair](r), counters: sim.NewMap[[2]uint64, int64](r),
			sketches: sim.NewMap[pairID, struct{}](r), views: sim.NewMap[uint64, int64](r),
			fields: map[[2]uint64][]uint64{}, ends: cfg.Kafka.Partitions, apply: apply}
		m.log = sim.NewTopic[Event](cluster.Kafka, topicEvents, m.ends)
		for video := range uint64(p.Videos) {
			m.metas.Set(video+1, 1)
		}
		m.life.Set("life", r.RunID())
		m.roles(cfg)
		look := cluster.Postgres.OwnConns("gauge", 1, m.limit)
		serve := func(*sim.Replica) (Likes, []func(*sim.Process)) {
			one := *m
			one.cache = newReadCache(p.ReadTTL.D(), p.EarlyBeta, 0)
			one.cache.now = func() time.Time { return time.Unix(0, int64(cluster.Sim.Now())) }
			return &one, nil
		}
		return design.Model[Likes]{Open: serve, Pending: m.pending,
			Audit: func() any { return m.audit() },
			Gauge: func(p *sim.Process) any { return m.gauge(p, look) }}
	}
}

// command executes commands in Redis. The first one on a new life finds the videos closed, as
// store.connected closes them.
func (m *modelCounts) command(p *sim.Process, commands sim.Times, effect func()) {
	execute := m.Redis.ExecuteTimes(func() {
		if run, is := m.life.Get("life"); !is || run != m.Redis.RunID() {
			for video := range uint64(m.p.Videos) {
				m.metas.Delete(video + 1)
			}
			m.life.Set("life", m.Redis.RunID())
		}
		effect()
	}, commands)
	m.bounded(p, func() { p.Do(m.Redis.Client.Send(), execute, m.Redis.Client.Receive()) })
}

// bounded waits for a store no longer than a call may take.
func (m *modelLedger) bounded(p *sim.Process, call func()) {
	if err := p.Within(m.limit, call); err != nil {
		p.Fail(err)
	}
}

// script is one script.
func (m *modelCounts) script(p *sim.Process, name string, effect func()) {
	m.command(p, sim.Times{name: 1}, effect)
}

// Change is counting.Change.
func (m *modelCounts) Change(ctx context.Context, req Request, likes bool) (Change, error) {
	p := sim.In(ctx)
	if req.Video == 0 || req.Video > uint64(m.p.Videos) {
		return Change{}, ErrUnknownVideo
	}
	began := p.Now()
	done, err := m.apply(m, p, req, likes)
	if err != nil {
		return Change{}, err
	}
	m.append(p, eventOf(req, likes, done))
	if took := p.Now() - began; took > settleTime {
		return Change{}, fmt.Errorf("logging an interaction took %v", took)
	}
	return Change{done.changed}, nil
}

// changed is changeScript.
func (m *modelCounts) changed(
	p *sim.Process, req Request, likes bool,
) (done applied, err error) {
	m.script(p, costChange, func() {
		epoch, is := m.metas.Get(req.Video)
		if !is {
			err = ErrNotReady
			return
		}
		who := pairID{req.Video, req.User}
		known, _ := m.members.Get(who)
		done = m.write(who, known, pair{req.User, likes, nextVersion(known, epoch), req.OpID},
			m.shard(req.OpID))
	})
	return done, err
}

// shard is the counter that an interaction counts in.
func (m *modelCounts) shard(op uint64) uint64 { return spread(op) % uint64(m.shards) }

// nextVersion is more than the last, and more than any of an earlier epoch.
func nextVersion(known pair, epoch int64) int64 {
	return max(known.version, epoch*versionsPerEpoch) + 1
}

// write is writePair.
func (m *modelCounts) write(who pairID, known, now pair, shard uint64) (done applied) {
	if known.liked != now.liked {
		done.changed = true
		m.count(who.video, shard, now.liked)
	}
	part := [2]uint64{who.video, uint64(partOf(who.user))}
	if known.version == 0 {
		m.fields[part] = append(m.fields[part], who.user)
	}
	m.members.Set(who, now)
	done.version = now.version
	return done
}

func (m *modelCounts) count(video, shard uint64, likes bool) {
	n, _ := m.counters.Get([2]uint64{video, shard})
	if likes {
		n++
	} else {
		n--
	}
	m.counters.Set([2]uint64{video, shard}, n)
}

// append is eventLog.append.
func (m *modelCounts) append(p *sim.Process, events ...Event) {
	if len(events) == 1 {
		m.produce(p, events[0])
		return
	}
	err := p.All(len(events), func(p *sim.Process, i int) { m.produce(p, events[i]) })
	if err != nil {
		p.Fail(err)
	}
}

// produce logs an event.
func (m *modelCounts) produce(p *sim.Process, e Event) {
	partition := int(spread(e.Video*versionsPerEpoch^e.User) % uint64(m.ends))
	p.Do(m.log.Produce(partition, e, eventBytes))
}

// Count is counting.Count.
func (m *modelCounts) Count(ctx context.Context, req CountRequest) (Count, error) {
	if req.Video == 0 || req.Video > uint64(m.p.Videos) {
		return Count{}, ErrUnknownVideo
	}
	return m.cache.get(ctx, cacheKey{0, req.Video}, func(ctx context.Context) (c Count, err error) {
		m.command(sim.In(ctx), sim.Times{costHGet: 1, costMGet: float64(m.shards), costPFGet: 1},
			func() {
				if _, is := m.metas.Get(req.Video); !is {
					err = ErrNotReady
				}
				c = m.sum(req.Video)
			})
		return c, err
	})
}

// sum is what the counters of a video say. Viewers are exact where Redis estimates.
func (m *modelCounts) sum(video uint64) Count {
	c := Count{Video: video}
	for shard := range uint64(m.shards) {
		n, _ := m.counters.Get([2]uint64{video, shard})
		c.Count += n
	}
	c.Viewers, _ = m.views.Get(video)
	return c
}

// View is counting.View.
func (m *modelCounts) View(ctx context.Context, req Request) (api.Nothing, error) {
	if req.Video == 0 || req.Video > uint64(m.p.Videos) {
		return api.Nothing{}, ErrUnknownVideo
	}
	m.script(sim.In(ctx), costPFAdd, func() {
		who := pairID{req.Video, req.User}
		if _, again := m.sketches.Get(who); !again {
			m.sketches.Set(who, struct{}{})
			n, _ := m.views.Get(req.Video)
			m.views.Set(req.Video, n+1)
		}
	})
	return api.Nothing{}, nil
}

// roles begins the ledger's workers and the repairer.
func (m *modelCounts) roles(cfg sut.Config) {
	parts := make([][]int, max(1, cfg.Replicas[RoleLedger]))
	for partition := range m.ends {
		n := partition % len(parts)
		parts[n] = append(parts[n], partition)
	}
	for _, partitions := range parts {
		m.readers = append(m.readers, m.log.Consumer(partitions...))
	}
	m.Role(RoleLedger, len(parts), sut.AfterError, func(r *sim.Replica) []func(*sim.Process) {
		conns := m.Postgres.OwnConns(r.Name, 1, m.limit)
		return []func(*sim.Process){func(p *sim.Process) {
			m.writeBehind(p, conns, m.readers[r.Number], parts[r.Number])
		}}
	})
	conns := m.Postgres.OwnConns(RoleRepairer, 1, m.limit)
	m.Role(RoleRepairer, 1, sut.AfterError, func(*sim.Replica) []func(*sim.Process) {
		r := &modelRepair{modelCounts: m, conns: conns, waits: map[uint64]*modelWait{},
			seen: map[uint64]map[uint64]int64{}}
		return []func(*sim.Process){func(p *sim.Process) {
			for {
				r.step(p)
				p.Do(m.Sim.Delay(m.p.RepairEvery.D()))
			}
		}}
	})
}

// writeBehind is backend.writeBehind with followLedger: it begins where the ledger is.
func (m *modelCounts) writeBehind(
	p *sim.Process, conns *sim.Conns, reader *sim.Consumer[Event], partitions []int,
) {
	applied := m.readApplied(p, conns)
	for _, partition := range partitions {
		reader.Seek(partition, int(applied[partition]))
	}
	for {
		reader.Fetch(p, pollSize, m.limit)
		var batch []Event
		spans := map[int32]span{}
		write := func() {
			m.applyBatch(p, conns, batch, spans)
			batch, spans = nil, map[int32]span{}
		}
		var fetched []func()
		reader.Fetched(func(partition, offset int, e Event) {
			fetched = append(fetched, func() {
				s, begun := spans[int32(partition)]
				if !begun {
					s.first = int64(offset)
				}
				s.next = int64(offset) + 1
				spans[int32(partition)], batch = s, append(batch, e)
			})
		})
		for i, add := range fetched {
			if add(); len(batch) == batchSize || i == len(fetched)-1 {
				write()
			}
		}
		p.Passed(PlaceBetween)
		m.bounded(p, func() { p.Do(reader.Commit()) })
	}
}

// readApplied is postgres.applied.
func (m *modelCounts) readApplied(p *sim.Process, conns *sim.Conns) (offsets []int64) {
	conns.Exec(p, costApplied, func() { offsets = m.offsets() })
	return offsets
}

func (m *modelCounts) offsets() []int64 {
	offsets := make([]int64, m.ends)
	for n := range offsets {
		offsets[n], _ = m.applied.Get(int32(n))
	}
	return offsets
}

// applyBatch is backend.apply: one transaction whose statements are sent together. The epochs are
// locked FOR UPDATE where the design shares the locks among its workers.
func (m *modelCounts) applyBatch(
	p *sim.Process, conns *sim.Conns, batch []Event, spans map[int32]span,
) {
	epochs, pg := map[uint64]int64{}, m.Postgres
	err := conns.Transaction(p, func() error {
		p.Do(pg.Client.Send(), pg.Burn(costGap))
		partitions := slices.Sorted(maps.Keys(spans))
		for _, n := range partitions {
			if at, _ := m.applied.Get(n); spans[n].first > at {
				return errGap
			}
		}
		p.Do(pg.Burn(costLock))
		for _, e := range batch {
			epochs[e.Video] = 0
		}
		for _, video := range slices.Sorted(maps.Keys(epochs)) {
			p.Do(m.videos.Lock(video))
			row, _ := m.videos.Get(video)
			epochs[video] = row.epoch
		}
		p.Do(pg.BurnTimes(costApply, float64(len(batch))))
		m.merge(p, batch)
		p.Do(pg.Burn(costMove))
		for _, n := range partitions {
			p.Do(m.applied.Lock(n))
			at, _ := m.applied.Get(n)
			m.applied.Set(n, max(at, spans[n].next))
		}
		p.Do(pg.Client.Receive())
		return nil
	})
	if err != nil {
		p.Fail(err)
	}
	for _, e := range batch {
		if e.epoch() < epochs[e.Video] {
			m.adopt(p, e.Video, pair{e.User, e.Liked, e.Version, e.OpID})
		}
	}
}

// merge is applyBatch: events in the order of their identities, and the newest of each pair.
func (m *modelCounts) merge(p *sim.Process, batch []Event) {
	for _, e := range slices.SortedStableFunc(slices.Values(batch), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.OpID, b.OpID), cmp.Compare(a.Version, b.Version))
	}) {
		m.logged(p, e)
	}
	var last pairID
	for _, e := range slices.SortedStableFunc(slices.Values(batch), func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Video, b.Video), cmp.Compare(a.User, b.User),
			cmp.Compare(b.Version, a.Version))
	}) {
		who := pairID{e.Video, e.User}
		if who == last {
			continue
		}
		last = who
		p.Do(m.likes.Lock(who))
		if row, is := m.likes.Get(who); e.Version > row.version {
			m.put(who, pair{e.User, e.Liked, e.Version, e.OpID}, !is)
		}
	}
}

// adopt is store.adopt: a video that is being rebuilt needs to be told nothing.
func (m *modelCounts) adopt(p *sim.Process, video uint64, newer pair) {
	m.script(p, costAdopt, func() {
		who := pairID{video, newer.user}
		known, _ := m.members.Get(who)
		if _, is := m.metas.Get(video); is && known.version < newer.version {
			m.write(who, known, newer, 0)
		}
	})
}

// modelRepair is repair.
type modelRepair struct {
	*modelCounts
	conns   *sim.Conns
	waits   map[uint64]*modelWait
	seen    map[uint64]map[uint64]int64
	compare time.Duration
}

// modelWait is wait.
type modelWait struct {
	since  time.Duration
	target []int64
}

// step is a step of repair.work.
func (r *modelRepair) step(p *sim.Process) {
	var lost []uint64
	r.command(p, sim.Times{costExists: float64(r.p.Videos)}, func() {
		for n := range uint64(r.p.Videos) {
			if _, is := r.metas.Get(n + 1); !is {
				lost = append(lost, n+1)
			}
		}
	})
	for _, video := range lost {
		r.restore(p, video)
	}
	if len(lost) > 0 || p.Now() < r.compare {
		return
	}
	began := p.Now()
	for n := range uint64(r.p.Videos) {
		r.repair(p, n+1)
	}
	r.compare = p.Now() + repairRest*(p.Now()-began)
}

// restore is repair.restore.
func (r *modelRepair) restore(p *sim.Process, video uint64) {
	w := r.waits[video]
	if w == nil {
		w = &modelWait{since: p.Now()}
		r.waits[video] = w
	}
	if p.Now()-w.since < settleTime {
		return
	}
	if w.target == nil {
		r.script(p, costTell, func() {}) // no server has a buffer
		r.bounded(p, func() { p.Do(r.Kafka.Ask()) })
		for n := range r.ends {
			w.target = append(w.target, int64(len(r.log.Records(n))))
		}
	}
	for n, at := range r.readApplied(p, r.conns) {
		if at < w.target[n] {
			return
		}
	}
	if ahead, _ := r.unequal(p, video); len(ahead) > 0 {
		w.target = nil
		r.relog(p, video, ahead)
		return
	}
	var epoch int64
	r.conns.Exec(p, costEpoch, func() {
		p.Do(r.videos.Lock(video))
		row, _ := r.videos.Get(video)
		row.epoch++
		r.videos.Set(video, row)
		epoch = row.epoch
	})
	pairs := r.readPairs(p, video)
	p.Passed(PlaceRebuilt)
	r.rebuild(p, video, epoch, pairs)
	delete(r.waits, video)
	delete(r.seen, video)
}

// rebuild is store.rebuild, with one HSET for each part.
func (r *modelRepair) rebuild(p *sim.Process, video uint64, epoch int64, pairs []pair) {
	fields := 0
	for part := range uint64(memberParts) {
		fields += len(r.fields[[2]uint64{video, part}])
	}
	r.command(p, sim.Times{costDel: 1, costFree: float64(fields)}, func() {
		r.metas.Delete(video)
		for part := range uint64(memberParts) {
			for _, user := range r.fields[[2]uint64{video, part}] {
				r.members.Delete(pairID{video, user})
			}
		}
		for shard := range uint64(r.shards) {
			r.counters.Delete([2]uint64{video, shard})
		}
	})
	likes := int64(0)
	parts := map[int64][]pair{}
	for _, row := range pairs {
		if row.liked {
			likes++
			parts[partOf(row.user)] = append(parts[partOf(row.user)], row)
		}
	}
	for part := range int64(memberParts) {
		for some := range slices.Chunk(parts[part], chunk) {
			r.command(p, sim.Times{costHSet: float64(len(some))}, func() {
				key := [2]uint64{video, uint64(part)}
				for _, row := range some {
					r.fields[key] = append(r.fields[key], row.user)
					r.members.Set(pairID{video, row.user}, row)
				}
			})
		}
	}
	r.script(p, costSet, func() { r.counters.Set([2]uint64{video, 0}, likes) })
	r.command(p, sim.Times{costHSet: 2}, func() { r.metas.Set(video, epoch) })
}

// relog is repair.relog.
func (r *modelRepair) relog(p *sim.Process, video uint64, pairs []pair) {
	for some := range slices.Chunk(pairs, chunk) {
		events := make([]Event, len(some))
		for i, known := range some {
			events[i] = Event{OpID: known.op, Video: video, User: known.user, Liked: known.liked,
				Version: known.version}
		}
		r.append(p, events...)
	}
}

// repair is repair.repair.
func (r *modelRepair) repair(p *sim.Process, video uint64) {
	ahead, behind := r.unequal(p, video)
	now, still := make(map[uint64]int64, len(ahead)), []pair(nil)
	for _, known := range ahead {
		now[known.user] = known.version
		if r.seen[video][known.user] == known.version {
			still = append(still, known)
		}
	}
	r.relog(p, video, still)
	r.seen[video] = now
	for _, row := range behind {
		r.adopt(p, video, row)
	}
}

// unequal is backend.unequal: it reads the members part by part, and then the ledger.
func (r *modelRepair) unequal(p *sim.Process, video uint64) (ahead, behind []pair) {
	var members []pair
	for part := range uint64(memberParts) {
		key := [2]uint64{video, part}
		r.command(p, sim.Times{costFields: float64(1 + len(r.fields[key]))}, func() {
			members = append(members, r.partOfVideo(key)...)
		})
	}
	return compared(members, r.readPairs(p, video))
}

// partOfVideo are the members of a part.
func (m *modelCounts) partOfVideo(key [2]uint64) (list []pair) {
	m.fields[key] = distinct(m.fields[key])
	for _, user := range m.fields[key] {
		if known, is := m.members.Get(pairID{key[0], user}); is {
			list = append(list, known)
		}
	}
	return list
}

// readPairs is postgres.pairs: a snapshot, in which a statement sets how long it may take.
func (r *modelRepair) readPairs(p *sim.Process, video uint64) (rows []pair) {
	_ = r.conns.Transaction(p, func() error {
		r.conns.Query(p, sim.Begin, func() {})
		p.Do(r.Postgres.Client.Send(), r.Postgres.BurnTimes(costPairs, float64(1+len(r.users[video]))))
		rows = r.pairs(video)
		p.Do(r.Postgres.Client.Receive())
		return nil
	})
	return rows
}

// pending is backend.pending.
func (m *modelCounts) pending() (left int64, what string) {
	for n, at := range m.offsets() {
		left += int64(len(m.log.Records(n))) - at
	}
	if left > 0 {
		return left, fmt.Sprintf("%d records of the log are not in the ledger", left)
	}
	for n := range uint64(m.p.Videos) {
		if _, is := m.metas.Get(n + 1); !is {
			return 1, fmt.Sprintf("video %d has no counters in Redis", n+1)
		}
		ahead, behind := compared(m.membersOf(n+1), m.pairs(n+1))
		if users := len(ahead) + len(behind); users > 0 {
			return int64(users), fmt.Sprintf("video %d: Redis is ahead of the ledger with %d users and "+
				"behind with %d", n+1, len(ahead), len(behind))
		}
	}
	return 0, ""
}

func (m *modelCounts) membersOf(video uint64) (list []pair) {
	for part := range uint64(memberParts) {
		list = append(list, m.partOfVideo([2]uint64{video, part})...)
	}
	return list
}

// gauge is backend.look.
func (m *modelCounts) gauge(p *sim.Process, conns *sim.Conns) Look {
	ends := func() (n int64) {
		p.Do(m.Kafka.Ask())
		for partition := range m.ends {
			n += int64(len(m.log.Records(partition)))
		}
		return n
	}
	look := Look{Before: ends()}
	p.Do(m.Kafka.Ask())
	look.Committed = m.committed()
	look.Applied = m.readApplied(p, conns)
	look.After = ends()
	return look
}

func (m *modelCounts) committed() []int64 {
	list := make([]int64, m.ends)
	for partition := range list {
		list[partition] = int64(m.readers[partition%len(m.readers)].Committed(partition))
	}
	return list
}

// audit is counted.audit.
func (m *modelCounts) audit() Audit {
	contract := Contract{Ack: AckLog, Regions: 1, StalenessNS: m.p.ReadTTL.D().Nanoseconds()}
	a := m.audited(contract, func(v *VideoAudit) {
		count := m.sum(v.Video)
		if _, is := m.metas.Get(v.Video); !is {
			count.Count = 0
		}
		v.Shards, v.Counts, v.Viewers, v.Members = m.shards, []int64{count.Count}, count.Viewers, Packed{}
		for _, known := range m.membersOf(v.Video) {
			if known.liked {
				v.Members = append(v.Members, known.user)
			}
		}
		slices.Sort(v.Members)
	})
	for partition, at := range m.committed() {
		a.Log = append(a.Log, PartitionAudit{Partition: int32(partition), Committed: at,
			Records: append(PackedEvents{}, m.log.Records(partition)...)})
	}
	return a
}
