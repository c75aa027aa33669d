package reports_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/stats"
	"stampede/reports/answer"
)

// design is one variant of a fixture.
type design struct {
	name   string
	idea   string
	p50    time.Duration // of buy
	breaks []string      // invariants it breaks
	expect []string      // invariants it is expected to break
	drops  float64       // share of operations dropped
}

// flashSale are fourteen designs with plausible numbers.
func flashSale() []design {
	ms := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	oversell := []string{"no-oversell"}
	return []design{
		{name: "conditional_update", idea: "One UPDATE with the condition in its WHERE clause.",
			p50: ms(9)},
		{name: "naive_select", idea: "Reads the stock, then writes it.", p50: ms(3),
			breaks: append(oversell, "stock-conserved"), expect: append(oversell, "stock-conserved")},
		{name: "counter_in_place", idea: "One counter row, updated in place.", p50: ms(8)},
		{name: "for_update", idea: "SELECT … FOR UPDATE, then UPDATE.", p50: ms(31)},
		{name: "optimistic_version", idea: "Compare the version, retry when it lost.",
			p50: ms(44), drops: .002},
		{name: "units_skip_locked", idea: "A row per unit, taken by SKIP LOCKED.", p50: ms(5)},
		{name: "units_grouped", idea: "SKIP LOCKED in groups by one collector.", p50: ms(2.2)},
		{name: "redis_get_decr", idea: "GET, compare, DECR.", p50: ms(.7),
			breaks: oversell, expect: oversell},
		{name: "redis_lua", idea: "A script that never goes below zero; ledger in Postgres.",
			p50: ms(1.1)},
		{name: "redis_lua_pipelined", idea: "The same script, pipelined automatically.", p50: ms(.8)},
		{name: "redis_two_phase", idea: "A token per buyer with a time to live.", p50: ms(1.6)},
		{name: "redlock", idea: "A lock in Redis around read and write.", p50: ms(120), drops: .2},
		{name: "redis_no_gate", idea: "The counter in Redis alone.", p50: ms(.6),
			breaks: oversell, expect: oversell},
		{name: "redis_silent_retry", idea: "A driver that retries without saying so.", p50: ms(1.2),
			breaks: []string{"one-per-buyer"}, expect: []string{"one-per-buyer"}},
	}
}

var invariants = []string{"no-oversell", "one-per-buyer", "stock-conserved", "paid-has-unit",
	"refund-when-late", "no-lost-order", "stock-never-negative"}

// fixture builds a Data from designs.
type fixture struct {
	designs []design
	repeats int
	ops     int
	faults  bool
}

func (f fixture) build(t testing.TB) answer.Data {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	d := answer.Data{
		Summary:   emptySummary(),
		Timelines: map[answer.RepeatRef]rundir.Timeline{},
		Telemetry: map[answer.RepeatRef]rundir.Telemetry{},
		Windows:   map[answer.RepeatRef]rundir.Windows{},
		Deeds:     map[answer.RepeatRef][]history.Record{},
		Place:     "runs/flash-sale-100k/20261121T093000Z-42-7f3a19c0",
		Scenario:  "name: flash-sale-100k\nload:\n  max_in_flight: 512 # of the generator\n",
		Records:   map[answer.RepeatRef]map[uint64]history.Record{},
		Files: []string{"report.html", "summary.json", "junit.xml", "summary.md", "metrics.txt",
			"scenario.resolved.yaml", "hdr/redis_lua.buy.hgrm", "hdr/redis_lua.payment.hgrm",
			"history/redis_lua.0.history"},
	}
	s := &d.Summary
	s.Run.Repeats = f.repeats
	for i, g := range f.designs {
		v := f.variant(t, &d, rng, g, i)
		s.Variants = append(s.Variants, v)
	}
	s.Run.Baseline = ""
	if len(f.designs) > 0 {
		s.Run.Baseline = f.designs[0].name
	}
	s.Comparisons = stats.Comparisons(s.Variants, s.Run.Baseline, s.Run.Seed, s.NoiseFloor)
	for _, v := range s.Variants {
		if v.Objectives == rundir.Fail && len(v.ExpectedBroken) == 0 {
			s.Verdict.Overall, s.Verdict.Objectives = rundir.Fail, rundir.Fail
		}
		if v.Verdict == rundir.Fail {
			s.Verdict.Overall, s.Verdict.Correctness = rundir.Fail, rundir.Fail
			s.Verdict.Reasons = append(s.Verdict.Reasons, v.Name+" failed")
		}
	}
	return d
}

