package views

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/harness/topics"
)

// tables are the books of a bubble: as Postgres, one transaction at a time.
type tables struct {
	mu       sync.Mutex
	versions []Rules
	authors  map[string]string
	stands   map[station]map[int32]*stand
	turned   map[DropAudit]int64 // events is zero in the key
	sums     map[sum]int64       // views is zero in the key
	logs     map[int32][]logRow  // the changelog
	stretch  int64
	end      int64 // of the log of the addresses
}

// memory is the tables as one process reaches them: not when it is dead.
type memory struct {
	*tables
	alive func() error
}

const bubblePartitions = 4

func newTables(p Params) *tables {
	m := &tables{versions: []Rules{p.rules()}, authors: map[string]string{},
		stands: map[station]map[int32]*stand{}, turned: map[DropAudit]int64{}, sums: map[sum]int64{},
		logs: map[int32][]logRow{}}
	for n := range p.Videos {
		m.authors[VideoKey(n+1)] = creatorOf(n + 1)
	}
	for _, who := range []station{{stageFilter, 0}, {stageCounter, 1}} {
		m.stands[who] = map[int32]*stand{}
		for p := range int32(bubblePartitions) {
			m.stands[who][p] = &stand{partition: p, source: -1}
		}
	}
	return m
}

// transaction does something with the tables.
func (m memory) transaction(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return err
	}
	return do()
}

func (m memory) take(_ context.Context, who station, partitions []int32) (list []stand, err error) {
	return list, m.transaction(func() error {
		for _, p := range partitions {
			m.stands[who][p].epoch++
			list = append(list, *m.stands[who][p])
		}
		return nil
	})
}

// moveOn does all moves that are of the newest owners and from where they stand, or none.
func (m memory) moveOn(who station, moves []move) error {
	for i, to := range moves {
		now := m.stands[who][to.partition]
		if now.epoch != to.epoch || now.next != to.next || now.decided != to.decided {
			return fenced(moves, i)
		}
	}
	for _, to := range moves {
		now := m.stands[who][to.partition]
		now.next, now.source, now.decided = to.to, to.toSource, to.toDecided
		now.views = slices.Clone(to.toViews)
	}
	return nil
}

func (m memory) filtered(_ context.Context, moves []move, drops []DropAudit) error {
	return m.transaction(func() error {
		err := m.moveOn(station{stageFilter, 0}, moves)
		if err == nil {
			m.turn(drops)
		}
		return err
	})
}

func (m memory) turn(drops []DropAudit) {
	for _, d := range drops {
		n := d.Events
		d.Events = 0
		m.turned[d] += n
	}
}

func (m memory) changes(_ context.Context, log int32, after int64, most int) (list []logRow,
	err error) {
	return list, m.transaction(func() error {
		list = m.after(log, after)
		list = list[:min(most, len(list))]
		return nil
	})
}

func (m memory) after(log int32, after int64) []logRow {
	list := m.logs[log]
	first, _ := slices.BinarySearchFunc(list, after+1,
		func(c logRow, seq int64) int { return cmp.Compare(c.seq, seq) })
	return list[first:]
}

func (m memory) now(keepMS int64) int64 {
	return max(m.tables.stretch, time.Now().UnixMilli()/keepMS)
}

func (m memory) stretch(_ context.Context, keepMS int64) (stretch int64, err error) {
	return stretch, m.transaction(func() error {
		stretch = m.now(keepMS)
		return nil
	})
}

func (m memory) agree(_ context.Context, keepMS, after int64, decide agreeing) (
	swept []int32, err error,
) {
	return swept, m.transaction(func() error {
		m.tables.stretch = m.now(keepMS)
		a, err := decide(m.tables.stretch, m.end, m.after(addressLog, after))
		if err == nil {
			err = m.moveOn(station{stageFilter, 0}, a.moves)
		}
		if err == nil {
			m.turn(a.drops)
			swept = m.write(a)
		}
		return err
	})
}

