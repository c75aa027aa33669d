package views

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// modelBooks is the books in a simulated Postgres: the tables of schema.sql and the same
// transactions, on some connections.
type modelBooks struct {
	books // what models have not: a changelog, and what wrong designs do
	*modelTables
	conns *sim.Conns
}

// modelTables are the tables.
type modelTables struct {
	pg          *sim.Postgres
	p           Params
	partitions  int
	authors     map[string]string
	versions    *sim.Table[int64, Rules]
	progress    *sim.Table[progressKey, stand]
	drops       *sim.Table[DropAudit, int64] // Events is 0 in the key
	windows     *sim.Table[countKey, int64]
	totals      *sim.Table[countKey, int64] // window is 0 in the key
	generations *sim.Table[int64, GenerationAudit]
	merged      *sim.Table[countKey, int64] // shard too; nil if readers see the totals
}

// progressKey is the primary key of progress.
type progressKey struct {
	station
	partition int32
}

type countKey struct {
	generation int64
	video      string
	window     int64
	shard      int32
}

// newModelBooks has the rows of the beginning.
func newModelBooks(c *sim.Cluster, p Params, cfg sut.Config, merged bool) *modelBooks {
	pg := c.Postgres
	t := &modelTables{pg: pg, p: p, partitions: cfg.Kafka.Partitions, authors: map[string]string{},
		versions:    sim.NewTable[int64, Rules](pg, "filter_rules"),
		progress:    sim.NewTable[progressKey, stand](pg, "progress"),
		drops:       sim.NewTable[DropAudit, int64](pg, "drops"),
		windows:     sim.NewTable[countKey, int64](pg, "view_counts"),
		totals:      sim.NewTable[countKey, int64](pg, "shard_views"),
		generations: sim.NewTable[int64, GenerationAudit](pg, "generations")}
	if merged {
		t.merged = sim.NewTable[countKey, int64](pg, "merged_views")
	}
	for i := range p.Videos {
		t.authors[VideoKey(i+1)] = creatorOf(i + 1)
	}
	t.versions.Load(1, p.rules())
	t.generations.Load(1, GenerationAudit{Generation: 1, Live: true})
	for i := range int32(t.partitions) {
		for _, who := range []station{{stageFilter, 0}, {stageCounter, 1}} {
			t.progress.Load(progressKey{who, i}, stand{partition: i, source: -1})
		}
	}
	return &modelBooks{modelTables: t, conns: pg.Conns()}
}

// on is the books on other connections.
func (b *modelBooks) on(conns *sim.Conns) *modelBooks {
	return &modelBooks{nil, b.modelTables, conns}
}

// take raises the epoch of the partitions.
func (b *modelBooks) take(
	ctx context.Context, who station, partitions []int32,
) (list []stand, err error) {
	p := sim.In(ctx)
	slices.Sort(partitions)
	failed := p.Try(func() {
		b.conns.Exec(p, costTake, func() {
			for _, partition := range partitions {
				key := progressKey{who, partition}
				p.Do(b.progress.Lock(key))
				s, _ := b.progress.Get(key)
				s.epoch++
				b.progress.Set(key, s)
				list = append(list, s)
			}
		})
	})
	if failed != nil {
		return nil, failed
	}
	return list, nil
}

// transaction is one whose failures are errors.
func (b *modelBooks) transaction(ctx context.Context, do func(*sim.Process) error) error {
	p := sim.In(ctx)
	var err error
	failed := p.Try(func() { err = b.conns.Transaction(p, func() error { return do(p) }) })
	return cmp.Or(failed, err)
}

// moveOn moves all stands or returns errFenced.
func (b *modelBooks) moveOn(p *sim.Process, who station, moves []move) error {
	slices.SortFunc(moves, func(x, y move) int { return cmp.Compare(x.partition, y.partition) })
	n := 0
	p.Do(b.rows(costStand, len(moves)))
	for _, m := range moves {
		key := progressKey{who, m.partition}
		p.Do(b.progress.Lock(key))
		s, _ := b.progress.Get(key)
		if s.epoch == m.epoch && s.next == m.next && s.decided == m.decided {
			s.next, s.source, s.decided, s.views = m.to, m.toSource, m.toDecided, m.toViews
			b.progress.Set(key, s)
			n++
		}
	}
	if n < len(moves) {
		return fenced(moves, n)
	}
	return nil
}

