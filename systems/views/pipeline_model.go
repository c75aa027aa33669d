package views

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The statements and commands whose costs the models need, and what events cost the application.
const (
	costTake      = "take"      // takes partitions
	costMove      = "move"      // moves stands on
	costDrops     = "drops"     // adds what was turned away
	costWindows   = "windows"   // adds to windows
	costTotals    = "totals"    // adds to totals
	costCountOne  = "countone"  // counts one view
	costRules     = "rules"     // reads the rules
	costAddRules  = "addrules"  // each statement that adds some
	costViews     = "views"     // reads a count
	costMerge     = "merge"     // merges the counts of shards
	costBegin     = "beginning" // each statement that begins a generation
	costRecounts  = "recounts"  // looks for generations to count
	costCutOver   = "cutover"   // lets readers see one
	costLook      = "look"      // each statement of the gauge
	costStand     = "stand"     // each row that moves on
	costDrop      = "drop"      // each row of what was turned away
	costSum       = "sum"       // each row of windows or totals
	costJudge     = "judge"     // the script that decides candidates
	costCandidate = "candidate" // each of them
	costMemory    = "memory"    // asks Redis what it remembers
	costFilter    = "filter"    // an event in the filter
	costCounter   = "counter"   // a view in the counter
)

// assumedCosts are what these cost on a CPU of 2023, until somebody measures them. A row that is
// added to is assumed to cost less than one of likes' batches, which is in two tables.
func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(40), "kafka": us(30),
			costFilter: us(2), costCounter: us(1)},
		Postgres: map[string]sim.Cost{sim.Begin: us(25), costTake: us(120), costMove: us(80),
			costDrops: us(70), costWindows: us(80), costTotals: us(70), costCountOne: us(130),
			costStand: us(15), costDrop: us(15), costSum: us(15),
			costRules: us(80), costAddRules: us(60), costViews: us(80), costMerge: us(1000),
			costBegin: us(80), costRecounts: us(50), costCutOver: us(150), costLook: us(500)},
		Redis: map[string]sim.Cost{"turn": us(8), "connection": us(4), costJudge: us(20),
			costCandidate: us(3), costMemory: us(1)},
		Kafka: map[string]sim.Cost{"request": us(30), "batch": us(10), "record": us(0.5),
			"byte": us(0.002), "fetch": us(30)},
	}
}

// pipelineModel is the pipeline on simulated stores. What filters and counters do with records and
// decisions is their own code; the topics, the books and Redis are simulated, and each partition
// has the same reader from beginning to end.
type pipelineModel struct {
	*sim.Cluster
	*modelBooks
	st           *opened
	watch, valid *sim.Topic[*kgo.Record]
	spread       kgo.TopicPartitioner
	key          func(*Heartbeat) string
	rules        *ruleBook
	// What is remembered, as windows keeps it.
	memory   *sim.Map[string, string]
	sessions *sim.Map[string, string]
	repeats  *sim.Map[field, bool]
	rates    *sim.Map[field, int64]
}