func emptySummary() rundir.Summary {
	started := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := rundir.Summary{
		SchemaVersion: rundir.SchemaVersion,
		Tool:          rundir.Tool{Name: "stampede", Version: "0.1.0", Commit: "4577fad", Go: "go1.26.8"},
		Run: rundir.RunInfo{ID: "20261121T093000Z-42-7f3a", Scenario: "flash-sale-100k",
			Question: "Which design sells exactly 1,000 units to 100,000 buyers, and what does each cost?",
			System:   "flashsale", Profile: "default", Seed: 42, Repeats: 1,
			ArrivalDigest: "5f0c9d3e", ScenarioDigest: "c1aa77b2",
			Started: started, Finished: started.Add(3*time.Minute + 41*time.Second),
			Argv:      []string{"stampede", "run", "flash-sale-100k", "--seed", "42"},
			Reproduce: "stampede run flash-sale-100k --profile default --seed 42 --backend processes"},
		Environment: rundir.Environment{Backend: "processes",
			BackendReason: "no container engine answers",
			Components: map[string]rundir.Component{
				"postgres": {Kind: "postgres", Version: "15.14",
					Source: "/usr/lib/postgresql/15/bin/postgres",
					Settings: map[string]string{"fsync": "on", "synchronous_commit": "on",
						"max_connections": "120"},
					FlushNS: 48_000},
				"redis": {Kind: "redis", Version: "7.0.15", Source: "/usr/bin/redis-server",
					Settings: map[string]string{"appendonly": "yes", "appendfsync": "everysec"}, FlushNS: 47_000},
			},
			OS: "Debian GNU/Linux 12", Kernel: "6.18.5", CPU: "Xeon @ 2.50GHz", Cores: 2,
			MemoryBytes: 8 << 30, Fingerprint: "b2a1c0ffee", Proxied: true},
		Verdict: rundir.Verdict{Overall: rundir.Pass, Correctness: rundir.Pass,
			Objectives: rundir.Pass, Timing: rundir.Clean},
		Statements: map[string]string{
			"no-oversell":          "No item ever has more units held or sold than it has.",
			"one-per-buyer":        "No buyer has more than one unit of an item.",
			"stock-conserved":      "Available, held and sold units add up to the units of the item.",
			"paid-has-unit":        "Every paid order has a unit, and no unit has two.",
			"refund-when-late":     "A payment for an expired order is refunded exactly once.",
			"no-lost-order":        "Every confirmed order is in the store at the end.",
			"stock-never-negative": "No snapshot ever shows negative stock.",
		},
	}
	return s
}

