package run

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

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
	b.finish(t).is(t, "good", rundir.Invalid, "it is broken")
	select {
	case <-s.gone:
	default:
		t.Error("the role goes on")
	}
}

func TestACrewTellsOnce(t *testing.T) {
	crew := StartRoles(t.Context(), sut.Variant{Roles: []sut.Role{
		{Name: "good", Run: func(ctx context.Context, _ sut.Config) error { <-ctx.Done(); return nil }},
		{Name: "bad", Run: func(context.Context, sut.Config) error { return errBroken }},
	}}, sut.Config{})
	if err := crew.Stop(); err == nil || err.Error() != "role bad: it is broken" {
		t.Errorf("stopped: %v", err)
	}
	if err := crew.Stop(); err != nil {
		t.Errorf("stopped again: %v", err)
	}
}

func TestARoleThatDoesNotEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		crew := StartRoles(t.Context(), sut.Variant{Roles: []sut.Role{
			{Name: "deaf", Run: func(context.Context, sut.Config) error { <-release; return nil }},
		}}, sut.Config{})
		err := crew.Stop()
		if err == nil || !strings.Contains(err.Error(), "role deaf: it did not end within 30s") {
			t.Errorf("stopped: %v", err)
		}
		close(release)
	})
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
