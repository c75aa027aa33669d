package telemetry

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/env"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// script is a source that says what it is told to, one answer after the other, and
// then nothing more.
type script struct {
	answers []func() ([]Value, error)
	takes   time.Duration
	closed  int
}

func (*script) Name() string { return "script" }

func (s *script) Read(ctx context.Context) ([]Value, error) {
	if !sut.Pause(ctx, s.takes) {
		return nil, ctx.Err()
	}
	if len(s.answers) == 0 {
		return nil, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next()
}

func (s *script) Close() { s.closed++ }

func says(values ...Value) func() ([]Value, error) {
	return func() ([]Value, error) { return values, nil }
}

func fails(err error) func() ([]Value, error) {
	return func() ([]Value, error) { return nil, err }
}

// listen lets sources speak for a while of virtual time.
func listen(t *testing.T, how time.Duration, sources ...Source) (said rundir.Telemetry) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stop := Watch(t.Context(), time.Now(), sources...)
		time.Sleep(how)
		said = stop()
		if again := stop(); len(again.Sources) != len(said.Sources) {
			t.Error("told again, it says something else")
		}
	})
	return said
}

func TestLevelsAndGrowth(t *testing.T) {
	count := func(n float64) Value {
		return Value{Quantity: "commits", Unit: "/s", Amount: n, Counts: true}
	}
	level := func(n float64) Value { return Value{Quantity: "dead", Unit: "rows", Amount: n} }
	s := &script{answers: []func() ([]Value, error){
		says(count(100), level(7)), says(count(130), level(8)), // 30 in a second
		fails(errors.New("connection refused")), // a gap
		func() ([]Value, error) { panic("boom") },
		says(count(500), level(9)), says(count(510), level(9)),
		says(count(3), level(0)), says(count(4), level(0)), // it was started anew
	}}
	said := listen(t, 7500*time.Millisecond, s)
	got := said.Sources[0]
	if got.Name != "script" || got.Asked != 8 || got.Missed != 2 ||
		got.Trouble != "connection refused" || s.closed != 1 {
		t.Errorf("got %+v, closed %d times", got, s.closed)
	}
	sec := int64(time.Second)
	want := []rundir.Series{
		{Quantity: "commits", Unit: "/s", AtNS: []int64{sec, 5 * sec, 7 * sec},
			Values: []float64{30, 10, 1}},
		{Quantity: "dead", Unit: "rows", AtNS: []int64{0, sec, 4 * sec, 5 * sec, 6 * sec, 7 * sec},
			Values: []float64{7, 8, 9, 9, 0, 0}},
	}
	for i, w := range want {
		g := got.Series[i]
		if g.Quantity != w.Quantity || g.Unit != w.Unit || !slices.Equal(g.AtNS, w.AtNS) ||
			!slices.Equal(g.Values, w.Values) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

// TestASlowSourceIsLeftAlone: what takes long is asked less often, what does not
// answer within the bound is cut off, and neither holds up the others.
func TestASlowSourceIsLeftAlone(t *testing.T) {
	slow, dead := &script{takes: 900 * time.Millisecond}, &script{takes: time.Hour}
	quick := &script{}
	said := listen(t, 9500*time.Millisecond, slow, dead, quick)
	if n := said.Sources[0].Asked; n != 3 { // at 0, 3.6 and 7.2 s
		t.Errorf("the slow one was asked %d times", n)
	}
	if s := said.Sources[1]; s.Asked != 5 || s.Missed != 5 ||
		!strings.Contains(s.Trouble, context.DeadlineExceeded.Error()) {
		t.Errorf("of the dead one: %+v", s)
	}
	if n := said.Sources[2].Asked; n != 10 {
		t.Errorf("the quick one was asked %d times", n)
	}
}

// used is a component that has used some processor time.
type used struct {
	env.Metered
	name string
	time time.Duration
	err  error
}

func (u used) Service() sut.Service                       { return sut.Service(u.name) }
func (u used) CPU(context.Context) (time.Duration, error) { return u.time, u.err }

func TestCPU(t *testing.T) {
	source := CPU([]env.Metered{used{name: "redis", time: 1500 * time.Millisecond},
		used{name: "worker", err: errors.New("down")}})
	defer source.Close()
	values, err := source.Read(t.Context())
	values = slices.DeleteFunc(values, func(v Value) bool { return v.Quantity == rundir.Taken })
	if err != nil || len(values) != 2 ||
		values[0].Part != rundir.GeneratorPart || values[0].Amount <= 0 ||
		values[1].Part != "redis" || math.Abs(values[1].Amount-1.5) > 1e-9 || !values[1].Counts {
		t.Errorf("got %+v, %v", values, err)
	}
}

// spender has used what it says next, and is down when it has nothing to say.
type spender struct {
	env.Component
	name string
	says []time.Duration
}

func (s *spender) Service() sut.Service { return sut.Service(s.name) }

func (s *spender) CPU(context.Context) (time.Duration, error) {
	if len(s.says) == 0 || s.says[0] < 0 {
		s.says = s.says[min(1, len(s.says)):]
		return 0, errors.New("down")
	}
	said := s.says[0]
	s.says = s.says[1:]
	return said, nil
}

// TestSpent: what was spent is from the first answer to the last, also over a restart,
// and of who never answered nothing is known.
func TestSpent(t *testing.T) {
	source := CPU([]env.Metered{
		&spender{name: "redis", says: []time.Duration{5 * time.Second, 7 * time.Second, -1,
			time.Second, 4 * time.Second}},
		&spender{name: "worker"},
		&spender{name: "late", says: []time.Duration{-1, -1, 3 * time.Second, 3 * time.Second, -1}},
	})
	for range 4 {
		if _, err := source.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	spent := source.Spent(t.Context())
	got := spent.Parts
	if spent.Machine != nil {
		t.Errorf("of others nobody asked, and they took %+v", spent.Machine)
	}
	if len(got) != 3 || got[0].Name != rundir.GeneratorPart || got[0].NS < 0 ||
		got[1] != (rundir.ProcessorPart{Name: "redis", NS: 6e9}) ||
		got[2] != (rundir.ProcessorPart{Name: "late", NS: 0}) {
		t.Errorf("got %+v", got)
	}
}

const info = "# Clients\r\nconnected_clients:5\r\n# Memory\r\nused_memory:1048576\r\n" +
	"# Stats\r\ntotal_commands_processed:12\r\nkeyspace_hits:3\r\nkeyspace_misses:4\r\n" +
	"evicted_keys:0\r\n"

func TestParseInfo(t *testing.T) {
	values, err := parseInfo(info)
	if err != nil || len(values) != 6 {
		t.Fatalf("got %v, %v", values, err)
	}
	if v := values[0]; v.Quantity != "commands" || v.Amount != 12 || !v.Counts {
		t.Errorf("got %+v", v)
	}
	if v := values[1]; v.Quantity != "memory" || v.Amount != 1<<20 || v.Counts {
		t.Errorf("got %+v", v)
	}
	for _, bad := range []string{"", "role:master", "used_memory:many"} {
		if values, err := parseInfo(bad); err == nil {
			t.Errorf("%q gave %v", bad, values)
		}
	}
}

// TestSpentOfALateOne: who answers for the first time in the end has spent nobody knows
// what, and not nothing.
func TestSpentOfALateOne(t *testing.T) {
	late := &spender{name: "late", says: []time.Duration{-1, -1, 3 * time.Second}}
	source := CPU([]env.Metered{late})
	for range 2 {
		if _, err := source.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if spent := source.Spent(t.Context()); len(spent.Parts) > 0 || spent.Machine != nil {
		t.Errorf("got %+v", spent)
	}
}

// TestCollector: a collection is counted.
func TestCollector(t *testing.T) {
	source := Collector()
	defer source.Close()
	before, err := source.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	after, err := source.Read(t.Context())
	if err != nil || len(after) != 2 || after[0].Amount <= before[0].Amount || after[1].Amount <= 0 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add(info)
	f.Add("used_memory:")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseInfo(text)
		if (err == nil) != (len(values) > 0) {
			t.Errorf("got %v and %v", values, err)
		}
	})
}

func TestNaturally(t *testing.T) {
	parts := []string{"counter-10", "b", "counter-2", "7", "10", "counter-1", ""}
	slices.SortFunc(parts, naturally)
	if got := strings.Join(parts, " "); got != " 7 10 b counter-1 counter-2 counter-10" {
		t.Errorf("got %q", got)
	}
}