func (f fixture) variant(
	t testing.TB, d *answer.Data, rng *rand.Rand, g design, place int,
) rundir.Variant {
	v := rundir.Variant{Name: g.name, Idea: g.idea, Guarantees: "Sells each unit once.",
		GivesUp: "Throughput on one hot row.", Verdict: rundir.Pass, ExpectedBroken: g.expect,
		Needs: []string{"postgres", "redis"}, Servers: 1,
		Roles: []rundir.Role{{Name: "reclaimer", Summary: "returns expired carts", Replicas: 1}}}
	whole := map[string]*hdrhistogram.Histogram{}
	for r := range f.repeats {
		repeat := rundir.Repeat{Index: r, Order: r*len(f.designs) + place, Verdict: rundir.Pass,
			Timing: rundir.Clean, Used: true, Races: races(f.ops),
			Validity: []rundir.Validity{
				{Name: "started empty", Class: rundir.Evidence, OK: true, Detail: "no rows, no keys"},
				{Name: "schedule kept", Class: rundir.Evidence, OK: true,
					Detail: "99.98 % started, limit 99 %"},
				{Name: "start lag", Class: rundir.Times, OK: true, Detail: "p99 61 µs, limit 1 ms"},
			},
			Generator: rundir.Generator{CPUCores: .62, LagP99NS: 61_000, OpenFiles: 80},
			DrainNS:   int64(120 * time.Millisecond),
			History:   fmt.Sprintf("history/%s.%d.history", g.name, r),
			Processor: processor(g, f.ops)}
		ref := answer.RepeatRef{Variant: g.name, Repeat: r}
		for _, kind := range []string{"buy", "payment", "stock"} {
			n := f.ops
			if kind == "payment" {
				n = f.ops / 20
			}
			op := f.operation(t, rng, kind, g, n, whole)
			repeat.Operations = append(repeat.Operations, op)
			add(&repeat.Load, op.Load)
		}
		if len(repeat.Operations) > 0 {
			repeat.Latency = repeat.Operations[0].Latency
		}
		repeat.ThroughputPerS = float64(repeat.Load.Started) / 12
		if f.faults {
			repeat.Faults = []history.Window{{Kind: history.FaultWindow, Name: "stall", Fault: "pause redis",
				Start: 4 * time.Second, End: 6 * time.Second, Recovered: 6100 * time.Millisecond,
				Evidence: []string{"SIGSTOP to pid 4711, state T for 2.0 s"}}}
		}
		repeat.Invariants = f.verdicts(d, ref, g)
		d.Timelines[ref] = f.timeline(rng, g)
		d.Windows[ref] = f.windows(rng, g)
		d.Telemetry[ref] = telemetry(ref.Repeat)
		add(&v.Load, repeat.Load)
		v.Repeats = append(v.Repeats, repeat)
	}
	f.sum(t, &v, whole)
	v.Timing, v.Correctness, v.Objectives = rundir.Clean, rundir.Holds, rundir.Pass
	v.Races = races(f.ops * f.repeats)
	if len(g.expect) > 0 {
		v.Correctness = rundir.Caught
	}
	if len(g.breaks) > 0 && len(g.expect) == 0 {
		v.Verdict, v.Correctness = rundir.Fail, rundir.Violated
	}
	for _, name := range g.expect {
		if !slices.Contains(g.breaks, name) {
			v.Verdict, v.Correctness = rundir.Fail, rundir.NotCaught
		}
	}
	v.NotApplicable = map[string]string{"stock-never-negative": "gives no snapshot of the stock"}
	limit := 500 * time.Millisecond
	actual := time.Duration(v.Latency.Response.P99)
	slo := check.SLOVerdict{Name: "buy-p99", Objective: "p99(response, buy) <= 500ms in steady",
		Status: check.Held, Limit: "500ms", Actual: actual.Round(10 * time.Microsecond).String(),
		Margin: 1 - float64(actual)/float64(limit), Samples: v.Load.Started}
	if actual > limit {
		v.Objectives = rundir.Fail
		slo.Status = check.Broken
		slo.Actual = "never"
		slo.Margin = -1
	}
	v.SLOs = []check.SLOVerdict{slo, {Name: "errors", Objective: "unknown(buy) <= 1%",
		Status: check.Held, Limit: "1%", Actual: "0.02%", Margin: .98, Samples: v.Load.Started}}
	return v
}

// races are those of operations of which one in a hundred succeeded.
func races(ops int) *rundir.Races {
	return &rundir.Races{Kinds: []string{"buy"}, Successful: int64(ops) / 100,
		Raced: int64(ops) * 94 / 10_000, Peak: 41, Least: 1}
}