// write appends to the changelog, merges rows of it and drops old ones.
func (m memory) write(a agreed) (swept []int32) {
	for _, c := range a.changes {
		c.entries = slices.Clone(c.entries)
		if c.log == addressLog {
			m.end = c.seq
		}
		m.logs[c.log] = append(m.logs[c.log], c)
	}
	for _, of := range a.merge {
		rows := m.after(of.log, of.was)
		kept := len(m.logs[of.log]) - len(rows)
		var merged []logRow
		for i, c := range rows {
			if n := len(merged); n > 0 && c.seq <= of.seq && merged[n-1].stretch == c.stretch {
				merged[n-1].seq = c.seq
				merged[n-1].entries = slices.Concat(merged[n-1].entries, c.entries)
			} else {
				merged = append(merged, rows[i])
			}
		}
		m.logs[of.log] = slices.Concat(m.logs[of.log][:kept], merged)
	}
	for _, log := range a.sweep {
		over := min(overdue(m.logs[log], a.over), sweptAtOnce)
		m.logs[log] = slices.Clone(m.logs[log][over:])
		if over < sweptAtOnce {
			swept = append(swept, log)
		}
	}
	return swept
}

// overdue counts the rows at the beginning of a log that are over.
func overdue(rows []logRow, over int64) int {
	if n := slices.IndexFunc(rows, func(c logRow) bool { return c.stretch > over }); n >= 0 {
		return n
	}
	return len(rows)
}

func (m memory) counted(_ context.Context, who station, moves []move, sums []sum) error {
	return m.transaction(func() error {
		err := m.moveOn(who, moves)
		if err == nil {
			m.add(sums)
		}
		return err
	})
}

func (m memory) add(sums []sum) {
	for _, s := range sums {
		n := s.Views
		s.Views = 0
		m.sums[s] += n
	}
}

func (m memory) counts(_ context.Context, _ station, sums []sum) error {
	return m.transaction(func() error {
		m.add(sums)
		return nil
	})
}

func (m memory) reports(_ context.Context, who station, moves []move) error {
	return m.transaction(func() error {
		for _, to := range moves {
			now := m.stands[who][to.partition]
			now.next, now.source = max(now.next, to.to), max(now.source, to.toSource)
		}
		return nil
	})
}

func (m memory) rules(_ context.Context, above int64) ([]Rules, error) {
	return slices.Clone(m.versions[above:]), nil
}

func (m memory) creators(context.Context) (map[string]string, error) { return m.authors, nil }

func (m *tables) shown(video string) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, views := range m.sums {
		if s.Video == video {
			n += views
		}
	}
	return n
}

// audit writes the tables as the database does.
func (m *tables) audit(a *Audit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Rules, a.Creators = m.versions, m.authors
	a.Drops, a.Counts, a.Totals = []DropAudit{}, []CountAudit{}, []TotalAudit{}
	a.Generations = []GenerationAudit{{Generation: 1, Live: true}}
	for d, n := range m.turned {
		d.Events = n
		a.Drops = append(a.Drops, d)
	}
	for who, list := range m.stands {
		for _, s := range list {
			a.Progress = append(a.Progress, ProgressAudit{who.stage, who.generation, s.partition, s.next})
		}
	}
	windows, totals := map[windowKey]int64{}, map[string]int64{}
	for s, n := range m.sums {
		windows[windowKey{s.Video, s.WindowStart}] += n
		totals[s.Video] += n
	}
	for k, n := range windows {
		a.Counts = append(a.Counts, CountAudit{1, k.video, k.start, n})
	}
	for video, n := range totals {
		a.Totals = append(a.Totals, TotalAudit{1, video, n, n})
	}
}

// replica is one process of a role: its own way to the stores, which can be
// stalled or cut, and the places at which it dies or sleeps.
type replica struct {
	memory
	*suttest.Link
	b      *bubble
	cancel context.CancelFunc

	mu sync.Mutex
	// at counts the passages of a place down to the one at which it happens.
	at map[string]int
	// sleep is how long it sleeps there; 0 means that it dies.
	sleep time.Duration
	// wipes says that Redis is emptied at that moment.
	wipes bool
}

// die is kill -9: nothing it does from now on reaches anybody.
func (r *replica) die() {
	r.Die()
	r.cancel()
}

// arm lets it die, or sleep, when it comes to a place for the n-th time from
// now, and empties Redis at that moment if wipes says so.
func (r *replica) arm(place string, n int, sleep time.Duration, wipes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[place], r.sleep, r.wipes = n, sleep, wipes
}

