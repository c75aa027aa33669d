package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// places are shared by all store-backed tests of this package.
var places = envtest.NewShared(sut.Postgres, sut.Redis, sut.Kafka)

func TestMain(m *testing.M) { os.Exit(places.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) {
	suttest.Exercise(t, suite())
}

// TestFullDisk: while Postgres has no room, tasks are refused or wait, and what was
// acknowledged runs once when there is room.
func TestFullDisk(t *testing.T) {
	suttest.FullDisk(t, suite(), "skip_locked", "batch", "redis_streams")
}

func suite() suttest.Suite {
	return suttest.Suite{
		System:  competing(System()),
		Params:  morning(),
		Space:   places.Namespace,
		Seed:    1,
		Ops:     200,
		Summary: summary,
		Undecided: map[string]string{
			CancelledRests: "a design that starts tasks late may cancel none of them before",
		},
	}
}

// competing has two clients of River: its executor has one, where that of the others claims
// twice, and one has nobody to take a task from.
func competing(system sut.System) sut.System {
	river := &system.Variants[slices.IndexFunc(system.Variants, func(v sut.Variant) bool {
		return v.Name == "river"
	})]
	executor := &river.Roles[slices.IndexFunc(river.Roles, func(r sut.Role) bool {
		return r.Name == "executor"
	})]
	run := executor.Run
	executor.Run = func(ctx context.Context, cfg sut.Config) error {
		other := make(chan error, 1)
		go func(cfg sut.Config) {
			cfg.Replica = 2
			other <- run(ctx, cfg)
		}(cfg)
		cfg.Replica = 1
		return errors.Join(run(ctx, cfg), <-other)
	}
	return system
}

// morning is a few hundred tasks that are due within half a second, their second
// occurrences within another, on a machine that may be slow.
func morning() *Params {
	p := DefaultParams()
	p.TimeScale, p.Rate = 240, 800
	p.NineAfter, p.Ahead = sut.Duration(time.Minute), sut.Duration(time.Minute)
	p.Recurring, p.Awaits, p.Cancel, p.Poison = 0.05, 0.01, 0.15, 0.05
	p.Resend = 0.2
	p.SLA = sut.Duration(80 * time.Minute)
	p.AwaitFor = sut.Duration(200 * time.Millisecond)
	p.PollEvery = sut.Duration(10 * time.Millisecond)
	p.RescueWithin = sut.Duration(15 * time.Second)
	p.Provision = sut.Duration(4 * time.Second)
	return &p
}

// summary lists the tasks as they were asked for, whatever has become of them.
func summary(raw json.RawMessage) (string, error) {
	var audit Audit
	if err := json.Unmarshal(raw, &audit); err != nil {
		return "", err
	}
	var lines []string
	for _, t := range audit.Tasks {
		if t.Origin {
			lines = append(lines, fmt.Sprint(t.Task, t.Queue, t.Client, t.Name, t.WorkMS, t.Cron, t.Zone,
				t.Times, t.FirstUS-audit.Begins))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	suttest.Understood(t, suite(), "skip_locked", apitest.Reworded)
}

// TestForgottenKeysAreCaught: a server to which keys mean nothing makes another task of a
// repeated request, and denies a repeated change.
func TestForgottenKeysAreCaught(t *testing.T) {
	for _, field := range []string{"id", "op_id"} {
		verdicts := suttest.Foreign(t, suite(), "skip_locked",
			func(next http.Handler) http.Handler { return apitest.Forgetful(next, nil, field) })
		if v := verdicts[NoPhantomRuns]; v.Status != check.Broken || len(v.Witness) == 0 {
			t.Errorf("%s: %s is %s with witnesses %v: %s", field, v.Invariant, v.Status, v.Witness, v.Reason)
		}
	}
}
