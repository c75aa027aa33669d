package suttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
)

// blows is how often a variant is hammered, each time with another seed, until
// every invariant is decided: whether some case comes up is a matter of chance.
const blows = 3

// hammer lets many at once at few objects and judges what came of it: no
// invariant may be broken, but for those that the variant is known to break.
// What it breaks under load must be.
func (s Suite) hammer(t testing.TB, v sut.Variant) {
	var undecided []string
	for range blows {
		if undecided = s.blow(t, v); len(undecided) == 0 {
			return
		}
		s.Seed++
	}
	for _, why := range undecided {
		t.Error(why)
	}
}

// blow hammers a variant once and returns what it left undecided.
func (s Suite) blow(t testing.TB, v sut.Variant) []string {
	t.Helper()
	cfg := s.config(t, v)
	inst := open(t, v, cfg)
	emptiness(t, inst, true)
	stop := s.start(t, v, cfg)
	base := time.Now()
	unwatch := s.watch(t, v, cfg, base)
	rec := &recorder{}
	s.attack(t, inst, base, rec)
	samples := unwatch()
	s.settle(t, inst)
	emptiness(t, inst, false)
	stop()
	audit, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	return s.judge(t, v, history.Slice(rec.records).WithSamples(samples), audit)
}

// watch asks the variant's gauge, if it has one, again and again until the
// returned function is called, which returns what it said. It must always
// answer: nothing is broken here.
func (s Suite) watch(
	t testing.TB, v sut.Variant, cfg sut.Config, base time.Time,
) (stop func() []history.Sample) {
	t.Helper()
	if v.Gauge == nil {
		return func() []history.Sample { return nil }
	}
	gauge, err := v.Gauge(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open the gauge: %v", err)
	}
	var samples []history.Sample
	end := sut.Watch(context.WithoutCancel(t.Context()), gauge, base, watchEvery,
		func(one history.Sample) error {
			if samples = append(samples, one); !one.Seen() {
				t.Errorf("the gauge at %v: %s", one.From, one.Err)
			}
			return nil
		})
	stop = sync.OnceValue(func() []history.Sample {
		s.within(t, "the gauge", end)
		if err := gauge.Close(); err != nil {
			t.Errorf("close the gauge: %v", err)
		}
		return samples
	})
	t.Cleanup(func() { stop() })
	return stop
}

// emptiness asks an instance that can say whether it is empty.
func emptiness(t testing.TB, inst sut.Instance, want bool) {
	t.Helper()
	e, ok := inst.(sut.Emptier)
	if !ok {
		return
	}
	switch found, err := e.Empty(t.Context()); {
	case err != nil:
		t.Errorf("Empty: %v", err)
	case want && found != "":
		t.Errorf("Empty: just prepared, and there is %s", found)
	case !want && found == "":
		t.Error("Empty: says so after all operations")
	}
}

// attack performs Ops operations, all due at once or evenly over a time, and what follows from
// them, inFlight at a time.
func (s Suite) attack(t testing.TB, inst sut.Instance, base time.Time, rec *recorder) {
	t.Helper()
	workload, err := s.System.Workload(s.Seed, s.Params)
	if err != nil {
		t.Fatalf("workload: %v", err)
	}
	result, err := load.Run(t.Context(), load.Plan{
		Base: base, Arrivals: &evenly{ops: s.Ops, every: s.Over / time.Duration(s.Ops)},
		Workload: workload, MaxInFlight: inFlight, Queue: 64 * s.Ops, Timeout: 2 * opTimeout,
		Drain: s.Patience,
	}, inst.Do, func() load.Recorder { return rec }, nil)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if result.FirstPanic != "" || result.Abandoned > 0 || result.Load.Dropped > 0 {
		t.Fatalf("%d operations dropped, %d did not return, panic: %s",
			result.Load.Dropped, result.Abandoned, result.FirstPanic)
	}
	t.Logf("%d operations: %d ok, %d refused, %d unknown in %v", result.Load.Started,
		result.Load.OK, result.Load.Refused, result.Load.Unknown, result.End-result.Start)
}

// recorder keeps the records of all workers.
type recorder struct {
	mu      sync.Mutex
	records []history.Record
}

// Append keeps a copy.
func (r *recorder) Append(rec *history.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, *rec)
}

// len is how many there are so far.
func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records)
}

// settle waits until the instance says that nothing is left to do. One that counts what is
// left counts something as long as there is, and nothing then. Between the two questions
// something may end, or be repaired, so that one contradiction is none.
func (s Suite) settle(t testing.TB, inst sut.Instance) {
	t.Helper()
	q, ok := inst.(sut.Quiescer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	counts, _ := inst.(sut.Backlogger)
	for nothing := 0; ; {
		pending, err := q.Quiesced(ctx)
		left := int64(0)
		if err == nil && counts != nil {
			left, err = counts.Backlog(ctx)
		}
		if nothing++; err != nil || pending == "" || left != 0 || counts == nil {
			nothing = 0
		}
		if err == nil && pending == "" && left == 0 {
			return
		}
		if nothing == contradictions {
			t.Errorf("Backlog: nothing, %d times, and still there is %s", nothing, pending)
		}
		if !sut.Pause(ctx, 20*time.Millisecond) {
			t.Fatalf("after %v there is still something to do: %q, Backlog: %d (%v)", s.Patience,
				pending, left, err)
		}
	}
}

// contradictions in a row are needed to say that an instance does not count what is left.
const contradictions = 5

func (s Suite) judge(
	t testing.TB, v sut.Variant, h history.History, audit json.RawMessage,
) (undecided []string) {
	t.Helper()
	if races := s.System.Races; races != nil {
		o, err := check.Overlap(h, races.Kinds, races.Idle)
		if err != nil {
			t.Fatal(err)
		}
		if o.Raced < int64(races.Least) {
			undecided = append(undecided, fmt.Sprintf("%d of %d successful operations raced, at least %d "+
				"are needed", o.Raced, o.Successful, races.Least))
		}
	}
	verdicts := check.All(t.Context(), s.System.Invariants(s.Params), h, audit)
	broken := func(inv string) bool {
		return slices.ContainsFunc(verdicts, func(v check.Verdict) bool {
			return v.Invariant == inv && v.Status == check.Broken
		})
	}
	// Where load alone breaks a variant, or what it is known to break is broken here, as on a
	// machine that stalls, what else goes wrong depends on timing.
	wrong := slices.ContainsFunc(v.Breaks, func(b sut.Break) bool {
		return b.Under == sut.Load || broken(b.Invariant)
	})
	for _, verdict := range verdicts {
		inv := verdict.Invariant
		if v.NotApplicable[inv] != "" {
			continue
		}
		expected := slices.Contains(v.Breaks, sut.Break{Invariant: inv, Under: sut.Load})
		switch {
		case verdict.Status == check.Undecided && (expected || s.Undecided[inv] == ""):
			undecided = append(undecided, fmt.Sprintf("%s: undecided: %s", inv, verdict.Reason))
		case expected && verdict.Status != check.Broken:
			t.Errorf("%s: expected to be broken under load, is %s (%s)", inv, verdict.Status, verdict.Reason)
		case !wrong && verdict.Status == check.Broken:
			t.Errorf("%s: broken %d times: %+v", inv, verdict.Count, verdict.Violations)
		}
	}
	return undecided
}
