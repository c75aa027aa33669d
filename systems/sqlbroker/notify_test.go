package sqlbroker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/sut"
	"stampede/systems/sqlbroker"
)

// TestNotified: who waits for messages at one server, which would look again in hours, is
// told of those that are published at another. Several, one after the other: the first ones
// may be found by a look that was under way.
func TestNotified(t *testing.T) {
	p := rush()
	p.PollEvery = sut.Duration(time.Hour) // and who is told polls more rarely still
	cfg := configOf(t, *p)
	here, there := serverOf(t, cfg, true), serverOf(t, cfg, false)
	if err := here.Create(t.Context(), labQueue, lasting()); err != nil {
		t.Fatal(err)
	}
	watch, err := pgx.Connect(t.Context(), cfg.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Close(context.Background()) }()
	// A demand that comes near to a deadline would look once more.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(time.Minute, cancel).Stop()
	for n := range uint64(5) {
		var began time.Time
		if err := watch.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&began); err != nil {
			t.Fatal(err)
		}
		received := make(chan error, 1)
		var got []sqlbroker.Delivery
		go func() {
			var err error
			got, err = here.Receive(ctx, labQueue,
				sqlbroker.Demand{Most: 1, WaitMS: (10 * time.Hour).Milliseconds()})
			received <- err
		}()
		// Something was asked since, and answered: the look before the wait.
		for looked := false; !looked; {
			if err := watch.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()
					AND state = 'idle' AND query_start > $1)`, began).Scan(&looked); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := there.Publish(ctx, labQueue, sqlbroker.Publication{OpID: 1 + n,
			Messages: []sqlbroker.Message{{Body: "told"}}}); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil || len(got) != 1 {
			t.Fatalf("message %d of 5: received %d, %v", 1+n, len(got), err)
		}
	}
}

// serverOf is a server of listen_notify.
func serverOf(t *testing.T, cfg sut.Config, first bool) sqlbroker.Broker {
	t.Helper()
	all := sqlbroker.System().Variants
	v := all[slices.IndexFunc(all, func(v sut.Variant) bool { return v.Name == "listen_notify" })]
	inst, err := v.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Close(); err != nil {
			t.Error(err)
		}
	})
	if first {
		if err := inst.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := design.Opened[sqlbroker.Broker](inst)
	return b
}
