package fault_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// dud is a store on which every fault seems to succeed and does nothing,
// unless it is told to break.
type dud struct {
	service sut.Service
	// starts counts Start and, when works is set, changes the identity.
	starts atomic.Int64
	works  bool
	down   atomic.Bool
	addr   string
	fail   error
	// cut is what CutJournal finds to cut off.
	cut string
	// grows is how long a journal has been watched when it grows, if it ever does.
	grows time.Duration
}

var _ env.Journaled = (*dud)(nil)

func (d *dud) Service() sut.Service { return d.service }
func (d *dud) Addr() string         { return d.addr }
func (d *dud) LogTail(int) string   { return "" }

func (d *dud) Info(context.Context) (env.Info, error) { return env.Info{}, nil }

func (d *dud) Ready(ctx context.Context) error {
	if d.down.Load() {
		return errors.New("down")
	}
	return nil
}

func (d *dud) ReadyAt(ctx context.Context, _ string) error { return d.Ready(ctx) }

func (d *dud) Identity(context.Context) (string, error) {
	if d.works {
		return string(rune('a' + d.starts.Load())), nil
	}
	return "same", nil
}

func (d *dud) Kill(context.Context) ([]int, error) {
	if d.works {
		d.down.Store(true)
	}
	return []int{1}, d.fail
}

func (d *dud) Start(context.Context, bool) error {
	d.starts.Add(1)
	d.down.Store(false)
	return nil
}

func (d *dud) Pause(context.Context) ([]int, error) { return []int{1}, nil }
func (d *dud) Resume(context.Context) error         { return nil }
func (d *dud) Restart(context.Context) error        { return nil }

func (d *dud) Stop(ctx context.Context) error {
	_, err := d.Kill(ctx)
	return err
}

func (d *dud) Arm(context.Context, string, int) error { return nil }

func (d *dud) Disarm(context.Context) ([]env.Crash, error) {
	return []env.Crash{{Name: "counter-2", PID: 7, Place: "applied", Passage: 3}}, nil
}

func (d *dud) Hold(context.Context) error          { return nil }
func (d *dud) GoOn(context.Context) (int64, error) { return 0, nil }

func (d *dud) WatchJournal(ctx context.Context, seen func(map[string]int64)) error {
	seen(nil)
	began := time.Now()
	go func() {
		for sut.Pause(ctx, env.JournalEvery) {
			size := int64(0)
			if d.grows > 0 && time.Since(began) >= d.grows {
				size = 1
			}
			seen(map[string]int64{"log": size})
		}
	}()
	return nil
}

func (d *dud) CutJournal(context.Context, map[string]int64) (map[string][]byte, error) {
	return map[string][]byte{"log": []byte(d.cut)}, nil
}

// TestIneffectiveFaultsYieldNoEvidence injects every kind where it cannot
// have an effect: H7 of the harness mutants, the injector that does nothing.
func TestIneffectiveFaultsYieldNoEvidence(t *testing.T) {
	e := startEcho(t)
	for _, kind := range fault.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := fault.Fault{Kind: kind, Target: cmp.Or(scenario.OnlyTarget(string(kind)), sut.Redis)}
			if len(kind.Targets([]string{string(f.Target)})) == 0 {
				f.Target = "counter"
			}
			target := fault.Target{Component: &dud{service: f.Target, addr: e.addr()},
				Proxies: fault.Proxies{startProxy(t, e.addr)}}
			switch kind {
			case fault.Crash:
				f.Place, f.Passage = "applied", 3
			case fault.Churn:
				f.Every, f.How = time.Hour, fault.Mixed
			case fault.Latency:
				f.Latency = time.Second
			case fault.PowerLoss:
				f.Loses = time.Millisecond
			}
			in, err := f.Inject(t.Context(), target, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := in.Heal(t.Context()); err != nil {
				t.Errorf("a second heal: %v", err)
			}
			if got := in.Evidence(); len(got) != 0 {
				t.Errorf("evidence of nothing: %q", got)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	unbreakable := struct{ env.Component }{&dud{service: sut.Redis}}
	breakable := &dud{service: sut.Redis}
	kill := fault.Fault{Kind: fault.Kill, Target: sut.Redis}
	cases := map[string]struct {
		fault  fault.Fault
		target fault.Target
		want   string
	}{
		"can":          {kill, fault.Target{Component: breakable}, ""},
		"not ours":     {kill, fault.Target{Component: unbreakable}, "does not allow faults"},
		"no such":      {kill, fault.Target{}, "the run has no redis"},
		"wrong target": {kill, fault.Target{Component: &dud{service: sut.Postgres}}, "is postgres"},
		"no proxy": {fault.Fault{Kind: fault.Partition, Target: sut.Redis},
			fault.Target{Component: breakable}, "no proxy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.fault.Available(c.target)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, injected := c.fault.Inject(t.Context(), c.target, 1); err != nil && injected == nil {
				t.Error("what is not available was injected")
			}
		})
	}
}