// filtered stores decisions and moves on in one transaction.
func (b *modelBooks) filtered(ctx context.Context, moves []move, drops []DropAudit) error {
	return b.transaction(ctx, func(p *sim.Process) (err error) {
		b.conns.Query(p, costMove, func() { err = b.moveOn(p, station{stageFilter, 0}, moves) })
		if err != nil || len(drops) == 0 {
			return err
		}
		b.conns.Query(p, costDrops, func() {
			p.Do(b.rows(costDrop, len(drops)))
			for _, d := range drops {
				n := d.Events
				d.Events = 0
				add(p, b.drops, d, n)
			}
		})
		return nil
	})
}

// rows is a step: the server works on so many rows of a statement.
func (b *modelBooks) rows(cost string, n int) sim.Step { return b.pg.BurnTimes(cost, float64(n)) }

// add adds to a row, which is made if there is none.
func add[K comparable](p *sim.Process, t *sim.Table[K, int64], k K, n int64) {
	p.Do(t.Lock(k))
	old, _ := t.Get(k)
	t.Set(k, old+n)
}

// counted stores views and moves on in one transaction.
func (b *modelBooks) counted(
	ctx context.Context, who station, moves []move, sums []sum,
) error {
	slices.SortFunc(sums, func(x, y sum) int {
		return cmp.Or(cmp.Compare(x.Video, y.Video), cmp.Compare(x.WindowStart, y.WindowStart),
			cmp.Compare(x.Shard, y.Shard))
	})
	if len(moves) == 1 && len(sums) == 1 {
		var err error
		p := sim.In(ctx)
		failed := p.Try(func() {
			b.conns.Exec(p, costCountOne, func() {
				if err = b.moveOn(p, who, moves); err == nil {
					b.addWindows(p, who, sums)
					b.addTotals(p, who, sums)
				}
			})
		})
		return cmp.Or(failed, err)
	}
	return b.transaction(ctx, func(p *sim.Process) (err error) {
		b.conns.Query(p, costMove, func() { err = b.moveOn(p, who, moves) })
		if err != nil || len(sums) == 0 {
			return err
		}
		b.conns.Query(p, costWindows, func() {
			p.Do(b.rows(costSum, len(sums)))
			b.addWindows(p, who, sums)
		})
		b.conns.Query(p, costTotals, func() {
			p.Do(b.rows(costSum, len(sums)))
			b.addTotals(p, who, sums)
		})
		return nil
	})
}

func (b *modelBooks) addWindows(p *sim.Process, who station, sums []sum) {
	for _, s := range sums {
		add(p, b.windows, countKey{who.generation, s.Video, s.WindowStart, s.Shard}, s.Views)
	}
}

func (b *modelBooks) addTotals(p *sim.Process, who station, sums []sum) {
	for _, s := range sums {
		add(p, b.totals, countKey{generation: who.generation, video: s.Video, shard: s.Shard}, s.Views)
	}
}

// rules returns all versions above the given one.
func (b *modelBooks) rules(ctx context.Context, above int64) (list []Rules, err error) {
	p := sim.In(ctx)
	err = p.Try(func() { b.conns.Exec(p, costRules, func() { list = b.rulesAbove(above) }) })
	return list, err
}

func (t *modelTables) rulesAbove(above int64) (list []Rules) {
	for _, version := range slices.Sorted(slices.Values(t.versions.Keys())) {
		if r, _ := t.versions.Get(version); version > above {
			list = append(list, r)
		}
	}
	return list
}

// SetRules adds a version.
func (b *modelBooks) SetRules(ctx context.Context, rules Rules) (reply VersionReply, err error) {
	p := sim.In(ctx)
	err = b.conns.Transaction(p, func() error {
		b.conns.Query(p, costAddRules, func() { p.Do(b.versions.Lock(0)) }) // the table's
		b.conns.Query(p, costAddRules, func() {
			reply.Version = slices.Max(b.versions.Keys()) + 1
		})
		b.conns.Query(p, costAddRules, func() {
			rules.Version = reply.Version
			p.Do(b.versions.Lock(rules.Version))
			b.versions.Set(rules.Version, rules)
		})
		return nil
	})
	return reply, err
}

// Reprocess begins a generation.
func (b *modelBooks) Reprocess(ctx context.Context, _ struct{}) (reply GenerationReply, err error) {
	p := sim.In(ctx)
	err = b.conns.Transaction(p, func() error {
		b.conns.Query(p, costBegin, func() { p.Do(b.generations.Lock(0)) }) // the table's
		b.conns.Query(p, costBegin, func() {
			b.retire(p, func(g GenerationAudit) bool { return !g.Live })
		})
		b.conns.Query(p, costBegin, func() {
			reply.Generation = slices.Max(b.generations.Keys()) + 1
			p.Do(b.generations.Lock(reply.Generation))
			b.generations.Set(reply.Generation, GenerationAudit{Generation: reply.Generation})
		})
		b.conns.Query(p, costBegin, func() {
			for i := range int32(b.partitions) {
				key := progressKey{station{stageCounter, reply.Generation}, i}
				p.Do(b.progress.Lock(key))
				b.progress.Set(key, stand{partition: i, source: -1})
			}
		})
		return nil
	})
	return reply, err
}

