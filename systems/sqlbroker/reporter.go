package sqlbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/sut"
)

// reporter is the role of somebody who has nothing to do with queues: a report, a
// backup, a forgotten session. It begins one transaction that keeps its snapshot for a
// while. As long as that lasts, no vacuum takes away a row that has died since, in any table
// of the database. It reads nothing, or, if that is asked for, the messages: then it also
// keeps a lock on them, for which only who wants a table for itself has to wait.
func (d design) reporter() sut.Role {
	return sut.Role{
		Name:    RoleReporter,
		Summary: "holds an old snapshot for a while, as a report or a backup does",
		Single:  true,
		Run: func(ctx context.Context, cfg sut.Config) error {
			params, err := sut.ParamsOf[Params](cfg.Params)
			if err != nil {
				return err
			}
			d.notifies = false
			reported := params.ReportFor == 0
			return d.run(ctx, cfg, RoleReporter, 1, func(ctx context.Context, b *backend) error {
				if !reported {
					b.cfg.Worked()
					if !b.cfg.Rest(ctx, params.ReportAfter.D()) {
						return nil
					}
					if err := b.report(ctx); err != nil {
						return err
					}
					reported = true
				}
				return b.cfg.Every(ctx, pingEvery, func() error { return b.ping(ctx) })
			})
		},
	}
}

// pingEvery is how often a reporter that has nothing to report says that it is there.
const pingEvery = 200 * time.Millisecond

// report holds a snapshot.
func (b *backend) report(ctx context.Context) error {
	length := b.params.ReportFor.D()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	err := b.db.Within(ctx, length+b.db.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			// A transaction has no snapshot before its first statement.
			first := `SELECT txid_current_snapshot()`
			if b.params.ReportReads {
				first = `SELECT count(*) FROM messages`
			}
			if _, err := tx.Exec(ctx, first); err != nil {
				return err
			}
			b.cfg.Worked()
			b.cfg.Rest(ctx, length)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("holding a snapshot: %w", err)
	}
	return nil
}

// ping says whether Postgres answers.
func (b *backend) ping(ctx context.Context) error {
	_, err := b.db.Exec(ctx, `SELECT 1`)
	return err
}