// sum fills the variant's own numbers from its repeats.
func (f fixture) sum(t testing.TB, v *rundir.Variant, whole map[string]*hdrhistogram.Histogram) {
	if len(v.Repeats) == 0 {
		return
	}
	v.Invariants = v.Repeats[0].Invariants
	v.ThroughputPerS = v.Repeats[0].ThroughputPerS
	for i, op := range v.Repeats[0].Operations {
		h := whole[op.Kind]
		sum := rundir.Operation{Kind: op.Kind, ThroughputPerS: op.ThroughputPerS, Errors: op.Errors}
		for _, r := range v.Repeats {
			add(&sum.Load, r.Operations[i].Load)
		}
		total := sum.Load.Scheduled
		sum.Latency = rundir.Latencies{Response: percentiles(h, total),
			Service: percentiles(h, h.TotalCount()),
			Lag: rundir.Percentiles{Count: total, P50: 8000, P90: 20000, P99: 61000, P999: 90000,
				Max: 120000}}
		sum.HDR = encode(t, h)
		if i == 0 {
			sum.Phases = []rundir.Phase{
				{Name: "warm-up", StartNS: 0, EndNS: 1e9, Load: sum.Load, Response: sum.Latency.Response},
				{Name: "steady", StartNS: 1e9, EndNS: 12e9, Load: sum.Load, Response: sum.Latency.Response},
			}
		}
		v.Operations = append(v.Operations, sum)
	}
	v.Latency = v.Operations[0].Latency
}

func (f fixture) operation(t testing.TB, rng *rand.Rand, kind string, g design, n int,
	whole map[string]*hdrhistogram.Histogram) rundir.Operation {
	h := hdrhistogram.New(1000, 60e9, 2)
	dropped := int64(float64(n) * g.drops)
	scale := float64(g.p50) * (1 + rng.NormFloat64()/15)
	if kind != "buy" {
		scale *= 1.7
	}
	for range int64(n) - dropped {
		_ = h.RecordValue(int64(scale * math.Exp(math.Abs(rng.NormFloat64())*.7+rng.ExpFloat64()*.25)))
	}
	if whole[kind] == nil {
		whole[kind] = hdrhistogram.New(1000, 60e9, 2)
	}
	whole[kind].Merge(h)
	started := int64(n) - dropped
	op := rundir.Operation{Kind: kind,
		Load: rundir.Load{Scheduled: int64(n), Started: started, Dropped: dropped,
			OK: started / 100, Refused: started - started/100 - started/5000, Unknown: started / 5000},
		Latency: rundir.Latencies{Response: percentiles(h, int64(n)),
			Service: percentiles(h, started)},
		ThroughputPerS: float64(started) / 12, HDR: encode(t, h)}
	if kind == "buy" && n > 0 {
		op.Errors = []rundir.ErrorClass{
			{Outcome: "refused", Class: "sold out", Count: op.Load.Refused, FirstNS: 15e8,
				Sample: "sold out: refused"},
			{Outcome: "unknown", Class: "timeout", Count: op.Load.Unknown, FirstNS: 41e8,
				Sample: "context deadline exceeded after 2s"}}
		op.Phases = []rundir.Phase{{Name: "warm-up", StartNS: 1e8, EndNS: 1e9},
			{Name: "steady", StartNS: 1e9, EndNS: 11e9}, {Name: "drain", StartNS: 11e9, EndNS: 12e9}}
	}
	return op
}

func percentiles(h *hdrhistogram.Histogram, total int64) rundir.Percentiles {
	at := func(q float64) int64 {
		rank := math.Ceil(q * float64(total))
		if rank > float64(h.TotalCount()) {
			return rundir.Infinite
		}
		return h.ValueAtQuantile(rank / float64(h.TotalCount()) * 100)
	}
	if total == 0 {
		return rundir.Percentiles{}
	}
	return rundir.Percentiles{Count: total, P50: at(.5), P90: at(.9), P99: at(.99),
		P999: at(.999), Max: at(1)}
}

func encode(t testing.TB, h *hdrhistogram.Histogram) string {
	t.Helper()
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatalf("encode histogram: %v", err)
	}
	return string(encoded)
}