// retire ends recounts.
func (b *modelBooks) retire(p *sim.Process, which func(GenerationAudit) bool) {
	for _, n := range slices.Sorted(slices.Values(b.generations.Keys())) {
		if g, _ := b.generations.Get(n); n > 1 && !g.Retired && which(g) {
			p.Do(b.generations.Lock(n))
			g.Retired = true
			b.generations.Set(n, g)
		}
	}
}

// recounts are the generations that a reprocessor counts.
func (b *modelBooks) recounts(p *sim.Process) (list []GenerationAudit) {
	b.conns.Exec(p, costRecounts, func() { list = b.recounting() })
	return list
}

func (t *modelTables) recounting() (list []GenerationAudit) {
	for _, n := range slices.Sorted(slices.Values(t.generations.Keys())) {
		if g, _ := t.generations.Get(n); n > 1 && !g.Retired {
			list = append(list, g)
		}
	}
	return list
}

// cutOver lets readers see a generation once it has come as far as those before it.
func (b *modelBooks) cutOver(p *sim.Process, generation int64) {
	b.conns.Exec(p, costCutOver, func() {
		p.Do(b.generations.Lock(generation))
		g, _ := b.generations.Get(generation)
		if g.Live || g.Retired {
			return
		}
		for _, key := range b.progress.Keys() {
			theirs, _ := b.progress.Get(key)
			mine, _ := b.progress.Get(progressKey{station{stageCounter, generation}, key.partition})
			if key.stage == stageCounter && key.generation < generation && mine.next < theirs.next {
				return
			}
		}
		g.Live = true
		b.generations.Set(generation, g)
		b.retire(p, func(g GenerationAudit) bool { return g.Generation < generation })
	})
}

// Views reads a count as readers see it.
func (b *modelBooks) Views(ctx context.Context, req VideoRequest) (v Views, err error) {
	p := sim.In(ctx)
	b.conns.Exec(p, costViews, func() {
		v = Views{Video: req.Video, Generation: b.shownGeneration()}
		v.Views = b.shown(v.Generation, req.Video)
	})
	if b.authors[req.Video] == "" {
		return Views{}, ErrUnknownVideo
	}
	return v, nil
}

func (t *modelTables) shownGeneration() (last int64) {
	for _, n := range t.generations.Keys() {
		if g, _ := t.generations.Get(n); g.Live {
			last = max(last, n)
		}
	}
	return last
}

// shown is what readers see of a video.
func (t *modelTables) shown(generation int64, video string) int64 {
	if t.merged != nil {
		n, _ := t.merged.Get(countKey{generation: generation, video: video})
		return n
	}
	return t.sum(generation, video)
}

// sum is the sum of a video's shards.
func (t *modelTables) sum(generation int64, video string) (sum int64) {
	for shard := range int32(t.partitions) {
		n, _ := t.totals.Get(countKey{generation: generation, video: video, shard: shard})
		sum += n
	}
	return sum
}

// merge brings what readers see up to date.
func (b *modelBooks) merge(p *sim.Process) {
	b.conns.Exec(p, costMerge, func() {
		for _, key := range b.sums() {
			p.Do(b.merged.Lock(key))
			if old, _ := b.merged.Get(key); old < b.sum(key.generation, key.video) {
				b.merged.Set(key, b.sum(key.generation, key.video))
			}
		}
	})
}

// sums are the videos that have views, by generation, in order.
func (t *modelTables) sums() []countKey {
	all := map[countKey]bool{}
	for _, key := range t.totals.Keys() {
		all[countKey{generation: key.generation, video: key.video}] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b countKey) int {
		return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.video, b.video))
	})
}

