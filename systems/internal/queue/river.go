package queue

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"stampede/harness/stores"
)

// RiverSettings are what River's own connections set in Postgres.
func RiverSettings() map[string]string {
	return map[string]string{"plan_cache_mode": "auto", "enable_seqscan": "on"}
}

// River is a client of River's that inserts jobs, and its driver.
type River struct {
	Client *river.Client[pgx.Tx]
	Driver *riverpgxv5.Driver
}

// RiverOver makes a client. Its log is thrown away: what goes wrong is returned.
func RiverOver(db *stores.Postgres, conf *river.Config) (River, error) {
	conf.Logger = quiet()
	driver := riverpgxv5.New(db.Pool)
	client, err := river.NewClient(driver, conf)
	if err != nil {
		return River{}, fmt.Errorf("making a client of River: %w", err)
	}
	return River{client, driver}, nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// MigrateRiver makes River's tables, in several transactions: a value of an enumeration can be
// used in a later one than that which adds it. Then it runs more statements.
func MigrateRiver(ctx context.Context, db *stores.Postgres, more string) error {
	pool, err := db.Preparer(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		_, err = pool.Exec(ctx, more)
	}
	if err != nil {
		return fmt.Errorf("making River's tables: %w", err)
	}
	return nil
}
