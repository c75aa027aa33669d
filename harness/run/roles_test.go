package run

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// TestAbsentFaults: what a variant does not have is absent, and not what else aims at the
// same role.
func TestAbsentFaults(t *testing.T) {
	v := sut.Variant{Needs: []sut.Service{sut.Postgres},
		Roles: []sut.Role{{Name: "worker", Places: []string{"claimed"}}}}
	got := absent([]scenario.Fault{
		{Name: "here", Kind: "crash", Target: "worker-1", Place: "claimed"},
		{Name: "no such place", Kind: "crash", Target: "worker-1", Place: "received"},
		{Name: "dies", Kind: "kill", Target: "worker-1"},
		{Name: "no such role", Kind: "kill", Target: "counter"},
		{Name: "no such way", Kind: "partition", Target: "worker-1", From: "redis"},
		{Name: "way", Kind: "partition", Target: "worker-1", From: "postgres"},
		{Name: "store", Kind: "kill", Target: "redis"},
	}, v)
	want := map[string]bool{"no such place": true, "no such role": true, "no such way": true}
	if !maps.Equal(got, want) {
		t.Errorf("absent are %v, want %v", got, want)
	}
}

// sign is a role that gives signs of life until it is told to end.
type sign struct{ life, gone chan struct{} }

func newSign() sign { return sign{make(chan struct{}), make(chan struct{})} }

func (s sign) role() []sut.Role {
	return role(func(ctx context.Context) error {
		defer close(s.gone)
		for {
			select {
			case s.life <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// alive waits for many signs; false if the role has ended.
func (s sign) alive() bool {
	for range 20 {
		select {
		case <-s.life:
		case <-s.gone:
			return false
		}
	}
	return true
}

// A drain needs the roles, also of a run that was interrupted; the audit needs
// a state that nobody changes any more.
func TestRolesWorkThroughTheDrainAndNotInTheAudit(t *testing.T) {
	s := newSign()
	var b *bench
	b = newBench(t, long(), design{name: "good", roles: s.role(),
		do: func(_ context.Context, id uint64) error {
			if id == 5 {
				b.interrupt()
			}
			return nil
		},
		quiesced: func() (string, error) {
			if !s.alive() {
				t.Error("the role ended before the drain")
			}
			return "", nil
		},
		audit: func() (json.RawMessage, error) {
			select {
			case <-s.gone:
			default:
				t.Error("the role works in the audit")
			}
			return json.RawMessage(`"not a set"`), nil
		}})
	b.finish(t).interrupted(t)
}

func TestRolesEndWithATrialThatFails(t *testing.T) {
	s := newSign()
	b := newBench(t, slow(), design{name: "good", roles: s.role()})
	b.provider.store.stuck = errBroken
	b.opts.Scenario.Faults = []scenario.Fault{
		at("crash", "kill", 20*time.Millisecond, 10*time.Millisecond)}
	b.finish(t).is(t, "good", rundir.Inconclusive, "it is broken")
	select {
	case <-s.gone:
	default:
		t.Error("the role goes on")
	}
}

func TestAnInstanceThatDoesNotCloseIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		err := closing("stuck", func() error { <-release; return nil })
		if err == nil || !strings.Contains(err.Error(), "closing stuck: it did not return within 30s") {
			t.Errorf("closed: %v", err)
		}
		close(release)
	})
}

// TestReplicasAndRestartsInProcess: replicas have numbers, one of them is
// restarted, and a variant without the role is not to blame for that.
func TestReplicasAndRestartsInProcess(t *testing.T) {
	var mu sync.Mutex
	started := map[int]int{}
	sweeper := []sut.Role{{Name: "sweeper", Run: func(ctx context.Context, cfg sut.Config) error {
		mu.Lock()
		started[cfg.Replica]++
		mu.Unlock()
		for sut.Pause(ctx, time.Millisecond) {
			cfg.Worked()
		}
		return nil
	}}}
	b := newBench(t, append(slow(), "replicas.sweeper=3", "replicas.api=2"),
		design{name: "good", roles: sweeper}, design{name: "none"})
	b.opts.Scenario.Faults = []scenario.Fault{{Name: "bounce", Kind: "restart",
		Target: "sweeper-2", At: scenario.Duration(20 * time.Millisecond)}}
	e := b.finish(t)
	e.is(t, "good", rundir.Pass)
	e.is(t, "none", rundir.Pass)
	if want := map[int]int{1: 1, 2: 2, 3: 1}; !maps.Equal(started, want) {
		t.Errorf("the replicas were started %v times, want %v", started, want)
	}
	windows := e.variant(t, "good").Repeats[0].Faults
	if len(windows) != 1 || len(windows[0].Evidence) != 2 || windows[0].Recovered == 0 {
		t.Errorf("the windows are %+v", windows)
	}
	if windows := e.variant(t, "none").Repeats[0].Faults; len(windows) != 1 ||
		len(windows[0].Evidence) != 0 {
		t.Errorf("of the variant without the role the windows are %+v", windows)
	}
	validity := e.variant(t, "none").Repeats[0].Validity
	if !slices.ContainsFunc(validity, func(v rundir.Validity) bool {
		return v.OK && v.Detail == "the design has no such sweeper-2"
	}) {
		t.Errorf("the assumptions are %+v", validity)
	}
	if e.summary.Environment.Proxied {
		t.Error("a proxy stood before the store")
	}
}
