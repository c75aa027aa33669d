package likes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

const (
	benchRound = 3 * time.Second
	benchConns = 32
	benchUsers = 256
)

// The designs that take a viral video: over a pipeline, with 100 counters and an
// acknowledgement from the log; and by Redis' acknowledgement, with as many counters
// as the video is hot. Each has to meet both aims.
var viral = []string{"redis_pipelined", "shards_adaptive"}

// BenchmarkSharded lets users like one video by a sharded design and, as its peer, by
// locked_row. The aim is 10 times as many.
func BenchmarkSharded(b *testing.B) {
	for _, name := range viral {
		b.Run(name, func(b *testing.B) {
			sharded, locked := openLikes(b, name, nil), openLikes(b, "locked_row", nil)
			suttest.Compare(b, "locked_row", 10, sharded.round(b, benchUsers, sharded.like),
				locked.round(b, benchUsers, locked.like))
		})
	}
}

// BenchmarkWriteAtHalfRate finds the highest rate at which a sharded design takes
// likes, and then offers half of it, open loop. The aim is a p99 below 10 ms, from
// when a like was due.
func BenchmarkWriteAtHalfRate(b *testing.B) {
	for _, name := range viral {
		b.Run(name, func(b *testing.B) { halfRate(b, name) })
	}
}

func halfRate(b *testing.B, name string) {
	const aim = 10.0
	for b.Loop() {
		most := openLikes(b, name, nil)
		var rates []float64
		for range suttest.BenchRounds {
			rates = append(rates, most.round(b, benchUsers, most.like)())
		}
		most.stop(b)
		rate := suttest.Median(rates) / 2
		half := openLikes(b, name, nil)
		p99 := half.paced(b, rate, 2*benchRound)
		b.ReportMetric(2*rate, "highest/s")
		b.ReportMetric(rate, "offered/s")
		b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
		b.ReportMetric(aim, "aim-ms")
		b.ReportMetric(suttest.Met(float64(p99.Microseconds())/1000 < aim), "met")
	}
}

// BenchmarkReadOf1000Shards reads the count of a video with 1,000 counters, one
// reader after the other. The aim is a p99 of 2 ms.
func BenchmarkReadOf1000Shards(b *testing.B) {
	const aim, reads = 2.0, 2000
	service := openLikes(b, "shards_fixed", func(p *Params) { p.Shards = 1000 })
	for range 5000 {
		if err := service.like(b.Context(), service.next.Add(1)); err != nil {
			b.Fatal(err)
		}
	}
	service.quiesce(b)
	for b.Loop() {
		took := make([]time.Duration, reads)
		for i := range took {
			begin := time.Now()
			if _, err := service.inst.Do(b.Context(), history.Op{ID: 1, Kind: KindCount,
				Key: "video-1", Client: "user-1"}); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(begin)
		}
		p99 := float64(percentile(took, 0.99).Microseconds()) / 1000
		b.ReportMetric(float64(percentile(took, 0.5).Microseconds())/1000, "p50-ms")
		b.ReportMetric(p99, "p99-ms")
		b.ReportMetric(aim, "aim-ms")
		b.ReportMetric(suttest.Met(p99 <= aim), "met")
	}
}

