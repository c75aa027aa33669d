package views

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// TestReprocessTwice: a second recount, asked for before the first has gone live or after, leaves
// the first one behind, and every generation is right as far as it was counted.
func TestReprocessTwice(t *testing.T) {
	variant := System().Variants[0]
	inst, cfg := prepared(t, variant, crowd())
	fill(t, cfg, *crowd(), 3000, false)
	recount := func() {
		op := history.Op{ID: 1, Kind: KindReprocess}
		if _, err := inst.Do(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	recount()
	recount() // before anybody counts: the one before is superseded
	ctx, cancel := context.WithCancel(t.Context())
	var roles sync.WaitGroup
	defer roles.Wait()
	defer cancel()
	for _, role := range variant.Roles {
		roles.Go(func() {
			if err := role.Run(ctx, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	quiesce(ctx, t, inst)
	recount()
	quiesce(ctx, t, inst)
	audit := auditOf(t, inst)
	for name, v := range suttest.Verdicts(Invariants(*crowd()), history.Slice(nil),
		suttest.Encoded(t, audit)) {
		if v.Status == check.Broken && name != AckedInLog {
			t.Errorf("%s is broken: %+v", name, v.Violations)
		}
	}
	// The first is the group's; the second was superseded before it went live, the
	// third when the fourth went live.
	want := []GenerationAudit{
		{Generation: 1, Live: true}, {Generation: 2, Retired: true},
		{Generation: 3, Live: true, Retired: true}, {Generation: 4, Live: true},
	}
	if !slices.Equal(audit.Generations, want) {
		t.Errorf("the generations are %+v, expected %+v", audit.Generations, want)
	}
}

// quiesce waits until the roles have nothing left to do.
func quiesce(ctx context.Context, t *testing.T, inst sut.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		pending, err := inst.(sut.Quiescer).Quiesced(ctx)
		switch {
		case err != nil:
			t.Fatal(err)
		case pending == "":
			return
		case !sut.Pause(ctx, 20*time.Millisecond):
			t.Fatalf("not at rest: %s", pending)
		}
	}
}
