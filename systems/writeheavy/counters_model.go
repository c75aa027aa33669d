package writeheavy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements whose costs the models need.
const (
	costInsert   = "insert"   // inserts an add's number
	costUpdate   = "update"   // adds to the row of its counter
	costApply    = "apply"    // sqlApply, for each add
	costBatch    = "batch"    // notes a batch
	costBury     = "bury"     // sqlBury
	costStarts   = "starts"   // reads how far partitions are
	costMove     = "move"     // moves one on
	costRound    = "round"    // sqlRound, for each partial sum
	costRead     = "read"     // reads a counter
	costSplit    = "split"    // looks for counters with several parts
	costCompact  = "compact"  // sqlCompact
	costNewest   = "newest"   // looks for the newest map
	costDeclares = "declares" // adds a map

	costCount = "count" // what an add in memory costs the application
	costTake  = "take"  // reduce_tree.lua, for each add
	costInbox = "inbox" // looks into an inbox, or moves what is in it
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(40), "kafka": us(30),
			costCount: us(0.5)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costInsert: us(60), costUpdate: us(60),
			costApply: us(8), costBatch: us(40), costBury: us(50), costStarts: us(40), costMove: us(60),
			costRound: us(12), costRead: us(60), costSplit: us(500), costCompact: us(100),
			costNewest: us(40), costDeclares: us(50)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(4), costTake: us(1.2),
			costInbox: us(15)},
		Kafka: map[string]sim.Cost{"request": us(30), "batch": us(10), "record": us(0.5),
			"byte": us(0.002), "fetch": us(30)},
	}
}

// countersModel is the tables of schema.sql and their transactions.
type countersModel struct {
	*sim.Cluster
	p        Params
	cfg      sut.Config
	limit    time.Duration // of a call
	db       *sim.Conns
	ops      *sim.Table[uint64, OpRow]
	counters *sim.Table[part, int64]
	maps     *sim.Table[int, int] // shards by version
	progress *sim.Table[int, int64]
	dead     *sim.Table[uint64, DeadRow]
	batches  *sim.Table[int64, BatchRow]
	written  int64           // the last of batches
	services []*modelService // of the processes of the API

	// What designs do in their own way: serve makes a process of the API; shardOf is the shard of a
	// counter whose reads have positions, nil where they are as of now; left is what roles have still
	// to do, and more what an audit has beside the tables.
	serve   func() *modelService
	shardOf func(key uint64) int
	left    func() (int64, string)
	more    func(*Audit)
}

// part is the primary key of counters.
type part struct {
	key            uint64
	version, shard int
}

// modelService is service in one life of a process of the API: a design says how it adds, what
// works in the process, and how much waits in its memory.
type modelService struct {
	*countersModel
	add     func(p *sim.Process, list []AddRequest) []error
	works   []func(*sim.Process)
	waiting func() (int64, string)
}

// modelled makes models of a design, which says what it does in its own way and starts its roles.
func modelled(
	own func(*countersModel),
) func(*sim.Cluster, Params, sut.Config) design.Model[Counters] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Counters] {
		pg := c.Postgres
		m := &countersModel{Cluster: c, p: p, cfg: cfg, limit: stores.Timeout(cfg), db: pg.Conns(),
			ops:      sim.NewTable[uint64, OpRow](pg, "ops"),
			counters: sim.NewTable[part, int64](pg, "counters"),
			maps:     sim.NewTable[int, int](pg, "maps"),
			progress: sim.NewTable[int, int64](pg, "progress"),
			dead:     sim.NewTable[uint64, DeadRow](pg, "dead"),
			batches:  sim.NewTable[int64, BatchRow](pg, "batches"),
			services: make([]*modelService, max(1, cfg.Replicas[sut.APIRole]))}
		own(m)
		return design.Model[Counters]{Pending: m.pending, Audit: func() any { return m.audit() },
			Open: func(r *sim.Replica) (Counters, []func(*sim.Process)) {
				s := m.serve()
				m.services[r.Number] = s
				return s, s.works
			}}
	}
}

