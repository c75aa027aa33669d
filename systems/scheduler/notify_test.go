package scheduler

import (
	"context"
	"fmt"
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
	runs(t, variantOf("listen_notify").Roles, sut.Config{PostgresURL: b.url, Params: b.params})
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