// pass is a fail point.
func (r *replica) pass(place string) {
	r.mu.Lock()
	hit := r.at[place] == 1
	if r.at[place] > 0 {
		r.at[place]--
	}
	sleep, wipes := r.sleep, r.wipes
	r.mu.Unlock()
	if !hit {
		return
	}
	r.b.hit(place)
	if wipes {
		r.b.wipe()
	}
	if sleep == 0 {
		r.die()
		return
	}
	heal := r.Stall()
	r.b.Wait(sleep)
	heal()
}

// bubble is a whole run in virtual time on the real consumers, with books in memory.
type bubble struct {
	*suttest.Bubble
	t      *testing.T
	rng    *rand.Rand
	params Params
	tables *tables
	delay  time.Duration // of each write
	api    *opened
	roles  sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	hits []string
}

// bubbleParams is half an hour of event time in three minutes of virtual time.
func bubbleParams() Params {
	p := DefaultParams()
	p.Videos, p.Users, p.VideoSkew = 4, 40, keys.SkewHot
	p.EventRate, p.TimeScale = 0.1, 10
	p.Heartbeats, p.Farm, p.FarmAddresses, p.IPViews = 3, 0.3, 1, 3
	p.ViewReads, p.RetryOnLost = 0.3, 2
	p.CountWindow = sut.Duration(20 * time.Second)
	p.SessionTimeout, p.VisibleWithin = sut.Duration(2*time.Second), sut.Duration(8*time.Second)
	return p
}

func newBubble(t *testing.T, seed uint64, p Params) *bubble {
	t.Helper()
	b := &bubble{Bubble: suttest.NewBubble(t, &p, bubblePartitions), t: t,
		rng: rand.New(rand.NewPCG(seed, 3)), params: p, tables: newTables(p)}
	b.Config.Kafka.Linger, b.Config.MaxConns = 0, 4
	b.ctx, b.cancel = context.WithCancel(t.Context())
	return b
}

// replica makes the way of one process to the stores.
func (b *bubble) replica() (*replica, sut.Config) {
	way := suttest.NewLink()
	way.Delay = b.delay
	r := &replica{memory: memory{b.tables, way.Alive}, Link: way, b: b, at: map[string]int{},
		cancel: func() {}}
	cfg := b.Config
	cfg.FailPoint, cfg.Dial = r.pass, way.Through(cfg.Dial)
	return r, cfg
}

// build is a design in a bubble: its API, and what its stages do differently.
type build struct {
	name    string
	api     func(st *opened, b books) Pipeline
	filter  func(*filter, *opened)
	counter func(*counter)
}

// inVideos, inSessions, inRecords and inOwnMemory are the right designs.
func inVideos() build {
	return build{name: "video_key",
		api: func(st *opened, b books) Pipeline { return newPipeline(st, b) }}
}

func inSessions() build {
	return build{name: "composite_key", api: func(st *opened, b books) Pipeline {
		p := newPipeline(st, b)
		p.key = bySession
		return p
	}}
}

func inRecords() build {
	return build{name: "preaggregated",
		api: func(st *opened, b books) Pipeline { return newGathering(st, b) }}
}

func inOwnMemory() build {
	d := inVideos()
	d.name, d.filter = "partition_state", remembering
	return d
}

// start runs one replica of a role until it dies or the run ends.
func (b *bubble) start(d build, role string) *replica {
	r, cfg := b.replica()
	ctx, cancel := context.WithCancel(b.ctx)
	r.cancel = cancel
	b.run(ctx, cfg, d, role, r)
	return r
}

// run runs a role until ctx is cancelled.
func (b *bubble) run(ctx context.Context, cfg sut.Config, d build, role string, r *replica) {
	work := sut.Work[*opened]{
		Name: "bubble " + role,
		Open: func(ctx context.Context, cfg sut.Config) (*opened, error) {
			rdb, err := stores.OpenRedis(ctx, cfg)
			return &opened{Config: cfg, Params: b.params, Redis: rdb}, err
		},
		Close: func(st *opened) { _ = st.Redis.Close() }, // it may have died
		Do: func(ctx context.Context, st *opened) error {
			return consume(ctx, cfg, role, func(ctx context.Context) (consumer, error) {
				if role == "counter" {
					return openCounter(ctx, st, r, 1, role, d.counter)
				}
				return openFilter(ctx, st, r, d.filter)
			})
		},
	}
	b.roles.Go(func() {
		if err := work.Run(ctx, cfg); err != nil {
			b.t.Errorf("role %s: %v", role, err)
		}
	})
}

