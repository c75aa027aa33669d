package measure_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
)

const ms = time.Millisecond

// records is a history in memory.
type records []history.Record

func (r records) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for _, rec := range r {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (records) Faults() []history.Window  { return nil }
func (records) Samples() []history.Sample { return nil }

// torn is a history that ends in an error.
type torn struct{ records }

var errTorn = errors.New("chunk 3 is damaged")

func (t torn) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		for rec := range t.records.All() {
			if !yield(rec, nil) {
				return
			}
		}
		yield(history.Record{}, errTorn)
	}
}

func op(kind string, outcome history.Outcome, intended, start, end time.Duration) history.Record {
	rec := history.Record{Op: history.Op{ID: 1, Kind: kind}, Outcome: outcome,
		Intended: intended, Start: start, End: end}
	if outcome == history.Refused || outcome == history.Unknown {
		rec.Err = "some error"
	}
	return rec
}

func summarise(t testing.TB, h history.History, opts measure.Options) *measure.Result {
	t.Helper()
	r, err := measure.Summarise(h, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDroppedAndUnfinishedAreInfinitelySlow(t *testing.T) {
	h := records{
		op("buy", history.OK, 0, 1*ms, 11*ms),
		op("buy", history.Refused, 1*ms, 3*ms, 23*ms),
		op("buy", history.Unknown, 2*ms, 5*ms, history.Never),
		op("buy", history.Dropped, 3*ms, history.Never, history.Never),
	}
	r := summarise(t, h, measure.Options{})
	got := r.Operations[0]
	wantLoad := rundir.Load{Scheduled: 4, Started: 3, Dropped: 1, OK: 1, Refused: 1, Unknown: 1}
	if got.Load != wantLoad || r.Load != wantLoad || r.Recorded != wantLoad {
		t.Errorf("load %+v", got.Load)
	}
	inf := rundir.Infinite
	tests := []struct {
		name           string
		p              rundir.Percentiles
		count          int64
		p50, p90, most int64
	}{
		{"response", got.Latency.Response, 4, 22e6, inf, inf},
		{"service", got.Latency.Service, 3, 20e6, inf, inf}, // none was asked of the dropped one
		{"lag", got.Latency.Lag, 4, 2e6, inf, inf},
	}
	for _, test := range tests {
		p := test.p
		if p.Count != test.count || !near(p.P50, test.p50) || p.P90 != test.p90 || p.Max != test.most {
			t.Errorf("%s: %+v", test.name, p)
		}
	}
	if want := 1 / 0.011; math.Abs(r.ThroughputPerS-want) > 1e-9 {
		t.Errorf("throughput %g, want %g", r.ThroughputPerS, want)
	}
}

// near allows a histogram's three digits.
func near(got, want int64) bool {
	return math.Abs(float64(got-want)) <= 1e-3*float64(want)+1024
}

func TestWarmUpIsCutByIntendedTime(t *testing.T) {
	windows := []history.Window{
		{Kind: history.PhaseWindow, Name: "warm-up", Start: 0, End: 10 * ms},
		{Kind: history.PhaseWindow, Name: "steady", Start: 10 * ms, End: 100 * ms},
	}
	h := records{
		op("buy", history.OK, 9*ms, 50*ms, 60*ms), // due in the warm-up, however late it ran
		op("buy", history.OK, 10*ms, 10*ms, 11*ms),
		op("buy", history.OK, 20*ms, 20*ms, 21*ms),
	}
	r := summarise(t, h, measure.Options{Windows: windows})
	if r.Load.Scheduled != 2 || r.Recorded.Scheduled != 3 {
		t.Errorf("measured %d of %d", r.Load.Scheduled, r.Recorded.Scheduled)
	}
	if got := r.Latency.Response.Max; got != int64(ms) {
		t.Errorf("max %d", got)
	}
	counts := map[string]int64{}
	for _, p := range r.Operations[0].Phases {
		counts[p.Name] = p.Load.Scheduled
	}
	if counts["warm-up"] != 1 || counts["steady"] != 2 || len(counts) != 2 {
		t.Errorf("phases %v", counts)
	}
}

func TestFaultsCutTheRunIntoPhases(t *testing.T) {
	windows := []history.Window{{
		Kind: history.FaultWindow, Name: "stall", Start: 10 * ms, End: 15 * ms,
		Recovered: 20 * ms, Evidence: []string{"pid 7 was stopped"},
	}, {
		Kind: history.FaultWindow, Name: "never", Start: 1 * ms, End: 2 * ms,
	}}
	var h records
	for i := range 30 {
		at := time.Duration(i) * ms
		h = append(h, op("buy", history.OK, at, at, at+ms))
	}
	r := summarise(t, h, measure.Options{Windows: windows})
	var names []string
	var counts []int64
	for _, p := range r.Operations[0].Phases {
		names, counts = append(names, p.Name), append(counts, p.Load.Scheduled)
	}
	if want := []string{"before stall", "during stall", "after stall"}; !slices.Equal(names, want) {
		t.Errorf("phases %v, want %v: a fault without evidence is none", names, want)
	}
	if want := []int64{10, 10, 10}; !slices.Equal(counts, want) {
		t.Errorf("counts %v, want %v", counts, want)
	}
}

func TestNumbersForObjectives(t *testing.T) {
	scopes := []check.Scope{{Name: "[10ms, 20ms]", From: 10 * ms, To: 20 * ms}}
	var h records
	for i := range 30 {
		at := time.Duration(i) * ms
		h = append(h, op("buy", history.OK, at, at+ms, at+3*ms))
		h = append(h, op("pay", history.Refused, at, at, at+time.Duration(i)*ms))
	}
	r := summarise(t, h, measure.Options{Scopes: scopes})
	if n, ok := r.Tally("buy", scopes[0].Name); !ok || n.OK != 10 || n.Scheduled != 10 {
		t.Errorf("tally %+v, %v", n, ok)
	}
	if n, ok := r.Tally("", "run"); !ok || n.Scheduled != 60 || n.Refused != 30 {
		t.Errorf("tally %+v, %v", n, ok)
	}
	if n, ok := r.Tally("refund", "run"); !ok || n.Scheduled != 0 {
		t.Errorf("a kind that never occurred: %+v, %v", n, ok)
	}
	if _, ok := r.Tally("buy", "steady"); ok {
		t.Error("a scope that was not measured has a tally")
	}
	ns, samples, ok := r.Quantile(measure.Service, "pay", scopes[0].Name, 0.5)
	if !ok || samples != 10 || !near(ns, int64(14*ms)) {
		t.Errorf("median %d of %d, %v", ns, samples, ok)
	}
	for _, bad := range []float64{0, -1, 1.1, math.NaN()} {
		if _, _, ok := r.Quantile(measure.Response, "buy", "run", bad); ok {
			t.Errorf("quantile %g is ok", bad)
		}
	}
	if _, _, ok := r.Quantile("speed", "buy", "run", 0.5); ok {
		t.Error("an unknown metric is ok")
	}
	if got := r.Span(scopes[0].Name); got != 10*ms {
		t.Errorf("span %s", got)
	}
	if got := r.Span("run"); got != 58*ms { // the last pay ends at 29 + 29 ms
		t.Errorf("span of the run %s", got)
	}
}

func TestEmptyHistory(t *testing.T) {
	r := summarise(t, records{}, measure.Options{Kinds: []string{"buy"}})
	if r.Load != (rundir.Load{}) || r.ThroughputPerS != 0 || len(r.Operations) != 0 {
		t.Errorf("%+v", r)
	}
	if r.Latency.Response != (rundir.Percentiles{}) {
		t.Errorf("response %+v", r.Latency.Response)
	}
}

func TestDamagedHistory(t *testing.T) {
	_, err := measure.Summarise(torn{records{op("buy", history.OK, 0, 0, ms)}}, measure.Options{})
	if !errors.Is(err, errTorn) {
		t.Errorf("got %v", err)
	}
}

func TestKindsAreInTheOrderAskedFor(t *testing.T) {
	h := records{op("z", history.OK, 0, 0, 0), op("a", history.OK, 0, 0, 0),
		op("pay", history.OK, 0, 0, 0), op("buy", history.OK, 0, 0, 0)}
	r := summarise(t, h, measure.Options{Kinds: []string{"buy", "pay", "refund"}})
	var kinds []string
	for i, o := range r.Operations {
		kinds = append(kinds, o.Kind)
		if r.Timeline.Kinds[i].Kind != o.Kind {
			t.Errorf("the timeline has %s for %s", r.Timeline.Kinds[i].Kind, o.Kind)
		}
	}
	if want := []string{"buy", "pay", "a", "z"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}

// anyRecord draws a consistent record.
func anyRecord(t *rapid.T) history.Record {
	span := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 2e9).Draw(t, name))
	}
	kind := rapid.SampledFrom([]string{"buy", "pay"}).Draw(t, "kind")
	intended := span("intended")
	outcome := history.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
	if outcome == history.Dropped {
		return op(kind, outcome, intended, history.Never, history.Never)
	}
	start := intended + span("lag")
	end := start + span("service")
	if outcome == history.Unknown && rapid.Bool().Draw(t, "unfinished") {
		end = history.Never
	}
	return op(kind, outcome, intended, start, end)
}