func seconds(n int) scenario.Duration { return scenario.Duration(time.Duration(n) * time.Second) }

// TestScheduleKeepsTime runs a schedule on a virtual clock.
func TestScheduleKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, postgres := &dud{service: sut.Redis, works: true}, &dud{service: sut.Postgres, works: true}
		var changes []string
		base := time.Now()
		windows, err := fault.Schedule{
			Base: base, Start: 5 * time.Second,
			Targets: map[sut.Service]fault.Target{
				sut.Redis: {Component: redis}, sut.Postgres: {Component: postgres}},
			Faults: []scenario.Fault{
				{Name: "second", Kind: "kill", Target: "redis", At: seconds(20), For: seconds(3)},
				{Name: "first", Kind: "kill", Target: "redis", At: seconds(10), For: seconds(5)},
				{Name: "other", Kind: "kill", Target: "postgres", At: seconds(12), For: seconds(1)},
			},
			OnChange: func(names []string) { changes = append(changes, strings.Join(names, "+")) },
		}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := [][2]time.Duration{{25 * time.Second, 28 * time.Second},
			{15 * time.Second, 20 * time.Second}, {17 * time.Second, 18 * time.Second}}
		for i, w := range windows {
			if w.Start != want[i][0] || w.End != want[i][1] || w.Recovered != w.End {
				t.Errorf("%s: %v to %v, recovered %v, want %v", w.Name, w.Start, w.End, w.Recovered, want[i])
			}
			if len(w.Evidence) == 0 {
				t.Errorf("%s: no evidence", w.Name)
			}
		}
		if got := strings.Join(changes, " "); got != "first first+other first  second " {
			t.Errorf("in force: %q", got)
		}
	})
}

func TestScheduleRefusesNonsenseBeforeItStarts(t *testing.T) {
	store := &dud{service: sut.Redis, works: true}
	made := map[sut.Service]fault.Target{sut.Redis: {Component: store}}
	cases := map[string]struct {
		faults []scenario.Fault
		want   string
	}{
		"overlap": {[]scenario.Fault{
			{Name: "b", Kind: "pause", Target: "redis", At: seconds(2), For: seconds(1)},
			{Name: "a", Kind: "kill", Target: "redis", At: seconds(1), For: seconds(2)},
		}, `"a" and "b" overlap`},
		"kind":   {[]scenario.Fault{{Name: "a", Kind: "melt", Target: "redis"}}, "melt"},
		"target": {[]scenario.Fault{{Name: "a", Kind: "kill", Target: "postgres"}}, "no postgres"},
		"proxy":  {[]scenario.Fault{{Name: "a", Kind: "partition", Target: "redis"}}, "no proxy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := fault.Schedule{Faults: c.faults, Targets: made, Base: time.Now()}.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if store.starts.Load() != 0 {
		t.Error("a refused schedule touched the store")
	}
}

// TestFailedInjectionIsUndone kills a store by halves.
func TestFailedInjectionIsUndone(t *testing.T) {
	store := &dud{service: sut.Redis, works: true, fail: errors.New("half dead")}
	windows, err := fault.Schedule{Base: time.Now(),
		Targets: map[sut.Service]fault.Target{sut.Redis: {Component: store}},
		Faults:  []scenario.Fault{{Name: "a", Kind: "kill", Target: "redis"}}}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "half dead") {
		t.Errorf("got %v", err)
	}
	if store.starts.Load() != 1 || store.down.Load() {
		t.Error("the store was left down")
	}
	if len(windows) != 1 || len(windows[0].Evidence) != 0 {
		t.Errorf("windows %+v", windows)
	}
}
