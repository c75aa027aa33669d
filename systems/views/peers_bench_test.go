package views

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/harness/topics"
)

// The benchmarks compare within one run, in turns; what they report is the
// median of the rounds. One iteration is the whole comparison.
const hotEvents = 200_000

// benchParams is a hot video, in an event time that leaves the counter's windows two hundred
// milliseconds of the clock. In it sessions begin as fast as the pipelines work them off, about
// 250,000 heartbeats in a second of the clock: a window has as many views as where they keep up.
func benchParams() *Params {
	p := DefaultParams()
	p.VideoSkew, p.EventRate = keys.SkewHot, 1000
	return &p
}

// pipelines are the designs of BenchmarkPipeline, each with its aim and with events enough for the
// beginning, in which groups are joined, and the last window, which is stored up to 200 ms
// after its last view was read, not to decide.
func pipelines() []pipelineBench {
	return []pipelineBench{{"video_key", 0.6, 500_000}, {"partition_state", 0.45, 2_000_000}}
}

type pipelineBench struct {
	design string
	aim    float64
	events int
}

// BenchmarkPipeline lets a filter and a counter work off a log of heartbeats, end to end: from when
// the roles are started until every view is counted in Postgres and all progress is stored. Its
// peer, a bare consumer of the same driver with the same settings, reads the same topic from when
// it is started and looks at each record once; it neither decodes nor keeps any. The topic is in
// small batches, as the API writes it (see fill). All of it, the stores and the benchmark, shares
// the machine. The aim is 0.6 of the peer where Redis judges every session, and 0.45 where the
// filter has them in its own memory.
func BenchmarkPipeline(b *testing.B) {
	for _, p := range pipelines() {
		b.Run(p.design, func(b *testing.B) {
			run := openRun(b, p.design, p.events)
			suttest.Compare(b, "bare-events", p.aim, func() float64 {
				run.rewind(b)
				took, _ := run.workOff(b, 1)
				return float64(p.events) / took.Seconds()
			}, func() float64 { return float64(p.events) / run.read(b).Seconds() })
		})
	}
}

// restoredSessions is how many sessions BenchmarkRestore has in one partition, and restoreAim
// the seconds in which they should be restored.
const (
	restoredSessions = 1_000_000
	restoreAim       = 5.0
)