// verdicts judges a fixture's invariants and stores the records behind them.
func (f fixture) verdicts(d *answer.Data, ref answer.RepeatRef, g design) []check.Verdict {
	var all []check.Verdict
	records := map[uint64]history.Record{}
	for i, name := range invariants {
		v := check.Verdict{Invariant: name, Status: check.Held, Checked: max(0, f.ops-7*i), Unknown: 3}
		if slices.Contains(g.breaks, name) {
			v.Status, v.Count = check.Broken, 37
			for k := range 20 {
				seq := uint64(1000*i + 10*k)
				v.Violations = append(v.Violations, check.Violation{
					Text: fmt.Sprintf("item-1 has %d of 100 units sold", 101+k),
					Ops:  []uint64{seq, seq + 1}, AtNS: int64(2e9) + int64(k)*1e6})
				v.Witness = append(v.Witness, seq, seq+1)
				records[seq] = record(seq, history.OK)
				records[seq+1] = record(seq+1, history.Unknown)
				if k < 2 {
					d.Deeds[ref] = append(d.Deeds[ref], record(seq, history.OK),
						record(seq+1, history.Unknown), later(record(seq, history.Refused)))
				}
			}
		}
		if name == "no-lost-order" && g.name == "redis_lua" {
			v.Accepted = []check.AcceptedLoss{{What: "reservations made in the last second before a crash",
				Why: "appendfsync everysec", Count: 3, Bound: 200}}
		}
		all = append(all, v)
	}
	d.Records[ref] = records
	return all
}

func record(seq uint64, outcome history.Outcome) history.Record {
	at := 2*time.Second + time.Duration(seq)*137*time.Microsecond
	r := history.Record{Seq: seq, Op: history.Op{ID: 900_000 + seq, Kind: "buy", Key: "item-1",
		Client: fmt.Sprintf("buyer-%d", seq)}, Outcome: outcome,
		Intended: at, Start: at + 8*time.Microsecond, End: at + 3*time.Millisecond}
	if outcome == history.OK {
		r.Reply = history.Reply{Key: fmt.Sprintf("order-%d", seq), Value: int64(seq%100 + 1)}
	} else {
		r.Err, r.End = "timeout: context deadline exceeded", history.Never
	}
	return r
}

// later is another operation of the same client, four seconds after.
func later(r history.Record) history.Record {
	r.Seq += 5000
	r.Intended, r.Start = r.Intended+4*time.Second, r.Start+4*time.Second
	r.End = r.Start + 2*time.Millisecond
	return r
}

func (f fixture) timeline(rng *rand.Rand, g design) rundir.Timeline {
	timeline := rundir.Timeline{BucketNS: int64(50 * time.Millisecond)}
	buy := rundir.KindTimeline{Kind: "buy"}
	for i := range 240 {
		scheduled := int64(float64(f.ops) / 60 * math.Exp(-float64(i)/60))
		dropped := int64(float64(scheduled) * g.drops)
		if f.ops == 0 {
			scheduled, dropped = 0, 0
		}
		base := float64(g.p50) * (1 + math.Abs(rng.NormFloat64())/4)
		load := rundir.Load{Scheduled: scheduled, Started: scheduled - dropped, Dropped: dropped}
		b := rundir.Bucket{Load: load, Response: rundir.Percentiles{Count: scheduled,
			P50: int64(base), P99: int64(base * 4), Max: int64(base * 6)},
			Ended: load.Started, InFlight: int64(float64(scheduled) * 20 * base / 1e9)}
		if f.faults && i >= 80 && i < 120 {
			b.Response.P50, b.Response.P99 = int64(1.2e9), rundir.Infinite
		}
		buy.Buckets = append(buy.Buckets, b)
	}
	timeline.Kinds = []rundir.KindTimeline{buy}
	return timeline
}

// processor is what a design spent: the more, the slower.
func processor(g design, ops int) *rundir.Processor {
	return &rundir.Processor{Operations: int64(ops), Parts: []rundir.ProcessorPart{
		{Name: rundir.GeneratorPart, NS: int64(ops) * 41_000},
		{Name: "postgres", NS: int64(ops) * int64(g.p50) / 20},
		{Name: "redis", NS: int64(ops) * 9_000}}}
}