// modelled makes models of a design whose counter has changes, whose heartbeats go to the
// partition of a key, and whose counts are merged or not.
func modelled(
	changes func(*counter), key func(*Heartbeat) string, merged bool,
) func(*sim.Cluster, Params, sut.Config) design.Model[Pipeline] {
	return func(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Pipeline] {
		role := cfg
		role.Timeout, role.Logger = min(stores.Timeout(cfg), roleTimeout), slog.New(slog.DiscardHandler)
		role.FailPoint = c.Passed
		st := &opened{Params: p, Config: role}
		m := &pipelineModel{Cluster: c, st: st, key: key, modelBooks: newModelBooks(c, p, cfg, merged),
			watch:    sim.NewTopic[*kgo.Record](c.Kafka, topicWatch, cfg.Kafka.Partitions),
			valid:    sim.NewTopic[*kgo.Record](c.Kafka, topicValid, cfg.Kafka.Partitions),
			spread:   kgo.StickyKeyPartitioner(nil).ForTopic(topicWatch),
			memory:   sim.NewMap[string, string](c.Redis),
			sessions: sim.NewMap[string, string](c.Redis),
			repeats:  sim.NewMap[field, bool](c.Redis), rates: sim.NewMap[field, int64](c.Redis)}
		m.rules = m.newRules(m.modelBooks)
		for _, station := range []struct {
			name  string
			topic *sim.Topic[*kgo.Record]
			batch int
			work  func(r *modelReader, p *sim.Process, books *modelBooks)
		}{{"filter", m.watch, filterBatch, m.filters}, {"counter", m.valid, counterBatch,
			func(r *modelReader, p *sim.Process, b *modelBooks) {
				c := newCounter(st, b, 1, changes)
				c.group, c.committing = "counter", r.commit
				newCounterModel(p, r, c).work(p)
			}}} {
			n := max(1, cfg.Replicas[station.name])
			c.Role(station.name, n, sut.AfterError, func(r *sim.Replica) []func(*sim.Process) {
				return []func(*sim.Process){func(p *sim.Process) {
					books := m.on(c.Postgres.OwnConns(r.Name, 2, role.Timeout))
					station.work(m.reader(station.topic, station.batch, r.Number, n), p, books)
					p.Do(sim.NewSignal(c.Sim).Wait()) // it has no partition
				}}
			})
		}
		c.Role("reprocessor", 1, sut.AfterError, sim.Only(m.reprocessor))
		if merged {
			c.Role("merge", 1, sut.AfterError, sim.Only(m.merger))
		}
		gauge := m.on(c.Postgres.OwnConns("gauge", 1, 0))
		return design.Model[Pipeline]{Domain: m, Pending: m.pending, Audit: m.audit,
			Gauge: func(p *sim.Process) any { return m.look(p, gauge.conns) }}
	}
}

// byVideo is the key of designs in which a video has one partition.
func byVideo(h *Heartbeat) string { return h.Video }

// newRules is a book of rules that has those of the beginning.
func (m *pipelineModel) newRules(b *modelBooks) *ruleBook {
	rules := newRuleBook(b, m.p, m.st.Config.Logger)
	rules.now = func() time.Time { return time.Unix(0, int64(m.Sim.Now())) }
	rules.loaded, rules.authors = rules.now(), m.authors
	rules.newest = newRuleSet(m.p.rules())
	rules.sets[rules.newest.Version] = rules.newest
	return rules
}

// Watch writes a heartbeat into the log.
func (m *pipelineModel) Watch(ctx context.Context, req WatchRequest) (reply WatchReply, err error) {
	rules, err := m.rules.latest(ctx)
	if err != nil {
		return WatchReply{}, err
	}
	if _, known := m.rules.creator(req.Video); !known {
		return WatchReply{}, ErrUnknownVideo
	}
	h := req.heartbeat()
	r := &kgo.Record{Key: []byte(m.key(&h)), Value: encodeEvents([]Event{{h, rules.Version}})}
	partition := m.spread.Partition(r, m.partitions)
	sim.In(ctx).Do(m.watch.ProduceAll(partition, []*kgo.Record{r}, recordBytes,
		func(_ *kgo.Record, offset int) {
			at := Position{Partition: int32(partition), Offset: int64(offset)}
			reply.Position = PositionText(at.String())
		}))
	return reply, nil
}

func recordBytes(r *kgo.Record) int64 { return int64(len(r.Key) + len(r.Value)) }

// modelReader reads partitions of a topic, a fetch ahead as the driver does.
type modelReader struct {
	*pipelineModel
	consumer *sim.Consumer[*kgo.Record]
	batch    int // how many records it fetches at most
	member   *member
	ahead    map[int32]int64 // what is fetched next
	fetched  map[int32][]*kgo.Record
	arrived  *sim.Signal
	taken    *sim.Signal
	told     time.Duration // when Kafka was told last how far the books are
}