// progressed lists how far stages are that are at work, in order, and how many records they are
// behind.
func (m *pipelineModel) progressed(all bool) (list []lag) {
	for _, key := range m.progress.Keys() {
		g, _ := m.generations.Get(key.generation)
		if g.Retired && !all {
			continue
		}
		s, _ := m.progress.Get(key)
		topic := m.valid
		if key.stage == stageFilter {
			topic = m.watch
		}
		list = append(list, lag{ProgressAudit{key.stage, key.generation, key.partition, s.next}, "",
			int64(len(topic.Records(int(key.partition)))) - s.next})
	}
	slices.SortFunc(list, func(a, b lag) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Generation, b.Generation),
			cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

// pending is what stages have still to do.
func (m *pipelineModel) pending() (left int64, what string) {
	for _, l := range m.progressed(false) {
		left += max(l.behind, -l.behind)
		if l.behind != 0 && what == "" {
			what = fmt.Sprintf("the %s (generation %d) is %d records behind in partition %d", l.Stage,
				l.Generation, l.behind, l.Partition)
		}
	}
	for _, g := range m.recounting() {
		if !g.Live {
			left, what = left+1, cmp.Or(what, fmt.Sprintf("generation %d is not live yet", g.Generation))
		}
	}
	for _, key := range m.sums() {
		if m.shown(key.generation, key.video) != m.sum(key.generation, key.video) {
			left, what = left+1, cmp.Or(what, "the counts of "+key.video+" are not merged")
		}
	}
	return left, what
}

// look is the gauge's.
func (m *pipelineModel) look(p *sim.Process, conns *sim.Conns) Look {
	l := Look{Dropped: map[string]int64{}}
	conns.Exec(p, costLook, func() {
		for _, key := range m.sums() {
			if key.generation == m.shownGeneration() {
				l.Shown += m.shown(key.generation, key.video)
			}
		}
	})
	conns.Exec(p, costLook, func() {
		for _, key := range m.drops.Keys() {
			n, _ := m.drops.Get(key)
			l.Dropped[key.Reason] += n
		}
	})
	var lags []lag
	conns.Exec(p, costLook, func() { lags = m.progressed(false) })
	p.Do(m.Kafka.Ask(), m.Kafka.Ask()) // for the ends of both topics
	for _, lag := range lags {
		if lag.Stage == stageFilter {
			l.FilterLag = append(l.FilterLag, lag.behind)
		} else if lag.Generation == 1 {
			l.CounterLag = append(l.CounterLag, lag.behind)
		}
	}
	return l
}

// audit is the final truth.
func (m *pipelineModel) audit() any {
	a := Audit{Rules: m.rulesAbove(0), Creators: m.authors, RedisLog: "yes", Drops: []DropAudit{},
		Counts: []CountAudit{}, Totals: []TotalAudit{}, CountWindowMS: m.p.CountWindow.D().Milliseconds()}
	a.Watch, a.Valid = m.logOf(m.watch, false), m.logOf(m.valid, true)
	for _, key := range m.drops.Keys() {
		key.Events, _ = m.drops.Get(key)
		a.Drops = append(a.Drops, key)
	}
	for _, l := range m.progressed(true) {
		a.Progress = append(a.Progress, l.ProgressAudit)
	}
	windows := map[CountAudit]int64{} // Views is 0 in the key
	for _, key := range m.windows.Keys() {
		n, _ := m.windows.Get(key)
		windows[CountAudit{Generation: key.generation, Video: key.video, WindowMS: key.window}] += n
	}
	for c, n := range windows {
		c.Views = n
		a.Counts = append(a.Counts, c)
	}
	slices.SortFunc(a.Counts, func(x, y CountAudit) int {
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Video, y.Video),
			cmp.Compare(x.WindowMS, y.WindowMS))
	})
	for _, key := range m.sums() {
		a.Totals = append(a.Totals, TotalAudit{key.generation, key.video,
			m.sum(key.generation, key.video), m.shown(key.generation, key.video)})
	}
	for _, n := range slices.Sorted(slices.Values(m.generations.Keys())) {
		g, _ := m.generations.Get(n)
		a.Generations = append(a.Generations, g)
	}
	return a
}

// logOf is a topic in an audit.
func (m *pipelineModel) logOf(topic *sim.Topic[*kgo.Record], views bool) Log {
	partitions := make([][]Logged, m.partitions)
	for p := range partitions {
		list := &partitions[p]
		for offset, r := range topic.Records(p) {
			l := Logged{Offset: int64(offset)}
			var err error
			if views {
				l.Source, err = decodeView(r.Value, &l.Event)
			} else {
				err = decodeEvents(string(r.Value), func(int) *Event { return &l.Event })
			}
			if err != nil {
				panic(err) // it has just been encoded
			}
			*list = append(*list, l)
		}
	}
	log, err := EncodeLog(partitions)
	if err != nil {
		panic(err) // writing to memory does not fail
	}
	return log
}
