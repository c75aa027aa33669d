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
	costApply    = "apply"    // sqlApply
	costRead     = "read"     // reads a counter
	costSplit    = "split"    // looks for counters with several parts
	costCompact  = "compact"  // sqlCompact
	costNewest   = "newest"   // looks for the newest map
	costDeclares = "declares" // adds a map
)

// assumedCosts are what statements cost on a CPU of 2023, until somebody measures them.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costInsert: us(60), costUpdate: us(60),
			costApply: us(500), costRead: us(60), costSplit: us(500), costCompact: us(100),
			costNewest: us(40), costDeclares: us(50)},
	}
}

// countersModel is the tables of designs whose reads are as of now, and their transactions.
type countersModel struct {
	*sim.Cluster
	p        Params
	limit    time.Duration // of a call
	db       *sim.Conns
	ops      *sim.Table[uint64, OpRow]
	counters *sim.Table[part, int64]
	maps     *sim.Table[int, int] // shards by version
}

// part is the primary key of counters.
type part struct {
	key            uint64
	version, shard int
}

// modelService is service: a design says how it adds.
type modelService struct {
	*countersModel
	add     func(p *sim.Process, list []AddRequest) []error
	waiting func() (int64, string)
}

// modelled makes models of a design.
func modelled(
	open func(*countersModel) *modelService, more ...func(*countersModel, *sim.Process),
) func(*sim.Cluster, Params, sut.Config) design.Model[Counters] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Counters] {
		m := &countersModel{Cluster: c, p: p, limit: stores.Timeout(cfg), db: c.Postgres.Conns(),
			ops:      sim.NewTable[uint64, OpRow](c.Postgres, "ops"),
			counters: sim.NewTable[part, int64](c.Postgres, "counters"),
			maps:     sim.NewTable[int, int](c.Postgres, "maps")}
		s := open(m)
		for _, role := range more {
			c.Sim.Go(func(p *sim.Process) { role(m, p) })
		}
		return design.Model[Counters]{Domain: s, Pending: s.waiting,
			Audit: func() any { return m.audit() }}
	}
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

// Read adds up the parts of a counter in the newest map.
func (m *countersModel) Read(ctx context.Context, req ReadRequest) (Value, error) {
	v := Value{Key: req.Key}
	m.db.Exec(sim.In(ctx), costRead, func() {
		version, shards := m.newest()
		for shard := -1; shard < shards; shard++ {
			n, _ := m.counters.Get(part{req.Key, version, shard})
			v.Value += n
		}
	})
	return v, nil
}

// insert inserts an add's number, and says whether it is new.
func (m *countersModel) insert(p *sim.Process, a AddRequest) bool {
	p.Do(m.ops.Lock(a.ID))
	if _, again := m.ops.Get(a.ID); again {
		return false
	}
	m.ops.Set(a.ID, OpRow{ID: a.ID, Key: a.Key, User: a.User, Delta: a.Delta})
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
		if m.insert(p, c.AddRequest) {
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
	return a
}

// batcherModel is batcher.
type batcherModel struct {
	*countersModel
	write  func(p *sim.Process, batch []AddRequest) error
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
	m *countersModel, write func(*sim.Process, []AddRequest) error,
) *batcherModel {
	b := &batcherModel{countersModel: m, write: write, some: sim.NewSignal(m.Sim),
		draw: m.Sim.Stream("writeheavy.flush")}
	for range writers {
		m.Sim.Go(b.run)
	}
	return b
}

// join puts adds that can be made into the queue and waits until their batches are written.
func (b *batcherModel) join(p *sim.Process, list []AddRequest) []error {
	errs, asked := make([]error, len(list)), make([]*modelWaiting, len(list))
	for i, req := range list {
		switch {
		case !sound(req.Delta):
			errs[i] = ErrRejected
		case len(b.queue) >= b.p.Queue:
			errs[i] = ErrShed
		default:
			asked[i] = &modelWaiting{AddRequest: req, done: sim.NewSignal(b.Sim)}
			b.queue = append(b.queue, asked[i])
			b.inside++
			b.some.Wake()
		}
	}
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
		list := make([]AddRequest, len(batch))
		for i, w := range batch {
			list[i] = w.AddRequest
		}
		var err error
		if failed := p.Within(b.limit, func() { err = b.write(p, list) }); failed != nil {
			err = fmt.Errorf("flushing: %w", failed)
		}
		for _, w := range batch {
			w.err, w.over = err, true
			w.done.Wake()
		}
		b.inside -= int64(len(batch))
	}
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