// reader reads the i-th of each n partitions of a topic.
func (m *pipelineModel) reader(
	topic *sim.Topic[*kgo.Record], batch, i, n int,
) *modelReader {
	r := &modelReader{pipelineModel: m, batch: batch, ahead: map[int32]int64{},
		fetched: map[int32][]*kgo.Record{}, arrived: sim.NewSignal(m.Sim), taken: sim.NewSignal(m.Sim)}
	var mine []int
	for p := i; p < m.partitions; p += n {
		mine = append(mine, p)
		r.ahead[int32(p)] = 0
	}
	if len(mine) > 0 {
		r.consumer = topic.Consumer(mine...)
	}
	return r
}

// joins gives the reader's partitions to a member, which is to take them, and begins to read.
func (r *modelReader) joins(p *sim.Process, m *member) {
	if r.consumer != nil {
		p.Go(r.fetch)
	}
	r.member, m.held = m, map[int32]*hold{}
	for n := range r.ahead {
		m.held[n] = &hold{stand: stand{partition: n}, stale: true}
	}
}

// commit is member.commit.
func (r *modelReader) commit(ctx context.Context, _ []move) error {
	p := sim.In(ctx)
	return p.Within(r.st.Config.Timeout, func() { p.Do(r.Kafka.Ask()) })
}

// fetch fetches whenever the last has been taken. Once a second a filter's tells Kafka how far it
// is.
func (r *modelReader) fetch(p *sim.Process) {
	for {
		r.consumer.Fetch(p, r.batch, r.st.Config.Timeout)
		r.consumer.Fetched(func(partition, offset int, v *kgo.Record) {
			v.Partition, v.Offset = int32(partition), int64(offset)
			r.fetched[v.Partition] = append(r.fetched[v.Partition], v)
			r.ahead[v.Partition] = v.Offset + 1
		})
		r.arrived.Wake()
		for len(r.fetched) > 0 {
			p.Do(r.taken.Wait())
		}
		if r.member.who.stage == stageFilter && p.Now()-r.told >= commitEvery {
			r.told = p.Now()
			_ = p.Within(r.st.Config.Timeout, func() { p.Do(r.consumer.Commit()) }) // lag looks larger
		}
	}
}

// poll is member.poll.
func (r *modelReader) poll(p *sim.Process, wait time.Duration) (list []batch, err error) {
	if err := r.resume(p); err != nil {
		return nil, err
	}
	if len(r.fetched) == 0 {
		_ = p.Within(wait, func() { p.Do(r.arrived.Wait()) }) // nothing came
	}
	for _, partition := range slices.Sorted(maps.Keys(r.fetched)) {
		records, h := r.fetched[partition], r.member.held[partition]
		for len(records) > 0 && records[0].Offset != h.read {
			records = records[1:] // from before the partition was set back
		}
		if len(records) > 0 {
			h.read = records[len(records)-1].Offset + 1
			list = append(list, batch{partition, records})
		}
	}
	clear(r.fetched)
	r.taken.Wake()
	return list, nil
}

