package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// increments increments keys of Redis, each by a client of its own, until the
// returned function is called, which says how often each was answered.
func increments(t *testing.T, addr string, keys ...string) (stop func() map[string]int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	counts := make([]int64, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		group.Go(func() {
			defer client.Close()
			for ctx.Err() == nil {
				if client.Incr(ctx, key).Err() != nil {
					return
				}
				counts[i]++
			}
		})
	}
	return func() map[string]int64 {
		cancel()
		group.Wait()
		acked := map[string]int64{}
		for i, key := range keys {
			acked[key] = counts[i]
		}
		return acked
	}
}

// TestPowerLoss: what was acknowledged in the last second is lost, what was
// before is not, and a kill alone loses nothing. Redis flushes nothing here:
// with everysec it would, and while the disk is slow with that it holds back
// what it writes, for up to two seconds, which a kill then takes.
func TestPowerLoss(t *testing.T) {
	cluster := envtest.Start(t, sut.Redis)
	component := cluster.Component(sut.Redis)
	made := map[sut.Service]fault.Target{sut.Redis: {Component: component}}
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: component.Addr(), MaxRetries: -1})
		t.Cleanup(func() { c.Close() })
		return c
	}
	if err := client().Set(t.Context(), "before", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []scenario.Fault{
		{Name: "killed", Kind: "kill", Target: "redis", At: seconds(1)},
		{Name: "power", Kind: "power-loss", Target: "redis", At: seconds(2), Loses: seconds(1)},
	} {
		t.Run(f.Name, func(t *testing.T) {
			if err := client().Set(t.Context(), f.Name, "0", 0).Err(); err != nil {
				t.Fatal(err)
			}
			unflushed(t, client())
			stop := increments(t, component.Addr(), f.Name)
			w := runOne(t, made, f)
			acked := stop()[f.Name]
			got, err := client().Get(t.Context(), f.Name).Int64()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d increments were acknowledged, %d are there", acked, got)
			if kept := client().Get(t.Context(), "before").Val(); kept != "kept" {
				t.Errorf("what was written long before is %q", kept)
			}
			if f.Kind == "kill" {
				if got < acked {
					t.Errorf("the kill lost %d increments", acked-got)
				}
				return
			}
			wantLoss(t, w, acked, got)
		})
	}
}

// unflushed has Redis write before it answers, and leave flushing to the kernel.
func unflushed(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), "appendfsync", "no").Err(); err != nil {
		t.Fatal(err)
	}
}