// The summary is compared with sorting and counting in the simplest way.
func TestAgreesWithSortingAndCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := records(rapid.SliceOfN(rapid.Custom(anyRecord), 1, 200).Draw(t, "records"))
		from := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "from"))
		scope := check.Scope{Name: "x", From: from, To: from + time.Second}
		r, err := measure.Summarise(h, measure.Options{Scopes: []check.Scope{scope}})
		if err != nil {
			t.Fatal(err)
		}
		kind := rapid.SampledFrom([]string{"", "buy", "pay"}).Draw(t, "of kind")
		for _, metric := range []string{measure.Response, measure.Service, measure.Lag} {
			want := values(h, metric, kind, scope)
			q := rapid.Float64Range(0.001, 1).Draw(t, "q")
			got, samples, ok := r.Quantile(metric, kind, "x", q)
			if !ok || samples != int64(len(want)) {
				t.Fatalf("%s: %d samples, want %d", metric, samples, len(want))
			}
			if len(want) == 0 {
				continue
			}
			exact := want[max(0, int(math.Ceil(q*float64(len(want))-1e-6))-1)]
			if got != exact && (exact == int64(history.Never) || !near(got, exact)) {
				t.Fatalf("%s: quantile %g is %d, want %d", metric, q, got, exact)
			}
		}
	})
}

