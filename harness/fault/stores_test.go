package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
)

// shared is what runWithStores starts at the first use and stops at the end.
var shared = envtest.NewOwn(sut.Postgres, sut.Redis)

func runWithStores(m *testing.M) int { return shared.Run(m) }

// targets puts a proxy before each shared store.
func targets(t *testing.T) map[sut.Service]fault.Target {
	t.Helper()
	cluster := shared.Cluster(t)
	made := map[sut.Service]fault.Target{}
	for _, service := range []sut.Service{sut.Postgres, sut.Redis} {
		component := cluster.Component(service)
		made[service] = fault.Target{Component: component,
			Proxies: fault.Proxies{startProxy(t, component.Addr)}}
	}
	return made
}

// traffic asks both stores through their proxies until the test ends, as
// clients with a deadline do.
func traffic(t *testing.T, targets map[sut.Service]fault.Target) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, target := range targets {
		store := target.Component.(env.Reachable)
		group.Go(func() {
			for ctx.Err() == nil {
				ask, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				_ = store.ReadyAt(ask, target.Proxies[0].Addr()) // it may fail: that is the point
				cancel()
			}
		})
	}
	t.Cleanup(func() { stop(); group.Wait() })
}

// TestEveryFaultFiresAndHeals runs each kind on each store, one after the
// other, and expects evidence of its own kind, a recovery and a living store.
func TestEveryFaultFiresAndHeals(t *testing.T) {
	made := targets(t)
	traffic(t, made)
	for _, service := range []sut.Service{sut.Redis, sut.Postgres} {
		for _, kind := range fault.Kinds() {
			if kind == fault.PowerLoss || // it needs somebody who writes: TestPowerLoss
				len(kind.Targets([]string{string(service)})) == 0 {
				continue
			}
			t.Run(string(service)+"/"+string(kind), func(t *testing.T) {
				firesAndHeals(t, made, scenario.Fault{Kind: string(kind), Target: string(service)})
			})
		}
	}
}

// TestLag: a replica that is held is behind by what is written then, and catches up when it is not.
func TestLag(t *testing.T) {
	cluster := envtest.Start(t, sut.Postgres, sut.Replica)
	space, err := cluster.Namespace(t.Context(), "lag")
	if err != nil {
		t.Fatal(err)
	}
	target := fault.Target{Component: cluster.Component(sut.Replica)}
	in, err := fault.Fault{Kind: fault.Lag, Target: sut.Replica}.Inject(t.Context(), target, 1)
	if err != nil {
		t.Fatal(err)
	}
	source := telemetry.Replica(space.ReplicaURL, target.Component.Addr)
	defer source.Close()
	conn := envtest.Connect(t, space.PostgresURL)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE written AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	behind := func() float64 {
		values, err := source.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return values[0].Amount
	}
	for behind() == 0 && sut.Pause(t.Context(), 10*time.Millisecond) { // the log takes a moment
	}
	if err := in.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := in.Evidence(); len(got) != 1 || !strings.Contains(got[0], "bytes of log behind") {
		t.Errorf("the evidence is %q", got)
	}
	for behind() > 0 && sut.Pause(t.Context(), 10*time.Millisecond) {
	}
	primary := fault.Target{Component: cluster.Component(sut.Postgres)}
	_, err = fault.Fault{Kind: fault.Lag, Target: sut.Postgres}.Inject(t.Context(), primary, 1)
	if !errors.Is(err, env.ErrNotReplica) {
		t.Errorf("a primary lags: %v", err)
	}
}

// firesAndHeals runs one fault and expects evidence of its own kind.
func firesAndHeals(t *testing.T, made map[sut.Service]fault.Target, f scenario.Fault) {
	t.Helper()
	f.Name = "f"
	if f.Kind != "restart" {
		f.For = scenario.Duration(500 * time.Millisecond)
	}
	if f.Kind == "latency" {
		f.Latency = scenario.Duration(30 * time.Millisecond)
	}
	w := runOne(t, made, f)
	evidence := map[string]string{
		"kill": "killed processes", "pause": "did not answer within",
		"restart": "identity changed", "latency": "answered within",
		"partition": "of requests were lost", "lost-ack": "bytes of replies were lost",
		"lost-request": "bytes of requests were lost",
	}
	if !strings.Contains(strings.Join(w.Evidence, "\n"), evidence[f.Kind]) {
		t.Errorf("evidence %q lacks %q", w.Evidence, evidence[f.Kind])
	}
	if (w.Recovered == 0) != (f.Kind == "latency") || w.Recovered < 0 {
		t.Errorf("recovered at %v", w.Recovered)
	}
	if err := made[sut.Service(f.Target)].Component.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// runOne runs one fault and checks what holds for all.
func runOne(t *testing.T, made map[sut.Service]fault.Target, f scenario.Fault) history.Window {
	t.Helper()
	windows, err := fault.Schedule{Faults: []scenario.Fault{f}, Targets: made, Base: time.Now()}.
		Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := windows[0]
	t.Logf("%s: %v to %v, recovered %v\n  %s\n  %s", w.Fault, w.Start, w.End, w.Recovered,
		strings.Join(w.Evidence, "\n  "), w.Effects)
	if w.Kind != history.FaultWindow || w.Name != f.Name || w.Start < f.At.D() || w.End < w.Start {
		t.Errorf("window %+v", w)
	}
	if w.Recovered != 0 && w.Recovered < w.End {
		t.Errorf("recovered at %v, before the end at %v", w.Recovered, w.End)
	}
	return w
}

func TestWipeForgets(t *testing.T) {
	made := targets(t)
	w := runOne(t, made, scenario.Fault{Name: "wipe", Kind: "kill", Target: "redis", Wipe: true})
	if w.Fault != "kill redis wipe" || len(w.Evidence) == 0 {
		t.Errorf("window %+v", w)
	}
	var effects fault.Effects
	if err := json.Unmarshal(w.Effects, &effects); err != nil {
		t.Fatal(err)
	}
	if len(effects.PIDs) == 0 || effects.IdentityBefore == effects.IdentityAfter {
		t.Errorf("effects %+v", effects)
	}
}

// TestCancelledRunHeals cancels the run while both stores are broken.
func TestCancelledRunHeals(t *testing.T) {
	made := targets(t)
	ctx, cancel := context.WithCancel(t.Context())
	schedule := fault.Schedule{
		Targets: made, Base: time.Now(),
		Faults: []scenario.Fault{
			{Name: "p", Kind: "pause", Target: "redis", For: scenario.Duration(time.Hour)},
			{Name: "k", Kind: "kill", Target: "postgres", For: scenario.Duration(time.Hour)},
			{Name: "later", Kind: "kill", Target: "postgres", At: scenario.Duration(2 * time.Hour)},
		},
		OnChange: func(names []string) {
			if len(names) == 2 {
				cancel()
			}
		},
	}
	windows, err := schedule.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for service, target := range made {
		if err := target.Component.Ready(t.Context()); err != nil {
			t.Errorf("%s was left broken: %v", service, err)
		}
	}
	// Which of the two was still being injected when the end came is open, but
	// the one whose time never came must not claim anything.
	later := windows[2]
	if len(later.Evidence) != 0 || later.Start != 2*time.Hour || later.End != later.Start {
		t.Errorf("a fault whose time never came: %+v", later)
	}
}