// open makes the topics, and the API of a design with the parts that a replica replaces.
func (b *bubble) open(d build, r *replica, cfg sut.Config) (Pipeline, *opened) {
	b.t.Helper()
	client, err := topics.Open(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := createTopics(b.ctx, cfg, b.params); err != nil {
		b.t.Fatal(err)
	}
	st := &opened{Config: cfg, Params: b.params, Kafka: client}
	return d.api(st, r), st
}

// live is the life of a pipeline: viewers come, faults happen, it comes to
// rest. It returns the verdicts.
func (b *bubble) live(d build, sessions int, faults func(filters, counters []*replica),
) map[string]check.Verdict {
	b.t.Helper()
	r, cfg := b.replica()
	var api Pipeline
	api, b.api = b.open(d, r, cfg)
	filters := []*replica{b.start(d, "filter"), b.start(d, "filter")}
	counters := []*replica{b.start(d, "counter"), b.start(d, "counter")}
	load, err := System().Workload(b.rng.Uint64(), b.params)
	if err != nil {
		b.t.Fatal(err)
	}
	var viewers sync.WaitGroup
	viewers.Go(func() { faults(filters, counters) }) // from here on, b.rng is theirs
	gap := time.Duration(float64(time.Second) / b.params.EventRate / b.params.TimeScale)
	b.Users(b.ctx, &viewers, load, sessions,
		func(i int) time.Duration { return time.Duration(i) * gap },
		func(ctx context.Context, op history.Op) (history.Reply, error) { return b.do(ctx, api, op) })
	viewers.Wait()
	b.settle()
	audit := b.audit()
	b.cancel()
	b.roles.Wait()
	b.api.Kafka.Close()
	return b.Verdicts(Invariants(b.params), audit)
}

func (b *bubble) audit() json.RawMessage {
	a := Audit{CountWindowMS: b.params.CountWindow.D().Milliseconds()}
	var first, second error
	a.Watch, first = readTopic(b.ctx, b.api, topicWatch)
	a.Valid, second = readTopic(b.ctx, b.api, topicValid)
	b.tables.audit(&a)
	raw, third := json.Marshal(a)
	if err := errors.Join(first, second, third); err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// do is the API.
func (b *bubble) do(ctx context.Context, api Pipeline, op history.Op) (history.Reply, error) {
	if op.Kind == KindViews {
		return history.Reply{Key: "1", Value: b.tables.shown(op.Key)}, nil
	}
	h, _, err := heartbeatOf(op)
	if err != nil {
		return history.Reply{}, err
	}
	reply, err := api.Watch(ctx, watchOf(h))
	return history.Reply{Key: string(reply.Position)}, err
}

// settle waits until the stages have read everything, two minutes at most:
// whoever is wrong may never have.
func (b *bubble) settle() {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Minute)
	defer cancel()
	for sut.Pause(ctx, 500*time.Millisecond) {
		watch, first := topics.Ends(ctx, b.api.Kafka, topics.Name(b.Config, topicWatch))
		valid, second := topics.Ends(ctx, b.api.Kafka, topics.Name(b.Config, topicValid))
		if errors.Join(first, second) != nil {
			continue
		}
		behind := int64(0)
		b.tables.mu.Lock()
		for who, list := range b.tables.stands {
			ends := map[string]map[int32]int64{stageFilter: watch, stageCounter: valid}[who.stage]
			for p, s := range list {
				behind += ends[p] - s.next
			}
		}
		b.tables.mu.Unlock()
		if behind == 0 {
			break
		}
	}
	// Buffers that nobody should have any more are stored by now as well.
	b.Wait(2*b.params.clock(b.params.CountWindow) + 10*time.Second)
}

func (b *bubble) hit(place string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits = append(b.hits, place)
}

// wipe empties Redis.
func (b *bubble) wipe() {
	b.Redis.FlushAll()
	b.Fault("kill redis wipe", b.Elapsed())
}

// trouble is what befalls a seed: two or three faults at moments of their own.
func (b *bubble) trouble(d build) func(filters, counters []*replica) {
	places := map[string][]string{"filter": {placeDecided, placeForwarded},
		"counter": {placeCounting, placeCounted}}
	return func(filters, counters []*replica) {
		for range 2 + b.rng.IntN(2) {
			b.Wait(time.Duration(5+b.rng.IntN(20)) * time.Second)
			role, victims := "counter", &counters
			if b.rng.IntN(2) == 0 {
				role, victims = "filter", &filters
			}
			r := (*victims)[b.rng.IntN(len(*victims))]
			place := places[role][b.rng.IntN(2)]
			switch b.rng.IntN(5) {
			case 0: // it dies at a place, and another one comes
				r.arm(place, 1+b.rng.IntN(3), 0, b.rng.IntN(2) == 0)
				b.Wait(5 * time.Second)
				*victims = append(*victims, b.start(d, role))
			case 1: // it sleeps at a place for longer than its session, and goes on
				r.arm(place, 1+b.rng.IntN(3), 15*time.Second, b.rng.IntN(2) == 0)
			case 2: // it leaves in an orderly way, and another one comes
				r.cancel()
				*victims = append(*victims, b.start(d, role))
			case 3: // its way to the stores is stalled
				heal := r.Stall()
				b.Wait(time.Duration(1+b.rng.IntN(8)) * time.Second)
				heal()
			case 4:
				b.wipe()
			}
		}
	}
}

// TestBubble: a correct pipeline in virtual time, with faults that follow from
// the seed, is never broken.
func TestBubble(t *testing.T) {
	seeds := uint64(suttest.Share(50))
	for _, d := range []build{inVideos(), inSessions(), inRecords(), inOwnMemory()} {
		t.Run(d.name, func(t *testing.T) {
			for seed := range seeds {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					suttest.InBubble(t, func(t *testing.T) {
						b := newBubble(t, seed, bubbleParams())
						for name, v := range b.live(d, 120, b.trouble(d)) {
							if v.Status == check.Broken {
								t.Errorf("%s is broken: %+v (faults at %v)", name, v.Violations, b.hits)
							}
						}
						t.Logf("%d records in %v, faults at %v", len(b.Records), b.Elapsed(),
							b.hits)
					})
				})
			}
		})
	}
}