// BenchmarkAutoPipeline counts likes by the automatic pipeline of redis_pipelined,
// for eight users for each of its peer's connections. Its peer, redis-benchmark,
// runs the same script unpipelined. The aim is 1.2 times as many.
func BenchmarkAutoPipeline(b *testing.B) {
	service := openLikes(b, "redis_pipelined", nil)
	v := redisPipelined(inPostgres)
	st, err := openStores(b.Context(), v, service.cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer closeStores(st)
	l, first := v.Open(b.Context(), st)
	sha, second := st.Redis.ScriptLoad(b.Context(), changeScript).Result()
	if err := errors.Join(first, second); err != nil {
		b.Fatal(err)
	}
	count := func(ctx context.Context, id uint64) error {
		_, err := l.(*counting).store.change(ctx, Request{OpID: id, Video: 1, User: id}, true)
		return err
	}
	opts := st.Redis.Options()
	key := func(name string) string { return service.cfg.Prefix + name }
	suttest.Compare(b, "redis-benchmark", 1.2, service.round(b, benchConns*8, count),
		suttest.RedisBenchmark(b, opts.Addr, opts.DB, benchConns, "EVALSHA", sha, "3", key("meta:1"),
			key("members:peer:0"), key("likes:peer:0"), "__rand_int__", "1", "1", "", "", "0"))
}

// service is an opened variant with its roles.
type service struct {
	inst sut.Instance
	cfg  sut.Config
	next atomic.Uint64
	// cancel ends the roles, once.
	cancel context.CancelFunc
	roles  sync.WaitGroup
	ended  sync.Once
}

func openLikes(b *testing.B, variant string, change func(*Params)) *service {
	b.Helper()
	p := DefaultParams()
	p.Buffer = 100_000
	if change != nil {
		change(&p)
	}
	space := lab.Namespace(b)
	s := &service{cfg: sut.Config{
		PostgresURL: space.PostgresURL, RedisURL: space.RedisURL, KafkaBrokers: space.KafkaBrokers,
		Kafka: sut.DefaultKafka(), Prefix: space.Prefix, Params: &p, MaxConns: benchConns,
		Timeout: 10 * time.Second,
	}}
	all := System().Variants
	v := all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == variant })]
	inst, err := v.Open(b.Context(), s.cfg)
	if err != nil {
		b.Fatal(err)
	}
	s.inst = inst
	if err := inst.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, role := range v.Roles {
		s.roles.Go(func() { _ = role.Run(ctx, s.cfg) }) // it returns nil
	}
	b.Cleanup(func() { s.stop(b) })
	return s
}

// stop ends the roles and closes the instance: what is left to do is not done, and
// disturbs nobody.
func (s *service) stop(b *testing.B) {
	s.ended.Do(func() {
		s.cancel()
		s.roles.Wait()
		if err := s.inst.Close(); err != nil {
			b.Error(err)
		}
	})
}

// quiesce waits until the roles have done what there was to do.
func (s *service) quiesce(b *testing.B) {
	b.Helper()
	q, ok := s.inst.(sut.Quiescer)
	if !ok {
		b.Fatal("nobody knows when the roles have nothing to do")
	}
	for {
		switch pending, err := q.Quiesced(b.Context()); {
		case err != nil:
			b.Fatal(err)
		case pending == "":
			return
		case !sut.Pause(b.Context(), 10*time.Millisecond):
			b.Fatal(b.Context().Err())
		}
	}
}

// like is a like of a user who has never liked before.
func (s *service) like(ctx context.Context, id uint64) error {
	_, err := s.inst.Do(ctx, history.Op{ID: id, Kind: KindLike, Key: "video-1",
		Client: UserName(id)})
	return err
}

// round returns a round of calls from so many goroutines; it measures calls per
// second.
func (s *service) round(
	b *testing.B, atOnce int, call func(context.Context, uint64) error,
) func() float64 {
	return func() float64 {
		var done atomic.Int64
		var first atomic.Pointer[error]
		begin := time.Now()
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() {
				for time.Since(begin) < benchRound {
					if err := call(b.Context(), s.next.Add(1)); err != nil {
						first.CompareAndSwap(nil, &err)
						return
					}
					done.Add(1)
				}
			})
		}
		all.Wait()
		if err := first.Load(); err != nil {
			b.Fatalf("a call of the benchmark failed: %v", *err)
		}
		return float64(done.Load()) / time.Since(begin).Seconds()
	}
}

// paced offers likes at a rate and returns the 99th percentile of the time from
// when each was due to its end.
func (s *service) paced(b *testing.B, rate float64, span time.Duration) time.Duration {
	n := int(rate * span.Seconds())
	took := make([]time.Duration, n)
	var failed atomic.Pointer[error]
	var next atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range benchUsers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				due := time.Duration(float64(i) / rate * float64(time.Second))
				if !sut.Pause(b.Context(), due-time.Since(begin)) {
					return
				}
				if err := s.like(b.Context(), s.next.Add(1)); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				took[i] = time.Since(begin) - due
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		b.Fatalf("a like of the benchmark failed: %v", *err)
	}
	return percentile(took, 0.99)
}

func percentile(took []time.Duration, p float64) time.Duration {
	slices.Sort(took)
	return took[int(p*float64(len(took)-1))]
}