// TestPowerLossDuringARewrite: a base file that Redis has just made was flushed
// and stays; what came after it is cut.
func TestPowerLossDuringARewrite(t *testing.T) {
	component := envtest.Start(t, sut.Redis).Component(sut.Redis)
	client := redis.NewClient(&redis.Options{Addr: component.Addr(), MaxRetries: -1})
	defer client.Close()
	if err := client.Set(t.Context(), "before", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	unflushed(t, client)
	stop := increments(t, component.Addr(), "n")
	rewrite := time.AfterFunc(1500*time.Millisecond, func() {
		if err := client.BgRewriteAOF(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
	defer rewrite.Stop()
	w := runOne(t, map[sut.Service]fault.Target{sut.Redis: {Component: component}},
		scenario.Fault{Name: "power", Kind: "power-loss", Target: "redis", At: seconds(2)})
	acked := stop()["n"]
	after := redis.NewClient(&redis.Options{Addr: component.Addr(), MaxRetries: -1})
	defer after.Close()
	got, err := after.Get(t.Context(), "n").Int64()
	if err != nil || got == 0 || got > acked+1 || len(w.Evidence) == 0 {
		t.Errorf("%d of %d increments are there (%v), evidence %q", got, acked, err, w.Evidence)
	}
	if kept := after.Get(t.Context(), "before").Val(); kept != "kept" {
		t.Errorf("what was written long before is %q", kept)
	}
}

func wantLoss(t *testing.T, w history.Window, acked, got int64) {
	t.Helper()
	var effects fault.Effects
	if err := json.Unmarshal(w.Effects, &effects); err != nil {
		t.Fatal(err)
	}
	// One increment may have been written and not answered.
	lost := acked - got
	if got == 0 || lost <= 0 || effects.LostCommands < lost || effects.LostCommands > lost+1 {
		t.Errorf("%d of %d acknowledged increments are lost, %d commands were cut off",
			lost, acked, effects.LostCommands)
	}
	if back := time.Duration(effects.CutBackNS); back < time.Second || back > 1600*time.Millisecond {
		t.Errorf("it reached back %v", back)
	}
	if effects.CutBytes <= effects.LostCommands || effects.KeptBytes == 0 ||
		effects.IdentityBefore == effects.IdentityAfter {
		t.Errorf("effects %+v", effects)
	}
	if len(w.Evidence) != 2 || !strings.Contains(w.Evidence[0], "were removed from the append-only") {
		t.Errorf("evidence %q", w.Evidence)
	}
}

// TestPowerLossOfAnIdleRedis: where nothing was written nothing can be lost,
// and the fault has not fired.
func TestPowerLossOfAnIdleRedis(t *testing.T) {
	made := targets(t)
	w := runOne(t, made, scenario.Fault{Name: "power", Kind: "power-loss", Target: "redis",
		At: seconds(1), Loses: scenario.Duration(100 * time.Millisecond)})
	if len(w.Evidence) != 0 {
		t.Errorf("evidence of nothing: %q", w.Evidence)
	}
	var effects fault.Effects
	if err := json.Unmarshal(w.Effects, &effects); err != nil {
		t.Fatal(err)
	}
	if effects.IdentityAfter == "" || effects.IdentityAfter == effects.IdentityBefore {
		t.Errorf("the store was started anew, and the effects are %+v", effects)
	}
}

// TestPowerLossNeedsAnUnflushedJournal: without one there is one clear error,
// and the store lives on.
func TestPowerLossNeedsAnUnflushedJournal(t *testing.T) {
	for setting, c := range map[string]struct{ value, want string }{
		"appendonly":  {"no", "keeps no append-only file"},
		"appendfsync": {"always", "would lose nothing that it acknowledged"},
	} {
		cluster := envtest.StartSpec(t, env.Spec{Services: []sut.Service{sut.Redis},
			Redis: map[string]string{setting: c.value}})
		component := cluster.Component(sut.Redis)
		_, err := fault.Schedule{Base: time.Now(),
			Targets: map[sut.Service]fault.Target{sut.Redis: {Component: component}},
			Faults: []scenario.Fault{{Name: "power", Kind: "power-loss", Target: "redis",
				At: seconds(1)}}}.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, want %q", setting, c.value, err, c.want)
		}
		if err := component.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPowerLossKeepsTime: the watching begins early enough for the loss to happen at its time, or
// as soon as there is something to lose.
func TestPowerLossKeepsTime(t *testing.T) {
	for _, c := range []struct{ grows, start time.Duration }{
		{time.Second, 6 * time.Second}, // the watching begins 2.05 s before
		{3050 * time.Millisecond, 7 * time.Second},
		{0, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &dud{service: sut.Redis, works: true, cut: "*1\r\n$4\r\nINCR\r\n", grows: c.grows}
			windows, err := fault.Schedule{Base: time.Now(), Start: time.Second,
				Targets: map[sut.Service]fault.Target{sut.Redis: {Component: store}},
				Faults: []scenario.Fault{{Name: "power", Kind: "power-loss", Target: "redis",
					At: seconds(5), For: seconds(1), Loses: seconds(2)}}}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w := windows[0]
			// The journal is looked at when it is sampled, before or after that.
			if late := w.Start - c.start; late < 0 || late > env.JournalEvery ||
				w.End != w.Start+time.Second || len(w.Evidence) != 2 ||
				!strings.Contains(w.Evidence[0], "1 commands") {
				t.Errorf("window %+v", w)
			}
		})
	}
}

// TestPowerLossAvailable: it needs a journal.
func TestPowerLossAvailable(t *testing.T) {
	f := fault.Fault{Kind: fault.PowerLoss, Target: sut.Redis, Loses: time.Second}
	plain := struct{ env.Breakable }{&dud{service: sut.Redis}}
	if err := f.Available(fault.Target{Component: plain}); err == nil ||
		!strings.Contains(err.Error(), "no journal") {
		t.Errorf("got %v", err)
	}
	external := struct{ env.Component }{&dud{service: sut.Redis}}
	if err := f.Available(fault.Target{Component: external}); err == nil ||
		!strings.Contains(err.Error(), "does not allow faults") {
		t.Errorf("got %v", err)
	}
	if err := f.Available(fault.Target{Component: &dud{service: sut.Redis}}); err != nil {
		t.Error(err)
	}
}

// blind is a store whose journal nobody can look at.
type blind struct{ *dud }

func (blind) WatchJournal(context.Context, func(map[string]int64)) error { return net.ErrClosed }

// TestPowerLossOfAnUnwatchedStore: what cannot be watched is not killed.
func TestPowerLossOfAnUnwatchedStore(t *testing.T) {
	store := blind{&dud{service: sut.Redis, works: true}}
	_, err := fault.Fault{Kind: fault.PowerLoss, Target: sut.Redis, Loses: time.Millisecond}.Inject(
		t.Context(), fault.Target{Component: store}, 1)
	if !errors.Is(err, net.ErrClosed) || store.down.Load() {
		t.Errorf("got %v, down %v", err, store.down.Load())
	}
}