// BenchmarkRestore lets a filter take a partition whose changelog has 1,000,000 sessions, each
// with a view of its user and one of its address. Its peer reads the same rows and keeps nothing.
func BenchmarkRestore(b *testing.B) {
	_, cfg := prepared(b, variantOf("partition_state"), benchParams())
	pool, err := stores.OpenPostgres(b.Context(), cfg, "views", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	db := database{pool}
	stands := remember(b, db, restoredSessions)
	took := func(read func() error) float64 {
		begin := time.Now()
		if err := read(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin).Seconds()
	}
	for b.Loop() {
		var restored, bare []float64
		for range suttest.BenchRounds {
			mind := newOwnMemory(db, *benchParams())
			restored = append(restored, took(func() error { return mind.recall(b.Context(), stands) }))
			sh := mind.shares[0]
			if n := sh.now.used + sh.before.used; n != 2*restoredSessions {
				b.Fatalf("%d names are restored, want %d", n, 2*restoredSessions)
			}
			bare = append(bare, took(func() error {
				return errors.Join(readLog(b, db, 0), readLog(b, db, addressLog))
			}))
		}
		seconds := suttest.Median(restored)
		b.ReportMetric(seconds, "restore-s")
		b.ReportMetric(restoreAim, "aim-s")
		b.ReportMetric(suttest.Met(seconds <= restoreAim), "met")
		b.ReportMetric(suttest.Median(bare), "bare-s")
		b.ReportMetric(suttest.Median(bare)/seconds, "ratio")
	}
}

// remember lets a filter decide so many sessions of partition 0, some thousand at once.
func remember(b *testing.B, db database, sessions int) (stands []stand) {
	b.Helper()
	mind, rules := newOwnMemory(db, *benchParams()), newRuleSet(benchParams().rules())
	for begin := 0; begin < sessions; {
		var err error
		if stands, err = db.take(b.Context(), station{stageFilter, 0}, []int32{0}); err == nil {
			err = mind.recall(b.Context(), stands)
		}
		if err != nil {
			b.Fatal(err)
		}
		list := make([]decision, min(4000, sessions-begin))
		for i := range list {
			name := strconv.Itoa(begin + i)
			list[i].event = Event{Heartbeat: Heartbeat{ID: uint64(begin + i + 1), Video: VideoKey(1),
				User: name, Session: name, IP: name, TimeMS: beginMS}}
			mind.meet(i, &list[i], rules)
		}
		to := move{stand: stands[0], toSource: -1, toDecided: stands[0].decided + int64(len(list))}
		if _, err := mind.store(b.Context(), list, func() ([]move, []DropAudit) {
			return []move{to}, nil
		}); err != nil {
			b.Fatal(err)
		}
		begin += len(list)
	}
	if stands, err := db.take(b.Context(), station{stageFilter, 0}, []int32{0}); err == nil {
		return stands
	}
	b.Fatal("the partition cannot be taken")
	return nil
}

// readLog reads a log and keeps nothing.
func readLog(b *testing.B, db database, log int32) error {
	for after := int64(0); ; {
		rows, err := db.changes(b.Context(), log, after, restoredAtOnce)
		if err != nil || len(rows) < restoredAtOnce {
			return err
		}
		after = rows[len(rows)-1].seq
	}
}

// BenchmarkHotPartition lets two filters and two counters work off a log of
// which one video has half, by video_key and by composite_key. It compares how
// far the most belated partition is behind, on average over the time that
// video_key takes. The composite key should halve it at least.
func BenchmarkHotPartition(b *testing.B) {
	for b.Loop() {
		var byVideo, bySession []float64
		for range suttest.BenchRounds {
			took, lag := openRun(b, "video_key", hotEvents).workOff(b, 2)
			byVideo = append(byVideo, lag/took.Seconds())
			_, lag = openRun(b, "composite_key", hotEvents).workOff(b, 2)
			bySession = append(bySession, lag/took.Seconds())
		}
		ratio := suttest.Median(byVideo) / suttest.Median(bySession)
		b.ReportMetric(suttest.Median(byVideo), "lag-by-video")
		b.ReportMetric(suttest.Median(bySession), "lag-by-session")
		b.ReportMetric(ratio, "ratio")
		b.ReportMetric(2, "aim")
		b.ReportMetric(suttest.Met(ratio >= 2), "met")
	}
}

// benchRun is a variant with a full log.
type benchRun struct {
	variant sut.Variant
	inst    sut.Instance
	cfg     sut.Config
	events  int
}

func openRun(b *testing.B, name string, events int) *benchRun {
	b.Helper()
	r := &benchRun{variant: variantOf(name), events: events}
	r.inst, r.cfg = prepared(b, r.variant, benchParams())
	fill(b, r.cfg, *benchParams(), events, name == "composite_key")
	return r
}

// fillBatch bounds a batch of fill, in bytes: a dozen heartbeats, as many as gather in a partition
// while a producer lingers for 5 ms, if there are 25,000 heartbeats a second on 12 partitions.
const fillBatch = 1 << 10

// producers is how many clients fill writes with, so that it does not wait for answers.
const producers = 4

// fill writes so many heartbeats of a workload into a prepared log, as an API would, and returns
// when they are there. Sessions follow each other, and are in the key if spread says so.
func fill(t testing.TB, cfg sut.Config, p Params, events int, spread bool) {
	t.Helper()
	load, err := System().Workload(1, p)
	if err != nil {
		t.Fatal(err)
	}
	var clients [producers]*kgo.Client
	var failed [producers]*kgo.FirstErrPromise
	for i := range clients {
		if clients[i], err = topics.Open(cfg, kgo.ProducerBatchMaxBytes(fillBatch)); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		failed[i] = kgo.AbortingFirstErrPromise(clients[i])
	}
	for session := uint64(0); events > 0; session++ {
		for _, h := range heartbeatsOf(t, load, session) {
			if events == 0 {
				break
			}
			events--
			key := h.Video
			if spread {
				key = bySession(&h)
			}
			n := session % producers
			clients[n].Produce(t.Context(), &kgo.Record{Topic: topics.Name(cfg, topicWatch),
				Key: []byte(key), Value: encodeEvents([]Event{{Heartbeat: h, Rules: 1}})},
				failed[n].Promise())
		}
	}
	for i := range failed {
		if err := failed[i].Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// heartbeatsOf are the heartbeats of a session.
func heartbeatsOf(t testing.TB, load sut.Workload, session uint64) (list []Heartbeat) {
	t.Helper()
	for ops := []history.Op{load.Op(session)}; len(ops) > 0; {
		h, _, err := heartbeatOf(ops[0])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h)
		follows := load.Follow(ops[0], history.OK, history.Reply{})
		ops = ops[:0]
		for _, f := range follows {
			if f.Op.Kind == KindHeartbeat {
				ops = append(ops, f.Op)
			}
		}
	}
	return list
}

// read reads the whole topic with nothing but the driver.
func (r *benchRun) read(b *testing.B) time.Duration {
	b.Helper()
	opts, err := topics.Options(r.cfg)
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topics.Name(r.cfg, topicWatch)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	seen := 0
	for seen < r.events {
		fetches := client.PollFetches(b.Context())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if len(record.Value) > 0 {
				seen++
			}
		})
	}
	return time.Since(begin)
}