// TestForgottenInTheMiddle: Redis loses its memory while a batch of many events
// is decided, or forwarded, and its filter dies. Whoever comes after it would
// decide otherwise; each event has one fate all the same.
func TestForgottenInTheMiddle(t *testing.T) {
	p := bubbleParams()
	p.EventRate, p.Users, p.Return, p.IPViews = 0.6, 12, 0.4, 2
	for _, place := range []string{placeDecided, placeForwarded} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(place, " ", seed), func(t *testing.T) {
				suttest.InBubble(t, func(t *testing.T) {
					d := []build{inVideos(), inSessions()}[seed%2]
					b := newBubble(t, seed, p)
					verdicts := b.live(d, 300, func(filters, _ []*replica) {
						for range 4 {
							filters = b.forgetAt(d, place, filters)
						}
					})
					for name, v := range verdicts {
						if v.Status == check.Broken {
							t.Errorf("%s is broken: %+v", name, v.Violations)
						}
					}
					if len(b.hits) == 0 || verdicts[ExactCounts].Status != check.Held ||
						verdicts[OnceInEffect].Status != check.Held {
						t.Errorf("faults at %v: %+v", b.hits, verdicts)
					}
				})
			})
		}
	}
}

// forgetAt lets events pile up before the filters, which then die at a place
// with Redis' memory, and brings others.
func (b *bubble) forgetAt(d build, place string, filters []*replica) []*replica {
	b.Wait(6 * time.Second)
	var heals []func()
	for _, r := range filters {
		heals = append(heals, r.Stall())
	}
	b.Wait(4 * time.Second)
	for i, r := range filters {
		r.arm(place, 1, 0, i == 0)
		heals[i]()
	}
	b.Wait(3 * time.Second)
	for _, r := range filters {
		r.die()
	}
	return []*replica{b.start(d, "filter"), b.start(d, "filter")}
}