// roleLimit bounds an operation of a role.
const roleLimit = 2 * time.Second

// pending is what waits in the memory of the API, and then what roles have still to do.
func (m *countersModel) pending() (left int64, what string) {
	for _, s := range m.services {
		if s.waiting != nil && left == 0 {
			left, what = s.waiting()
		}
	}
	if left == 0 && m.left != nil {
		return m.left()
	}
	return left, what
}

// Add makes an add.
func (s *modelService) Add(ctx context.Context, req AddRequest) (none api.Nothing, err error) {
	return none, s.add(sim.In(ctx), []AddRequest{req})[0]
}

// Batch makes each add for itself, and says what became of it.
func (s *modelService) Batch(ctx context.Context, req BatchRequest) (reply BatchReply, err error) {
	list := make([]AddRequest, len(req.Records))
	for i, r := range req.Records {
		list[i] = r.add(req.Attempt)
	}
	for i, err := range s.add(sim.In(ctx), list) {
		reply.Results = append(reply.Results, Result{list[i].ID, resultOf(err)})
	}
	return reply, nil
}

// newest is the newest map, which counts.
func (m *countersModel) newest() (version, shards int) {
	for _, v := range m.maps.Keys() {
		version = max(version, v)
	}
	shards, is := m.maps.Get(version)
	if !is {
		return 1, m.p.Shards
	}
	return version, shards
}

// Read adds up the parts of a counter in the newest map or, if reads have positions, reads its one
// part.
func (m *countersModel) Read(ctx context.Context, req ReadRequest) (Value, error) {
	v := Value{Key: req.Key}
	m.db.Exec(sim.In(ctx), costRead, func() {
		if m.shardOf != nil {
			shard := m.shardOf(req.Key)
			n, is := m.counters.Get(part{req.Key, 1, shard})
			if v.Value = n; is {
				v.AsOf, _ = m.progress.Get(shard)
			}
			return
		}
		version, shards := m.newest()
		for shard := -1; shard < shards; shard++ {
			n, _ := m.counters.Get(part{req.Key, version, shard})
			v.Value += n
		}
	})
	return v, nil
}

// insert inserts an add's number, and says whether it is new.
func (m *countersModel) insert(p *sim.Process, a AddRequest, pos int64) bool {
	p.Do(m.ops.Lock(a.ID))
	if _, again := m.ops.Get(a.ID); again {
		return false
	}
	m.ops.Set(a.ID, OpRow{ID: a.ID, Key: a.Key, User: a.User, Delta: a.Delta, Pos: pos})
	return true
}

// plus adds to a part of a counter.
func (m *countersModel) plus(p *sim.Process, k part, n int64) {
	p.Do(m.counters.Lock(k))
	old, _ := m.counters.Get(k)
	m.counters.Set(k, old+n)
}

// apply is what sqlApply does.
func (m *countersModel) apply(p *sim.Process, version int, list []counted) {
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(a.ID, b.ID) })
	sums := map[part]int64{}
	var parts []part
	for _, c := range list {
		if m.insert(p, c.AddRequest, c.pos) {
			k := part{c.Key, version, c.shard}
			if _, known := sums[k]; !known {
				parts = append(parts, k)
			}
			sums[k] += c.Delta
		}
	}
	slices.SortFunc(parts, byKey)
	for _, k := range parts {
		m.plus(p, k, sums[k])
	}
}

func byKey(a, b part) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.version, b.version),
		cmp.Compare(a.shard, b.shard))
}

// audit is audited.
func (m *countersModel) audit() Audit {
	a := Audit{Ops: []OpRow{}, Counters: []CounterRow{}, Dead: []DeadRow{}}
	for _, id := range slices.Sorted(slices.Values(m.ops.Keys())) {
		row, _ := m.ops.Get(id)
		a.Ops = append(a.Ops, row)
	}
	version, _ := m.newest()
	for _, k := range slices.SortedFunc(slices.Values(m.counters.Keys()), byKey) {
		if n, _ := m.counters.Get(k); k.version == version {
			a.Counters = append(a.Counters, CounterRow{Key: k.key, Shard: int64(k.shard), Value: n})
		}
	}
	for _, id := range slices.Sorted(slices.Values(m.dead.Keys())) {
		row, _ := m.dead.Get(id)
		a.Dead = append(a.Dead, row)
	}
	if m.more != nil {
		m.more(&a)
	}
	return a
}

