package partitions

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

// Begin puts partitions 0 to n-1 at their first record, in the table of Postgres
//
//	progress (part int PRIMARY KEY, next_offset bigint NOT NULL)
//
// which Starts reads and MoveOn changes.
func Begin(ctx context.Context, db *stores.Postgres, n int) error {
	_, err := db.Exec(ctx, `INSERT INTO progress SELECT generate_series(0, $1 - 1), 0`, n)
	return stores.Failed("beginning with every partition", err)
}

// Starts is the offset at which each partition goes on.
func Starts(ctx context.Context, db *stores.Postgres) (map[int32]int64, error) {
	list, err := stores.Collect[struct {
		Part int32
		Next int64
	}](ctx, db, `SELECT part, next_offset FROM progress`)
	starts := map[int32]int64{}
	for _, row := range list {
		starts[row.Part] = row.Next
	}
	return starts, stores.Failed("reading how far partitions are counted", err)
}

// StartsInRedis is Starts of readers that keep their offsets in a hash in Redis.
func StartsInRedis(
	ctx context.Context, client *redis.Client, hash string,
) (map[int32]int64, error) {
	found, err := client.HGetAll(ctx, hash).Result()
	starts := map[int32]int64{}
	for part, next := range found {
		id, wrong := strconv.ParseInt(part, 10, 32)
		at, wrongToo := strconv.ParseInt(next, 10, 64)
		starts[int32(id)] = at
		err = errors.Join(err, wrong, wrongToo)
	}
	return starts, stores.Failed("reading how far partitions are read", err)
}

// MoveOn moves a partition on, from where its reader knows that it is. If it is elsewhere the error
// is ErrMoved, and nothing is changed.
func MoveOn(ctx context.Context, tx pgx.Tx, part int32, from, to int64) error {
	tag, err := tx.Exec(ctx, `UPDATE progress SET next_offset = $3
		WHERE part = $1 AND next_offset = $2`, part, from, to)
	if err == nil && tag.RowsAffected() != 1 {
		return fmt.Errorf("partition %d is not at offset %d: %w", part, from, ErrMoved)
	}
	return err
}