// TestOneLeavesOthersStay: a player who gives up does not take along what others
// have sent beside it.
func TestOneLeavesOthersStay(t *testing.T) {
	suttest.InBubble(t, func(t *testing.T) {
		b := newBubble(t, 1, bubbleParams())
		r, cfg := b.replica()
		cfg.Timeout = 10 * time.Second
		api, st := b.open(inVideos(), r, cfg)
		defer st.Kafka.Close()
		send := func(id uint64, within time.Duration) error {
			ctx, cancel := context.WithTimeout(b.ctx, within)
			defer cancel()
			e := someEvent().Heartbeat
			e.ID = id
			_, err := api.Watch(ctx, watchOf(e))
			return err
		}
		if err := send(1, time.Second); err != nil {
			t.Fatal(err)
		}
		heal := r.Stall()
		var players sync.WaitGroup
		players.Go(func() {
			if err := send(2, 100*time.Millisecond); err == nil {
				t.Error("what cannot be written was acknowledged")
			}
		})
		for id := range uint64(3) {
			players.Go(func() {
				if err := send(3+id, 8*time.Second); err != nil {
					t.Errorf("one who stayed: %v", err)
				}
			})
		}
		b.Wait(2 * time.Second)
		heal()
		players.Wait()
	})
}

// stuck is a memory in books that do not answer.
type stuck struct{ mind }

func (stuck) store(
	ctx context.Context, _ []decision, _ func() ([]move, []DropAudit),
) ([]move, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) leave([]int32) {}

