package scheduler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
)

// partitions is how many parts of the tasks pickers have to themselves, and
// partitionLock where the numbers of their locks begin.
const (
	partitions    = 16
	partitionLock = 7_200_000
)

// partitionIndex serves pickers that look at one part.
const partitionIndex = `
CREATE INDEX tasks_part ON tasks (part, scheduled_at) WHERE state = 'waiting' AND NOT paused;`

// partitionedPickers gives each picker a part.
//
// Idea: tasks fall into 16 parts by their number. A picker takes a part's advisory
// lock for its transaction, picks there, and goes on to the next part; replicas
// begin apart.
//
// Guarantee: as skip_locked, and two pickers never look at the same rows. The lock
// ends with the transaction, so a picker that died leaves no part behind.
//
// Gives up: order between parts, and a look at each part even where few have
// anything.
func partitionedPickers() scheme {
	return scheme{variant{
		Name: "partitioned_pickers",
		Idea: "tasks are split into 16 parts; a picker takes a part's advisory lock, picks there and " +
			"moves on",
		Guarantees: "as skip_locked, and no two pickers scan the same rows",
		GivesUp:    "order between the parts, and 16 queries instead of one",
		State:      design.State[Params]{Schema: partitionIndex},
	}, overrides{lock: skipLocked, parts: partitions, among: " AND part = $4", mayPick: lockPart}}
}

// lockPart says whether nobody else picks in a part now.
func lockPart(ctx context.Context, tx pgx.Tx, part int) (mine bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, partitionLock+part).Scan(&mine)
	return mine, err
}
