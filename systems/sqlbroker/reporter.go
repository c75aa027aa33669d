package sqlbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// reporter is the role of somebody who has nothing to do with queues: a report, a
// backup, a forgotten session. It begins one transaction that keeps its snapshot for a
// while. As long as that lasts, no vacuum takes away a row that has died since, in any table
// of the database. It reads nothing, or, if that is asked for, the messages: then it also
// keeps a lock on them, for which only who wants a table for itself has to wait.
func reporter() role {
	return role{
		Name:    RoleReporter,
		Summary: "holds an old snapshot for a while, as a report or a backup does",
		Single:  true, Conns: 1,
		Do: func(ctx context.Context, st *opened) error {
			if st.Params.ReportFor > 0 {
				st.Config.Worked()
				if !st.Config.Rest(ctx, st.Params.ReportAfter.D()) {
					return nil
				}
				if err := report(ctx, st); err != nil {
					return err
				}
			}
			for { // an error does not end it: it would report again
				if _, err := st.DB.Exec(ctx, `SELECT 1`); err == nil {
					st.Config.Worked()
				} else if ctx.Err() == nil {
					st.Config.Warn("sqlbroker reporter goes on after an error", err)
				}
				if !st.Config.Rest(ctx, pingEvery) {
					return nil
				}
			}
		},
	}
}

// pingEvery is how often a reporter that has nothing to report says that it is there.
const pingEvery = 200 * time.Millisecond

// report holds a snapshot.
func report(ctx context.Context, st *opened) error {
	length := st.Params.ReportFor.D()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	err := st.DB.Within(ctx, length+st.DB.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			// A transaction has no snapshot before its first statement.
			first := `SELECT txid_current_snapshot()`
			if st.Params.ReportReads {
				first = `SELECT count(*) FROM messages`
			}
			if _, err := tx.Exec(ctx, first); err != nil {
				return err
			}
			st.Config.Worked()
			st.Config.Rest(ctx, length)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("holding a snapshot: %w", err)
	}
	return nil
}
