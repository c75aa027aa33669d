package sqlbroker

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// TestNotified: who waits for messages at one server, which would look again in hours, is
// told of those that are published at another. Several, one after the other: the first ones
// may be found by a look that was under way.
func TestNotified(t *testing.T) {
	p := rush()
	p.PollEvery = sut.Duration(time.Hour) // and who is told polls more rarely still
	here := openLab(t, "listen_notify", configOf(t, p), nil)
	there := limitedOf(here.server(t))
	watch, err := pgx.Connect(t.Context(), here.cfg.PostgresURL)
	must(t, err)
	defer func() { _ = watch.Close(context.Background()) }()
	// A demand that comes near to a deadline would look once more.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(time.Minute, cancel).Stop()
	for n := range uint64(5) {
		var began time.Time
		must(t, watch.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&began))
		received := make(chan error, 1)
		var got []Delivery
		go func() {
			var err error
			got, err = here.users.Receive(ctx, labQueue,
				Demand{Most: 1, WaitMS: (10 * time.Hour).Milliseconds()})
			received <- err
		}()
		// Something was asked since, and answered: the look before the wait.
		for looked := false; !looked; {
			must(t, watch.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()
					AND state = 'idle' AND query_start > $1)`, began).Scan(&looked))
		}
		_, err := there.Publish(ctx, labQueue, Publication{OpID: 1 + n,
			Messages: make([]Message, 1)})
		must(t, err)
		if err := <-received; err != nil || len(got) != 1 {
			t.Fatalf("message %d of 5: received %d, %v", 1+n, len(got), err)
		}
	}
}

// FuzzReceipts: what is taken for a receipt is one that a delivery may have.
func FuzzReceipts(f *testing.F) {
	f.Add("0.1.a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
	f.Add("15.9223372036854775807.A0EEBC999C0B4EF8BB6D6BB9BD380A11")
	f.Add("0.1.a")
	again := func(text string) string {
		r := parseReceipts([]string{text})
		if len(r.ids) == 0 {
			return ""
		}
		return receiptOf(r.slots[0], r.ids[0], r.uuids[0])
	}
	f.Fuzz(func(t *testing.T, text string) {
		if written := again(text); written != "" && again(written) != written {
			t.Fatalf("%q is %q, and that is %q", text, written, again(written))
		}
	})
}