// values are a metric's samples in ascending order.
func values(h records, metric, kind string, scope check.Scope) []int64 {
	var all []int64
	for _, r := range h {
		if r.Intended < scope.From || r.Intended >= scope.To || kind != "" && r.Op.Kind != kind {
			continue
		}
		from, to := r.Intended, r.End
		switch metric {
		case measure.Service:
			if r.Outcome == history.Dropped {
				continue
			}
			from = r.Start
		case measure.Lag:
			to = r.Start
		}
		if to == history.Never {
			all = append(all, int64(history.Never))
		} else {
			all = append(all, int64(to-from))
		}
	}
	slices.Sort(all)
	return all
}

func TestTimelineAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := records(rapid.SliceOfN(rapid.Custom(anyRecord), 1, 200).Draw(t, "records"))
		limit := rapid.IntRange(1, 300).Draw(t, "limit")
		r, err := measure.Summarise(h, measure.Options{MaxBuckets: limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range r.Timeline.Kinds {
			if len(line.Buckets) > limit {
				t.Fatalf("%d buckets, at most %d", len(line.Buckets), limit)
			}
			checkTimeline(t, h, line, time.Duration(r.Timeline.BucketNS))
		}
	})
}

func checkTimeline(t *rapid.T, h records, line rundir.KindTimeline, width time.Duration) {
	for i, b := range line.Buckets {
		from, to := time.Duration(i)*width, time.Duration(i+1)*width
		var scheduled, started, ended, inFlight, slowest, latest int64
		for _, r := range h {
			if r.Op.Kind != line.Kind {
				continue
			}
			if r.Intended >= from && r.Intended < to {
				scheduled++
				slowest = max(slowest, response(r))
				if r.Outcome == history.Dropped {
					latest = int64(history.Never)
				} else {
					started++
					latest = max(latest, int64(r.Start-r.Intended))
				}
			}
			if r.End != history.Never && r.End >= from && r.End < to {
				ended++
			}
			if r.Start < to && r.End >= to {
				inFlight++
			}
		}
		if b.Load.Scheduled != scheduled || b.Ended != ended || b.InFlight != inFlight ||
			b.Response.Max != slowest || b.Response.Count != scheduled {
			t.Fatalf("bucket %d is %+v, want %d scheduled, %d ended, %d in flight, slowest %d",
				i, b, scheduled, ended, inFlight, slowest)
		}
		if b.Lag.Max != latest || b.Lag.Count != scheduled || b.Service.Count != started {
			t.Fatalf("bucket %d is %+v, want %d scheduled, %d started, the latest by %d",
				i, b, scheduled, started, latest)
		}
	}
}

func response(r history.Record) int64 {
	if r.End == history.Never {
		return int64(history.Never)
	}
	return int64(r.End - r.Intended)
}