// resume is member.resume.
func (r *modelReader) resume(p *sim.Process) error {
	var stale []int32
	for partition, h := range r.member.held {
		if h.stale {
			stale = append(stale, partition)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	stands, err := r.member.books.take(r.in(p), r.member.who, stale)
	for _, s := range stands {
		r.member.held[s.partition] = newHold(s)
		r.ahead[s.partition] = s.next
		r.consumer.Seek(int(s.partition), int(s.next))
	}
	if err == nil {
		clear(r.fetched)
		r.taken.Wake()
	}
	return err
}

func (r *modelReader) in(p *sim.Process) context.Context { return p.Context(context.Background()) }

// filterModel is a filter. A batch is on its way to the books and to the log while the next one
// is read.
type filterModel struct {
	*modelReader
	*filter
	windows *windows
	last    *modelPassage
	changed *sim.Signal
}

// modelPassage is passage.
type modelPassage struct {
	*decided
	ahead        *modelPassage
	stored, done bool
	kept, err    error
}

func (m *pipelineModel) filters(r *modelReader, p *sim.Process, books *modelBooks) {
	f := &filterModel{modelReader: r, filter: newFilter(m.st, books), changed: sim.NewSignal(m.Sim)}
	f.filter.rules = m.newRules(books)
	f.windows = f.mind.(*windows)
	f.windows.decide = f.decideAll
	r.joins(p, &f.filter.member)
	for r.consumer != nil {
		if f.step(p) != nil {
			p.Do(m.Sim.Delay(sut.AfterError))
		}
	}
}

// step is filter.step.
func (f *filterModel) step(p *sim.Process) error {
	wait := pollWait
	if f.last != nil {
		wait = settleWait
	}
	batches, err := f.modelReader.poll(p, wait)
	var next *decided
	if err == nil && len(batches) > 0 {
		if next, err = f.collect(f.in(p), batches); next != nil {
			p.Do(f.App.BurnTimes(costFilter, float64(len(next.list))))
		}
	}
	switch {
	case err == nil && next != nil:
		err = f.decideNext(p, next)
	case err == nil:
		if err = f.arrive(p); err == nil {
			err = f.record(f.in(p), nil)
		}
	}
	if err != nil {
		_ = f.arrive(p)
		f.mind.forget()
		f.filter.forget()
		return err
	}
	if next != nil {
		b := &modelPassage{decided: next, ahead: f.last}
		f.last = b
		p.Go(func(p *sim.Process) { f.pass(p, b) })
	}
	return nil
}

func (f *filterModel) until(p *sim.Process, met *bool) {
	for !*met {
		p.Do(f.changed.Wait())
	}
}

// arrive is filter.arrived.
func (f *filterModel) arrive(p *sim.Process) error {
	b := f.last
	if b == nil {
		return nil
	}
	f.until(p, &b.done)
	f.last = nil
	if b.err == nil {
		f.sent(b.to)
	}
	return b.err
}

// decideNext is filter.decide.
func (f *filterModel) decideNext(p *sim.Process, next *decided) error {
	if f.last != nil {
		f.until(p, &f.last.stored)
		if f.last.kept != nil {
			return f.last.kept
		}
	}
	if f.windows.memory == "" {
		if err := p.Within(f.st.Config.Timeout, func() { f.learn(p) }); err != nil {
			return err
		}
	}
	if err := f.windows.recall(f.in(p), nil); err != nil {
		return err
	}
	return f.judge(f.in(p), next.list)
}

// learn learns the name of what is remembered, or gives it one.
func (f *filterModel) learn(p *sim.Process) {
	var name string
	p.Do(f.Redis.Client.Send(), f.Redis.Execute(func() {
		var is bool
		if name, is = f.memory.Get("memory"); !is {
			name = f.Sim.Now().String()
			f.memory.Set("memory", name)
		}
	}, costMemory, costMemory), f.Redis.Client.Receive())
	f.windows.memory = name
}

// decideAll is windows.judgeAll.
func (f *filterModel) decideAll(ctx context.Context, list []candidate) (out []string, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	p := sim.In(ctx)
	commands := slices.Repeat([]string{costCandidate}, len(list))
	for range (len(list) + judgedAtOnce - 1) / judgedAtOnce {
		commands = append(commands, costJudge)
	}
	forgotten := false
	err = p.Within(f.st.Config.Timeout, func() {
		p.Do(f.Redis.Client.Send(), f.Redis.Execute(func() {
			if name, _ := f.memory.Get("memory"); name != f.windows.memory {
				forgotten = true
				return
			}
			for i := range list {
				out = append(out, f.decideOne(&list[i]))
			}
		}, commands...), f.Redis.Client.Receive())
	})
	if err == nil && forgotten {
		f.windows.memory = ""
		err = fmt.Errorf("redis has forgotten: %w", sim.ErrLost)
	}
	return out, err
}

// decideOne is what the script does with a candidate.
func (f *filterModel) decideOne(c *candidate) string {
	judged, known := f.sessions.Get(c.event.Session)
	if known {
		return judged
	}
	seen, address := c.fields()
	word := wordView
	used, _ := f.rates.Get(address)
	if _, has := f.repeats.Get(seen); has {
		word = Repeat
	} else if used >= c.rules.IPViews {
		word = IPRate
	} else {
		f.repeats.Set(seen, true)
		f.rates.Set(address, used+1)
	}
	judged = c.mine() + ":" + word
	f.sessions.Set(c.event.Session, judged)
	return judged
}

// pass is filter.pass.
func (f *filterModel) pass(p *sim.Process, b *modelPassage) {
	if b.ahead != nil {
		f.until(p, &b.ahead.done)
		if b.kept = b.ahead.err; b.kept == nil {
			f.sent(b.ahead.to)
		}
		b.ahead = nil
	}
	var views []*kgo.Record
	if b.kept == nil {
		if b.kept = f.record(f.in(p), b.decided); b.kept == nil {
			views = f.viewsOf(b.list)
		}
	}
	b.err, b.stored = b.kept, true
	f.wake()
	if b.kept == nil {
		b.err = f.forwardAll(p, views)
	}
	b.done = true
	f.wake()
}

func (f *filterModel) wake() {
	for f.changed.Wake() { // everybody
	}
}

// forwardAll is filter.forward: the partitions at the same time.
func (f *filterModel) forwardAll(p *sim.Process, views []*kgo.Record) error {
	byPartition := map[int32][]*kgo.Record{}
	for _, v := range views {
		byPartition[v.Partition] = append(byPartition[v.Partition], v)
	}
	list := slices.Sorted(maps.Keys(byPartition))
	err := p.All(len(list), func(p *sim.Process, i int) {
		p.Do(f.pipelineModel.valid.ProduceAll(int(list[i]), byPartition[list[i]], recordBytes,
			func(*kgo.Record, int) {}))
	})
	if err == nil {
		p.Passed(placeForwarded)
	}
	return err
}

// counterModel is a counter.
type counterModel struct {
	*modelReader
	*counter
	flushed time.Duration
}

func newCounterModel(p *sim.Process, r *modelReader, c *counter) *counterModel {
	r.joins(p, &c.member)
	return &counterModel{r, c, r.Sim.Now()}
}

func (c *counterModel) work(p *sim.Process) {
	for c.consumer != nil {
		if c.step(p) != nil {
			p.Do(c.Sim.Delay(sut.AfterError))
		}
	}
}

// step is counter.step.
func (c *counterModel) step(p *sim.Process) error {
	wait := min(pollWait, max(time.Millisecond, c.every-(p.Now()-c.flushed)))
	batches, err := c.modelReader.poll(p, wait)
	for _, b := range batches {
		p.Do(c.App.BurnTimes(costCounter, float64(len(b.records))))
		if err == nil {
			err = c.add(c.in(p), b)
		}
		if s, has := c.standOf(b.partition); has && err == nil && c.group != "" {
			err = c.read(c.in(p), s)
		}
	}
	if err == nil && (c.full || p.Now()-c.flushed >= c.every) {
		c.flushed = p.Now()
		err = c.flush(c.in(p))
	}
	if err != nil {
		c.drop()
	}
	return err
}

// reprocessor is the role of that name.
func (m *pipelineModel) reprocessor(p *sim.Process) {
	books := m.on(m.Postgres.OwnConns("reprocessor", 2, m.st.Config.Timeout))
	counters := map[int64]*counterModel{}
	for {
		failed := p.Try(func() {
			for _, g := range books.recounts(p) {
				c := counters[g.Generation]
				if c == nil {
					c = newCounterModel(p, m.reader(m.valid, counterBatch, 0, 1),
						newCounter(m.st, books, g.Generation, nil))
					counters[g.Generation] = c
				}
				if c.step(p) != nil {
					p.Fail(sim.ErrLost)
				}
				if !g.Live {
					books.cutOver(p, g.Generation)
				}
			}
		})
		switch {
		case failed != nil:
			p.Do(m.Sim.Delay(sut.AfterError))
		case len(m.recounting()) == 0:
			p.Do(m.Sim.Delay(pollWait))
		}
	}
}

// merger is the merge stage.
func (m *pipelineModel) merger(p *sim.Process) {
	books := m.on(m.Postgres.OwnConns("merge", 1, m.st.Config.Timeout))
	for {
		_ = p.Try(func() { books.merge(p) }) // it tries again
		p.Do(m.Sim.Delay(m.p.clock(m.p.CountWindow)))
	}
}