// windows are sixty windows in which response times lie around the design's, and during
// a fault above a second or nowhere.
func (f fixture) windows(rng *rand.Rand, g design) rundir.Windows {
	w := rundir.Windows{SchemaVersion: rundir.SchemaVersion, WidthNS: int64(200 * time.Millisecond)}
	buy := rundir.KindWindows{Kind: "buy", Windows: []rundir.Window{}}
	sold := rundir.ErrorLine{Outcome: "refused", Class: "sold out"}
	late := rundir.ErrorLine{Outcome: "unknown", Class: "timeout"}
	for i := range 60 {
		n := int64(float64(f.ops) / 15 * math.Exp(-float64(i)/15))
		one := rundir.Window{FirstRow: rundir.LatencyRow(g.p50 / 2), Counts: []int64{}}
		stalled := f.faults && i >= 20 && i < 30
		if stalled {
			one.FirstRow, one.Infinite = rundir.LatencyRow(time.Second), n/10
			late.At, late.Counts = append(late.At, i), append(late.Counts, n/10)
		}
		for row := range 14 {
			if at := float64(row-3) / 2.5; n > 0 {
				one.Counts = append(one.Counts,
					int64(float64(n)*math.Exp(-at*at/2)*(.8+.4*rng.Float64())/6))
			}
		}
		if i > 7 && n > 0 {
			sold.At, sold.Counts = append(sold.At, i), append(sold.Counts, n)
		}
		buy.Windows = append(buy.Windows, one)
	}
	for _, line := range []rundir.ErrorLine{sold, late} {
		if len(line.At) > 0 {
			buy.Errors = append(buy.Errors, line)
		}
	}
	w.Kinds = []rundir.KindWindows{buy}
	return w
}

// telemetry is twelve seconds of two stores and of the processors, in which Redis does
// not answer for a while.
func telemetry(seed int) rundir.Telemetry {
	of := func(
		quantity, part, unit string, skip func(int) bool, value func(int) float64,
	) rundir.Series {
		s := rundir.Series{Quantity: quantity, Part: part, Unit: unit}
		for i := range 13 {
			if skip == nil || !skip(i) {
				s.AtNS = append(s.AtNS, int64(i)*int64(time.Second)+int64(3*time.Millisecond))
				s.Values = append(s.Values, value(i))
			}
		}
		return s
	}
	flat := func(n float64) func(int) float64 { return func(int) float64 { return n } }
	wave := func(n float64) func(int) float64 {
		return func(i int) float64 { return n * (1.5 + math.Sin(float64(i+seed))) }
	}
	stalled := func(i int) bool { return i >= 4 && i < 8 }
	return rundir.Telemetry{PeriodNS: int64(time.Second), Sources: []rundir.TelemetrySource{
		{Name: "postgres", Asked: 13, Series: []rundir.Series{
			of("transactions", "committed", "/s", nil, wave(1200)),
			of("transactions", "rolled back", "/s", nil, wave(3)),
			of("deadlocks", "", "/s", nil, flat(0)),
			of("WAL", "", "bytes/s", nil, wave(2.5e6)),
		}},
		{Name: "redis", Asked: 13, Missed: 4, Trouble: "i/o timeout", Series: []rundir.Series{
			of("commands", "", "/s", stalled, wave(9000)),
			of("memory", "", "bytes", stalled, wave(1.5e6)),
		}},
		{Name: "cpu", Asked: 13, Series: []rundir.Series{
			of("processor", "generator", "cores", nil, wave(.4)),
			of("processor", "postgres", "cores", nil, wave(.3)),
			of("processor", "redis", "cores", stalled, wave(.1)),
		}},
	}}
}

// lagging adds the lag of twelve partitions, one of which falls behind.
func lagging(t rundir.Telemetry) rundir.Telemetry {
	source := rundir.TelemetrySource{Name: "kafka", Asked: 13}
	for part := range 12 {
		s := rundir.Series{Quantity: "counter lag", Part: strconv.Itoa(part),
			Unit: "records"}
		for i := range 12 {
			s.AtNS = append(s.AtNS, int64(i)*int64(time.Second))
			s.Values = append(s.Values, float64((i+part)%3+i*100*(part/11)))
		}
		source.Series = append(source.Series, s)
	}
	t.Sources = append(t.Sources, source)
	return t
}

func add(to *rundir.Load, l rundir.Load) {
	to.Scheduled += l.Scheduled
	to.Started += l.Started
	to.Dropped += l.Dropped
	to.OK += l.OK
	to.Refused += l.Refused
	to.Unknown += l.Unknown
}
