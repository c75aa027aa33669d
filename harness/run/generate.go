package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/harness/env"
	"stampede/harness/generators"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// beatEvery is how often a generator says how it stands, compareEvery how often it compares the
// clocks during the load.
const beatEvery, compareEvery = 250 * time.Millisecond, time.Second

// Generation is the work of one generator of several.
type Generation struct {
	Plan  generators.Plan
	Index int
	// Folder is a new one for what is recorded, which goes when that was delivered.
	Folder string
	// System finds a system by its name.
	System func(name string) (sut.System, bool)
}

// generation is a Generation under way.
type generation struct {
	Generation
	client   *generators.Client
	scenario scenario.Scenario
	system   sut.System
	load     load.Plan
	targets  *targets
}

// Generate offers the generator's part of the load when the coordinator says so, records it and
// delivers the record. When ctx is cancelled, or the coordinator is gone, the load is given up.
func Generate(ctx context.Context, g Generation) (err error) {
	run := &generation{Generation: g}
	if run.client, err = generators.Dial(g.Plan, g.Index); err != nil {
		return err
	}
	defer run.client.Close()
	if err := run.whole(ctx); err != nil {
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		run.client.Fail(telling, err)
		return err
	}
	return nil
}

func (g *generation) whole(ctx context.Context) error {
	operations, err := g.prepare()
	if err != nil {
		return err
	}
	defer g.targets.close()
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this machine's name: %w", err)
	}
	host = cmp.Or(os.Getenv(env.NodeVariable), host)
	hello := generators.Hello{Host: host, Operations: operations, Wall: time.Now()}
	if err := g.client.Join(ctx, hello); err != nil {
		return err
	}
	base, orders, err := g.client.Begin(ctx)
	if err == nil {
		err = g.targets.reach(orders.Targets)
	}
	if err != nil {
		return err
	}
	g.load.Base = base
	raw, sorted := filepath.Join(g.Folder, "history"), filepath.Join(g.Folder, "sorted")
	defer func() { // it was delivered, or is of no use
		_ = errors.Join(os.Remove(raw), os.Remove(sorted), os.Remove(g.Folder))
	}()
	recorded := generators.Recorded{Index: g.Index, Host: host, Cores: usableCores()}
	if err := g.offer(ctx, raw, sorted, &recorded); err != nil {
		return err
	}
	if recorded.Lag, err = recorded.Result.PacerLag.Encode(hdrhistogram.
		V2CompressedEncodingCookieBase); err != nil {
		return fmt.Errorf("encoding the pacer's lag: %w", err)
	}
	return g.client.Deliver(ctx, sorted, recorded)
}

// prepare decodes the plan and makes this generator's part of the load.
func (g *generation) prepare() (operations string, err error) {
	sc, res, err := scenario.Decode([]byte(g.Plan.Scenario), "the plan's scenario",
		scenario.Options{Systems: g.System})
	if err != nil {
		return "", fmt.Errorf("the scenario of the plan: %w", err)
	}
	system, found := g.System(sc.System)
	if !found || system.Target == nil {
		return "", fmt.Errorf("there is no system %s with an HTTP API here", sc.System)
	}
	plan, err := PlanOf(sc, g.Plan.Seed)
	if err != nil {
		return "", err
	}
	workload, err := system.Workload(plan.WorkloadSeed, res.Params)
	if err != nil {
		return "", fmt.Errorf("making the workload: %w", err)
	}
	whole := loadPlan(sc, plan, time.Time{}, workload, false)
	part := load.Part{Index: g.Index, Of: g.Plan.Generators}
	if g.load, err = part.Plan(whole); err != nil {
		return "", err
	}
	cfg := sut.Config{Params: res.Params, MaxConns: g.load.MaxInFlight, Timeout: sc.Load.Timeout.D()}
	if ca := g.Plan.TargetCA; ca != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return "", errors.New("target_ca of the plan has no certificate in PEM form")
		}
	}
	g.scenario, g.system = sc, system
	g.targets = &targets{open: func(url string) (sut.Instance, error) {
		return system.Target(url, cfg)
	}}
	g.targets.turn.Store(uint64(g.Index))
	return operationsOf(plan, workload), os.MkdirAll(g.Folder, 0o700)
}

// operationsOf identifies what a load offers: its due times and its first operations.
func operationsOf(plan Plan, workload sut.Workload) string {
	const first = 1000
	h := sha256.New()
	fmt.Fprintln(h, plan.Digest)
	for i := range uint64(first) {
		fmt.Fprintf(h, "%+v\n", workload.Op(i))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// offer sends the part, writes its history in order, and says how far its clock may be off, while
// the coordinator hears how it stands.
func (g *generation) offer(
	ctx context.Context, raw, sorted string, recorded *generators.Recorded,
) (err error) {
	w, err := history.Create(raw, history.Header{RunID: g.Plan.Run, Scenario: g.scenario.Name,
		System: g.system.Name, Seed: g.Plan.Seed, Base: g.load.Base.UTC()})
	if err != nil {
		return err
	}
	working, lost := context.WithCancelCause(ctx)
	loading, stop := untilFailed(working, w)
	live, beating := &load.Live{}, sync.WaitGroup{}
	beating.Go(func() {
		if err := g.beat(working, live, stop); err != nil {
			lost(err) // unless it has ended already
		}
	})
	defer func() {
		lost(nil)
		beating.Wait()
	}()
	recorded.Result, err = load.Run(loading, g.load, g.targets.Do,
		func() load.Recorder { return w.Shard() }, live)
	stop()
	err = errors.Join(err, w.Close())
	recorded.Lost = w.Lost()
	if err == nil {
		err = context.Cause(working)
	}
	if err == nil {
		recorded.ClockError, err = g.client.ClockError(working)
	}
	if err == nil {
		err = sortHistory(raw, sorted)
	}
	return cmp.Or(context.Cause(working), err)
}

// sortHistory puts a history in order.
func sortHistory(raw, sorted string) (err error) {
	f, err := history.Open(raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return history.Sort(f, sorted)
}

// beat tells the coordinator how the load stands until ctx ends, does as it says, and compares the
// clocks now and then.
func (g *generation) beat(ctx context.Context, live *load.Live, stop func()) error {
	compared := time.Now()
	for sut.Pause(ctx, beatEvery) {
		orders, err := g.client.Beat(ctx, generators.Status{Load: live.Snapshot()})
		if err != nil { // which means nothing once ctx has ended
			return err
		}
		if orders.Stop {
			stop()
		}
		if time.Since(compared) > compareEvery && live.Snapshot().Phase == load.Loading {
			compared = time.Now()
			_ = g.client.Compare(ctx) // those of before and after the load must succeed
		}
	}
	return nil
}

// targets are clients of the servers of the API.
type targets struct {
	open func(url string) (sut.Instance, error)
	turn atomic.Uint64
	list []sut.Instance
}

// reach makes the clients of the servers at some URLs.
func (t *targets) reach(urls []string) error {
	for _, url := range urls {
		inst, err := t.open(url)
		if err != nil {
			return fmt.Errorf("making a client of %s: %w", url, err)
		}
		t.list = append(t.list, inst)
	}
	if len(t.list) == 0 {
		return errors.New("the coordinator names no server of the API")
	}
	return nil
}

// Do performs an operation on the servers in turn.
func (t *targets) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return t.list[(t.turn.Add(1)-1)%uint64(len(t.list))].Do(ctx, op)
}

func (t *targets) close() {
	for _, inst := range t.list {
		_ = closing("a client", inst.Close) // the load is over
	}
}
