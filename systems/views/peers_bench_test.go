package views

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/harness/topics"
)

// The benchmarks compare within one run, in turns; what they report is the
// median of the rounds. One iteration is the whole comparison.
const (
	// pipelineEvents are enough for the last window, which is stored up to 200 ms
	// after its last view was read, not to decide.
	pipelineEvents = 500_000
	hotEvents      = 200_000
)

// benchParams is a hot video, in an event time that leaves the counter's
// windows two hundred milliseconds of the clock.
func benchParams() *Params {
	p := DefaultParams()
	p.VideoSkew, p.EventRate = keys.SkewHot, 100
	return &p
}

// BenchmarkPipeline lets a filter and a counter work off a log of 500,000
// heartbeats, end to end: from when the roles are started until every view is
// counted in Postgres and all progress is stored. Its peer, a bare consumer of the
// same driver with the same settings, reads the same topic from when it is
// started and looks at each record once; it neither decodes nor keeps any. The
// topic is in small batches, as the API writes it (see fill). All of it, three
// stores and the benchmark, shares the machine. The aim is 0.6 of the peer.
func BenchmarkPipeline(b *testing.B) {
	var run *benchRun
	suttest.Compare(b, "bare-events", 0.6, func() float64 {
		run = openRun(b, "video_key", pipelineEvents)
		took, _ := run.workOff(b, 1)
		return pipelineEvents / took.Seconds()
	}, func() float64 { return pipelineEvents / run.read(b).Seconds() })
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
	all := System().Variants
	v := all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == name })]
	r := &benchRun{variant: v, events: events}
	r.inst, r.cfg = prepared(b, v, benchParams())
	fill(b, r.cfg, *benchParams(), events, name == "composite_key")
	return r
}

// fillBatch bounds a batch of fill, in bytes: a dozen heartbeats, as many as
// gather in a partition while a producer lingers for 5 ms, if there are 25,000
// heartbeats a second on 12 partitions.
const fillBatch = 1 << 10

// fill writes so many heartbeats of a workload into a prepared log, as an API would, and returns
// when they are there. Sessions follow each other, and are in the key if spread says so.
func fill(t testing.TB, cfg sut.Config, p Params, events int, spread bool) {
	t.Helper()
	load, err := NewWorkload(1, p)
	if err != nil {
		t.Fatal(err)
	}
	client, err := topics.Open(cfg, kgo.ProducerBatchMaxBytes(fillBatch))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	failed := kgo.AbortingFirstErrPromise(client)
	for session := uint64(0); events > 0; session++ {
		for ops := []history.Op{load.Op(session)}; len(ops) > 0 && events > 0; events-- {
			h, _, err := heartbeatOf(ops[0])
			if err != nil {
				t.Fatal(err)
			}
			key := h.Video
			if spread {
				key = bySession(&h)
			}
			client.Produce(t.Context(), &kgo.Record{Topic: topics.Name(cfg, topicWatch),
				Key: []byte(key), Value: encodeEvents([]Event{{Heartbeat: h, Rules: 1}})},
				failed.Promise())
			follows := load.Follow(ops[0], history.OK, history.Reply{})
			ops = ops[:0]
			for _, f := range follows {
				if f.Op.Kind == KindHeartbeat {
					ops = append(ops, f.Op)
				}
			}
		}
	}
	if err := failed.Err(); err != nil {
		t.Fatal(err)
	}
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

// workOff runs so many filters and counters, and the merge, until all is
// counted. It returns how long that took and the lag of the most belated
// partition, in records times seconds.
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