func TestErrorsAreGrouped(t *testing.T) {
	var h records
	for i, text := range []string{
		"dial tcp 127.0.0.1:5432: connect: connection refused",
		"dial tcp 127.0.0.1:5433: connect: connection refused",
		"order 7f3a-99 of item sku12 is gone",
		"order 1b00-12 of item sku7 is gone",
	} {
		rec := op("buy", history.Unknown, 0, 0, ms)
		rec.Err = text
		if i == 3 {
			rec.Outcome = history.Refused
		}
		h = append(h, rec)
	}
	got := summarise(t, h, measure.Options{}).Operations[0].Errors
	want := []rundir.ErrorClass{
		{Outcome: "unknown", Count: 2, Class: "dial tcp #: connect: connection refused",
			Sample: "dial tcp 127.0.0.1:5432: connect: connection refused"},
		{Outcome: "refused", Count: 1, Class: "order # of item # is gone",
			Sample: "order 1b00-12 of item sku7 is gone"},
		{Outcome: "unknown", Count: 1, Class: "order # of item # is gone",
			Sample: "order 7f3a-99 of item sku12 is gone"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestErrorsAreGroupedByCode: a documented code is one class however it is worded; a code
// that says no more than the outcome leaves it to the text.
func TestErrorsAreGroupedByCode(t *testing.T) {
	var h records
	for i, e := range []struct {
		outcome    history.Outcome
		code, text string
	}{
		{history.Refused, "sold_out", "sold out: refused"},
		{history.Refused, "sold_out", "nothing is left of red shoes: refused"},
		{history.Refused, "refused", "too many connections: refused"},
		{history.Refused, "refused", "the sale is closed: refused"},
		{history.Unknown, "unknown_effect", "the effect is unknown: broken pipe"},
		{history.Unknown, "no_snapshot", "no stock snapshot"},
		{history.Refused, "sold_out", "sold out: refused"},
	} {
		rec := op("buy", e.outcome, time.Duration(i)*ms, time.Duration(i)*ms, time.Duration(i+1)*ms)
		rec.Code, rec.Err = e.code, e.text
		h = append(h, rec)
	}
	var got []string
	for _, c := range summarise(t, h, measure.Options{}).Operations[0].Errors {
		got = append(got, fmt.Sprintf("%d %s %s: %s", c.Count, c.Outcome, c.Class, c.Sample))
	}
	want := []string{
		"3 refused sold_out: sold out: refused",
		"1 refused the sale is closed: refused: the sale is closed: refused",
		"1 refused too many connections: refused: too many connections: refused",
		"1 unknown no_snapshot: no stock snapshot",
		"1 unknown the effect is unknown: broken pipe: the effect is unknown: broken pipe",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestErrorClassesAreBounded(t *testing.T) {
	var h records
	for i := range 500 {
		rec := op("buy", history.Unknown, 0, 0, ms)
		rec.Err = strings.Repeat("x", i+1)
		h = append(h, rec)
	}
	got := summarise(t, h, measure.Options{}).Operations[0].Errors
	if len(got) != 51 || got[0].Class != "other" || got[0].Count != 450 {
		t.Errorf("%d classes, the first %+v", len(got), got[0])
	}
}

// synthetic is a history of any length that takes no memory.
type synthetic int

func (n synthetic) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		kinds := []string{"buy", "payment", "stock"}
		for i := range int(n) {
			at := time.Duration(i) * 10 * time.Microsecond
			rec := op(kinds[i%3], history.Outcome(random.IntN(3)), at, at+20*time.Microsecond,
				at+time.Duration(20e3+random.ExpFloat64()*5e6))
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (synthetic) Faults() []history.Window  { return nil }
func (synthetic) Samples() []history.Sample { return nil }

func TestMemoryIsFlat(t *testing.T) {
	allocated := func(n synthetic) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		summarise(t, n, measure.Options{})
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	small, large := allocated(50_000), allocated(400_000)
	if large > 1.5*small {
		t.Errorf("8 times the operations take %.1f MB, not %.1f MB", large/1e6, small/1e6)
	}
}

// BenchmarkSummarise measures a million operations of three kinds, with the
// phases and scopes of a run that has a warm-up and a fault.
func BenchmarkSummarise(b *testing.B) {
	windows := []history.Window{
		{Kind: history.PhaseWindow, Name: "warm-up", Start: 0, End: time.Second},
		{Kind: history.PhaseWindow, Name: "steady", Start: time.Second, End: 10 * time.Second},
		{Kind: history.FaultWindow, Name: "stall", Start: 3 * time.Second, End: 4 * time.Second,
			Evidence: []string{"it happened"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		summarise(b, synthetic(1_000_000), measure.Options{Windows: windows})
	}
}