// TestHandsOverInTime: a filter whose books do not answer gives partitions up when the time for
// that is over, and what was on its way is not stored.
func TestHandsOverInTime(t *testing.T) {
	suttest.InBubble(t, func(t *testing.T) {
		f := &filter{mind: stuck{}}
		for range 2 {
			f.send(t.Context(), &decided{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.hand(ctx, []int32{0}, true)
		if err := f.arrived(); !errors.Is(err, context.Canceled) {
			t.Errorf("what was on its way: %v, want that it was stopped", err)
		}
	})
}

// TestTakenWhileItCloses: partitions are taken from a counter that is storing
// what it has before it leaves. What it has is stored once.
func TestTakenWhileItCloses(t *testing.T) {
	for _, d := range []build{inVideos(), inSessions()} {
		t.Run(d.name, func(t *testing.T) {
			suttest.InBubble(t, func(t *testing.T) {
				p := bubbleParams()
				p.EventRate, p.Users, p.Farm = 0.5, 4000, 0
				// Longer than a counter stays, so that it has something to store.
				p.CountWindow, p.VisibleWithin = sut.Duration(100*time.Second),
					sut.Duration(30*time.Second)
				b := newBubble(t, 1, p)
				slow := 0
				verdicts := b.live(d, 200, func(_, counters []*replica) {
					for range 3 {
						for _, other := range counters {
							other.cancel() // so that it has all partitions
						}
						ctx, cancel := context.WithCancel(b.ctx)
						r, cfg := b.replica()
						cfg.FailPoint = func(place string) {
							if place == placeCounting && ctx.Err() != nil {
								slow++
								b.Wait(2 * time.Second)
							}
						}
						b.run(ctx, cfg, d, "counter", r)
						b.Wait(5500 * time.Millisecond)
						cancel()
						b.Wait(500 * time.Millisecond)
						counters = []*replica{b.start(d, "counter")}
						b.Wait(6 * time.Second)
					}
				})
				for name, v := range verdicts {
					if v.Status == check.Broken {
						t.Errorf("%s is broken: %+v", name, v.Violations)
					}
				}
				if slow == 0 {
					t.Error("no counter had anything to store when it left")
				}
			})
		})
	}
}

// mutant is a planted error: what it is planted in, the fault under which it
// shows, and the invariant that names it.
type mutant struct {
	name  string
	plant build
	// control is what it is planted in, inVideos where it does not say.
	control build
	params  func(*Params)
	delay   time.Duration
	faults  func(b *bubble, d build, filters, counters []*replica)
	named   string
}

// nothing is no fault.
func nothing(*bubble, build, []*replica, []*replica) {}

// at lets all of some replicas come to a place for the n-th time from now and
// die there, or sleep; another one comes a while later.
func at(place string, n int, sleep time.Duration) func(*bubble, build, []*replica, []*replica) {
	return func(b *bubble, d build, _, counters []*replica) {
		b.Wait(30 * time.Second)
		counters[0].arm(place, n, sleep, false)
		b.Wait(20 * time.Second)
		b.start(d, "counter")
	}
}

// comeAndGo takes counters away and brings others.
func comeAndGo(b *bubble, d build, _, counters []*replica) {
	for range 6 {
		b.Wait(9*time.Second + time.Duration(b.rng.IntN(2000))*time.Millisecond)
		counters = append(counters, b.start(d, "counter"))
		b.Wait(5 * time.Second)
		counters[0].cancel()
		counters = counters[1:]
	}
}

func mutants() []mutant {
	return []mutant{
		{name: "M30 reads the windows first and writes them later",
			plant: build{filter: func(f *filter, _ *opened) {
				w := f.mind.(*windows)
				w.decide = w.judgeCarelessly
			}},
			params: func(p *Params) {
				p.Farm, p.EventRate = 0.8, 2
				p.IPViews, p.IPWindow = 2, sut.Duration(20*time.Second)
			},
			delay: 60 * time.Millisecond, faults: nothing, named: ExactCounts},
		{name: "M31 commits before it counts", plant: build{counter: commitBefore},
			faults: at(placeCounted, 1, 0), named: OnceInEffect},
		{name: "M32 takes no notice of a rebalance", plant: build{counter: takeNoNotice},
			params: func(p *Params) {
				p.EventRate, p.CountWindow = 0.3, sut.Duration(100*time.Second)
				p.VisibleWithin = sut.Duration(30 * time.Second)
			},
			faults: comeAndGo, named: ExactCounts},
		{name: "M33 windows of the clock", plant: build{counter: func(c *counter) {
			c.when = func(*Event) int64 { return time.Now().UnixMilli() }
		}}, faults: nothing, named: ExactCounts},
		{name: "M34 stores what it holds though another has the partition",
			plant:  build{counter: storeUnfenced},
			faults: at(placeCounting, 1, 15*time.Second), named: ExactCounts},
		{name: "M35 exactly ten seconds are not enough",
			plant: build{filter: func(f *filter, _ *opened) {
				f.alone = func(rules *ruleSet, e *Event, creator string) string {
					reason := rules.alone(e, creator)
					if reason == "" && e.WatchedMS == rules.MinWatchMS {
						return Short
					}
					return reason
				}
			}},
			faults: nothing, named: ExactCounts},
		{name: "counts_before_offsets", plant: build{counter: commitAfterwards},
			faults: at(placeCounted, 1, 0), named: OnceInEffect},
	}
}

// commitBefore lets a counter commit its offsets to Kafka before it stores what it counted.
func commitBefore(c *counter) {
	c.byCommits = true
	c.store = func(ctx context.Context, moves []move, sums []sum) error {
		if err := c.commit(ctx, moves); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		return errors.Join(c.books.counts(ctx, c.who, sums), c.books.reports(ctx, c.who, moves))
	}
}

// storeUnfenced lets a counter store beside its progress, whoever has taken the partition.
func storeUnfenced(c *counter) {
	c.store = func(ctx context.Context, moves []move, sums []sum) error {
		if err := c.books.counts(ctx, c.who, sums); err != nil {
			return err
		}
		c.cfg.Passed(placeCounted)
		return c.books.reports(ctx, c.who, moves)
	}
}

// TestMutants: each planted error is named by its invariant within a few seeds,
// and what it was planted in is not broken under the same seeds and faults.
func TestMutants(t *testing.T) {
	for _, m := range slices.Concat(mutants(), memoryMutants()) {
		t.Run(m.name, func(t *testing.T) {
			d, control := m.plant, m.control
			d.name, d.api = "mutant", inVideos().api
			if control.api == nil {
				control = inVideos()
			}
			suttest.Killed(t, []string{m.named},
				func(seed uint64) map[string]check.Verdict { return m.live(t, control, seed) },
				func(seed uint64) map[string]check.Verdict { return m.live(t, d, seed) })
		})
	}
}

// live runs a design with a seed under the mutant's fault.
func (m mutant) live(t *testing.T, d build, seed uint64) (verdicts map[string]check.Verdict) {
	t.Helper()
	suttest.InBubble(t, func(t *testing.T) {
		p := bubbleParams()
		if m.params != nil {
			m.params(&p)
		}
		b := newBubble(t, seed, p)
		b.delay = m.delay
		verdicts = b.live(d, 120, func(filters, counters []*replica) {
			m.faults(b, d, filters, counters)
		})
		if fault := fmt.Sprint(b.hits); len(b.hits) > 0 {
			t.Logf("%s, seed %d: faults at %s", d.name, seed, fault)
		}
	})
	return verdicts
}
