package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"stampede/harness/sut"
)

// TestNotified: pickers and executors that would look again in a day are told of tasks that
// are scheduled over other connections, and of picks. Several, one after the other: the first
// ones may be found by looks that were under way.
func TestNotified(t *testing.T) {
	b, p := newTable(t), tableParams()
	p.PollEvery = sut.Duration(time.Hour) // and a slow poll is rarer still
	b.be(t, p, "listen_notify", "")
	ctx, stop := context.WithCancel(t.Context())
	var roles sync.WaitGroup
	defer roles.Wait()
	defer stop()
	for _, role := range variantOf("listen_notify").Roles {
		roles.Go(func() {
			if err := role.Run(ctx, sut.Config{PostgresURL: b.url, Params: b.params}); err != nil {
				t.Error(err)
			}
		})
	}
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for id := range uint64(5) {
		b.ask(t, 1+id, time.Minute, Spec{Task: "report"})
		for done := false; !done; {
			if err := b.pool.QueryRow(patience, `SELECT EXISTS (SELECT FROM runs
				WHERE series = $1 AND outcome = 'done')`, (1+id)<<8).Scan(&done); err != nil {
				t.Fatal(fmt.Errorf("task %d of 5 was told of to nobody: %w", 1+id, err))
			}
		}
	}
}