// rewind forgets all that was decided and counted, and leaves the log as it is: the filter begins
// at its beginning, the counter behind the views that were forwarded before.
func (r *benchRun) rewind(b *testing.B) {
	b.Helper()
	client, first := topics.Open(r.cfg)
	db, second := stores.OpenPostgres(b.Context(), r.cfg, "views", nil)
	rdb, third := stores.OpenRedis(b.Context(), r.cfg)
	if err := errors.Join(first, second, third); err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	defer db.Close()
	defer rdb.Close()
	ends, err := topics.Ends(b.Context(), client, topics.Name(r.cfg, topicValid))
	if err != nil {
		b.Fatal(err)
	}
	err = db.Prepare(b.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `TRUNCATE drops, view_counts, shard_views;
			UPDATE progress SET next_offset = 0, source = -1, decided_offset = 0, views = ''`)
		if err == nil && r.variant.Name == "partition_state" {
			_, err = tx.Exec(ctx, `TRUNCATE changelog; UPDATE addresses_end SET seq = 0`)
		}
		for part, end := range ends {
			_, failed := tx.Exec(ctx, `UPDATE progress SET next_offset = $3
				WHERE stage = $1 AND part = $2`, stageCounter, part, end)
			err = errors.Join(err, failed)
		}
		return err
	})
	keys := rdb.Scan(b.Context(), 0, r.cfg.Prefix+"*", 1000).Iterator()
	for keys.Next(b.Context()) {
		err = errors.Join(err, rdb.Unlink(b.Context(), keys.Val()).Err())
	}
	if err = errors.Join(err, keys.Err()); err != nil {
		b.Fatal(err)
	}
}

// workOff runs so many filters and counters, and the merge, until all is counted. It returns how
// long that took and the lag of the most belated partition, in records times seconds.
func (r *benchRun) workOff(b *testing.B, replicas int) (took time.Duration, lag float64) {
	b.Helper()
	gauge, err := r.variant.Gauge(b.Context(), r.cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer gauge.Close()
	ctx, cancel := context.WithCancel(b.Context())
	var roles sync.WaitGroup
	begin := time.Now()
	for _, role := range r.variant.Roles {
		for range replicas {
			if role.Name == "reprocessor" {
				continue
			}
			roles.Go(func() {
				if err := role.Run(ctx, r.cfg); err != nil {
					b.Error(err)
				}
			})
		}
	}
	last := begin
	for {
		body, err := gauge.Sample(ctx)
		if err != nil {
			b.Fatal(err)
		}
		var look Look
		if err := json.Unmarshal(body, &look); err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		lag += float64(slices.Max(look.FilterLag)+slices.Max(look.CounterLag)) * now.Sub(last).Seconds()
		last = now
		pending, err := r.inst.(sut.Quiescer).Quiesced(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if pending == "" {
			break
		}
		sut.Pause(ctx, 50*time.Millisecond)
	}
	took = time.Since(begin)
	cancel()
	roles.Wait()
	return took, lag
}
