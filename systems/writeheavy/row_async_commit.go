package writeheavy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/check"
	"stampede/harness/design"
	"stampede/harness/history"
)

// rowAsyncCommit is row_at_a_time without the wait for the disk.
//
// The idea: with synchronous_commit=off a commit is answered before its record is on the disk,
// where the WAL writer brings it with others a moment later.
//
// The guarantee: that of row_at_a_time while Postgres lives. If it dies, what is lost are the adds
// that came last, of three times wal_writer_delay at most (600 ms), and never one in between: the
// log of Postgres is one sequence. The audit declares the time.
//
// It gives up: these adds, which clients were told are there.
func rowAsyncCommit() variant {
	return variant{Name: "row_async_commit",
		Idea:       "row_at_a_time with synchronous_commit off: a commit does not wait for the disk",
		Guarantees: "that of row_at_a_time; a dying Postgres loses the last acknowledged adds only",
		GivesUp:    "the adds of the last half second or so when Postgres dies",
		Settings:   map[string]string{"synchronous_commit": "off"},
		Open: func(_ context.Context, st *opened) (Counters, error) {
			return service{now{st}, rows{st}.add, 1}, nil
		},
		State: design.State[Params]{Audit: audited(Contract{}, readDelay)},
	}
}

// readDelay declares for how long a commit may not be on the disk.
func readDelay(ctx context.Context, _ *opened, tx pgx.Tx, a *Audit) error {
	return tx.QueryRow(ctx, `SELECT 3 * setting::bigint FROM pg_settings
		WHERE name = 'wal_writer_delay'`).Scan(&a.Contract.Async)
}

// asyncMost bounds the milliseconds that a design declares: wal_writer_delay is 10 s at most.
// asyncSlack is how late the WAL writer may be beyond that.
const asyncMost, asyncSlack = 30_000, 2 * time.Second

// made are the adds in counters.
func (a *Audit) made() map[uint64]bool {
	made := map[uint64]bool{}
	for _, o := range a.Ops {
		made[o.ID] = true
	}
	return made
}

// mayUndo is for how long before it dies a database may not have an acknowledged add, and what a
// slow machine adds to that.
func (a *Audit) mayUndo() time.Duration {
	return time.Duration(a.Contract.Async)*time.Millisecond + asyncSlack
}

// databaseDeaths are the faults that killed Postgres.
func databaseDeaths(faults []history.Window) []history.Window {
	return slices.DeleteFunc(slices.Clone(faults), func(w history.Window) bool {
		return check.Deaths(w, "postgres") == 0
	})
}

// bounded requires a declared time of at most asyncMost.
func (a *Audit) bounded(r *check.Run) {
	r.Need(a.Contract.Async <= asyncMost, "the audit declares that commits of %d ms may be lost; the "+
		"most allowed is %d", a.Contract.Async, asyncMost)
}

// lossesOfDatabase are what may be lost in each of its deaths: all that was acknowledged in the
// time that is declared. Which of it may be is for only-the-last-is-lost to say.
func (a *Audit) lossesOfDatabase(r *check.Run) (list []check.Loss, err error) {
	a.bounded(r)
	for _, w := range databaseDeaths(r.Faults()) {
		covers, within := check.Around([]history.Window{w}, a.mayUndo()), int64(0)
		for _, op := range a.truth.ops {
			if op.Outcome == history.OK && covers(op.End) {
				within++
			}
		}
		if within == 0 || a.Contract.Async > asyncMost || err != nil {
			continue
		}
		var loss check.Loss
		loss, err = check.NewLoss(fmt.Sprintf("adds that were not on the disk (%s)",
			cmp.Or(w.Name, w.Fault)), "a commit is answered before it is", within, covers)
		list = append(list, loss)
	}
	return list, err
}

// lastIsLost looks for lost adds behind which something came that is not lost. The log of Postgres
// is one sequence: what was sent after another add was acknowledged has a later place in it.
func lastIsLost(j judged) {
	if j.Contract.Async == 0 {
		j.Checked(1)
		j.Note("no acknowledged add may be lost with the database")
		return
	}
	made, deaths := j.made(), databaseDeaths(j.Faults())
	// The add that was sent last among those that are kept, and were certainly committed before a
	// death.
	last := make([]check.Operation, len(deaths))
	for id, op := range j.truth.ops {
		for i, w := range deaths {
			if made[id] && j.truth.asked[id].over < w.Start && op.Outcome == history.OK &&
				op.Start > last[i].Start {
				last[i] = op
			}
		}
	}
	lost := 0
	for _, id := range slices.Sorted(maps.Keys(j.truth.ops)) {
		op := j.truth.ops[id]
		if op.Outcome != history.OK || !sound(j.truth.asked[id].delta) {
			continue
		}
		if j.Checked(1); made[id] {
			continue
		}
		lost++
		proof, could := []uint64{id}, false
		for i, w := range deaths {
			if !check.Around([]history.Window{w}, j.mayUndo())(op.End) {
				continue
			}
			if could = could || last[i].Start <= op.End; last[i].Start > op.End {
				proof = append(proof, last[i].ID)
			}
		}
		switch {
		case could:
		case len(proof) > 1:
			j.Violate(proof, "operation %d was acknowledged at %v and is lost, and operation %d, which was "+
				"sent after that, is not", id, op.End, proof[1])
		default:
			j.Violate(proof, "operation %d was acknowledged at %v and is lost, and no database died in the "+
				"%v after it", id, op.End, j.mayUndo())
		}
	}
	j.bounded(j.Run)
	j.Figure("acknowledged adds that died with the database", "", float64(lost))
}