// bury is sqlBury.
func (m *countersModel) bury(p *sim.Process, a AddRequest, tries int) {
	p.Do(m.dead.Lock(a.ID))
	if _, again := m.dead.Get(a.ID); !again {
		m.dead.Set(a.ID, DeadRow{a.ID, a.Key, a.User, a.Delta, int64(tries)})
	}
}

// batcherModel is batcher.
type batcherModel struct {
	*countersModel
	write  func(p *sim.Process, batch []*modelWaiting)
	queue  []*modelWaiting
	inside int64
	some   *sim.Signal
	draw   *sim.Stream
}

// modelWaiting is an add that waits for its batch.
type modelWaiting struct {
	AddRequest
	err  error
	over bool
	done *sim.Signal
}

func newBatcherModel(
	m *countersModel, write func(*sim.Process, []*modelWaiting),
) *batcherModel {
	return &batcherModel{countersModel: m, write: write, some: sim.NewSignal(m.Sim),
		draw: m.Sim.Stream("writeheavy.flush")}
}

// service adds in some way.
func (b *batcherModel) service(add func(*sim.Process, []AddRequest) []error) *modelService {
	return &modelService{b.countersModel, add, slices.Repeat([]func(*sim.Process){b.run}, writers),
		b.waiting}
}

// put puts adds into the queue.
func (b *batcherModel) put(list []AddRequest) (asked []*modelWaiting, errs []error) {
	errs, asked = make([]error, len(list)), make([]*modelWaiting, len(list))
	for i, req := range list {
		if len(b.queue) >= b.p.Queue {
			errs[i] = ErrShed
			continue
		}
		asked[i] = &modelWaiting{AddRequest: req, done: sim.NewSignal(b.Sim)}
		b.queue = append(b.queue, asked[i])
		b.inside++
		b.some.Wake()
	}
	return asked, errs
}

// join puts adds into the queue and waits until their batches are written.
func (b *batcherModel) join(p *sim.Process, list []AddRequest) []error {
	asked, errs := b.put(list)
	for i, w := range asked {
		if w == nil {
			continue
		}
		for !w.over {
			p.Do(w.done.Wait())
		}
		errs[i] = w.err
	}
	return errs
}

// run collects and writes.
func (b *batcherModel) run(p *sim.Process) {
	for {
		for len(b.queue) == 0 {
			p.Do(b.some.Wait())
		}
		batch := b.collect(p)
		b.write(p, batch)
		b.inside -= int64(len(batch))
	}
}

// told says what became of some adds.
func told(batch []*modelWaiting, err error) {
	for _, w := range batch {
		w.err, w.over = err, true
		w.done.Wake()
	}
}

// placed are the adds of a batch, each with its shard.
func placed(batch []*modelWaiting, shard func(AddRequest) int) []counted {
	list := make([]counted, len(batch))
	for i, w := range batch {
		list[i] = counted{AddRequest: w.AddRequest, shard: shard(w.AddRequest)}
	}
	return list
}

// collect makes a batch.
func (b *batcherModel) collect(p *sim.Process) (batch []*modelWaiting) {
	every := int(b.p.FlushEvery.D())
	over := p.Now() + time.Duration(every/2+b.draw.IntN(every))
	for len(batch) < b.p.FlushMost {
		if n := min(len(b.queue), b.p.FlushMost-len(batch)); n > 0 {
			batch = append(batch, b.queue[:n]...)
			b.queue = b.queue[n:]
			continue
		}
		if p.Now() >= over || p.Within(over-p.Now(), func() { p.Do(b.some.Wait()) }) != nil {
			break
		}
	}
	return batch
}

func (b *batcherModel) waiting() (left int64, what string) {
	return b.inside, fmt.Sprintf("%d adds wait for their batch", b.inside)
}
