package likes

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// schema makes the tables; see schema.sql.
//
//go:embed schema.sql
var schema string

// auditTimeout bounds the reading of everything, which is no user's operation
// and may take longer than one.
const auditTimeout = 2 * time.Minute

// pair is what a store says of a user and a video: liked or not as of a
// version, by an operation.
type pair struct {
	user    uint64
	liked   bool
	version int64
	op      uint64
}

// span is what a batch has of a partition: from the offset first to before next.
type span struct{ first, next int64 }

// errGap is why a batch is not applied.
var errGap = errors.New("the ledger does not have what comes before the batch")

// ledger is the durable record of who likes what: Postgres, or in tests of
// virtual time a stand-in in memory.
type ledger interface {
	// apply adds a batch of events and notes how far each partition has come by
	// it, all or nothing. An event that is there already changes nothing, nor
	// does one older than what is known of its pair. A batch that begins beyond
	// what is applied of a partition is errGap, because what lies between would
	// never come. It returns the epochs of the videos; one that newEpoch returns
	// later has not been given out yet.
	apply(ctx context.Context, batch []Event, spans map[int32]span) (map[uint64]int64, error)
	// applied returns the offset after the last one applied, by partition.
	applied(ctx context.Context) (map[int32]int64, error)
	// newEpoch begins another life of a video's counters. Every event is either
	// in what pairs returns afterwards or told of the new epoch by apply.
	newEpoch(ctx context.Context, video uint64) (int64, error)
	// pairs lists what is known of a video, in no order.
	pairs(ctx context.Context, video uint64) ([]pair, error)
	// audit reads, in one snapshot, who likes each video, by ascending user, and
	// the identities of all events, ascending.
	audit(ctx context.Context, videos int) (likers []Packed, ops Packed, err error)
}

// ledgers says where the ledger of a design is.
type ledgers func(*opened) ledger

func inPostgres(st *opened) ledger { return &postgres{st.DB} }

// postgres is the ledger.
type postgres struct{ db *stores.Postgres }

// lockEpochs keeps newEpoch waiting until the batch is committed, so that a
// rebuild sees the batch or the batch sees the rebuild.
const lockEpochs = `SELECT video_id, epoch FROM videos WHERE video_id = ANY($1)
ORDER BY video_id FOR SHARE`

// applyBatch adds a batch: $1 to $5 are its columns. Rows are inserted in the
// order of their keys, so that two workers that meet wait for each other one
// way only.
const applyBatch = `
WITH batch AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[])
        AS b (op_id, video_id, user_id, liked, version)
), logged AS (
    INSERT INTO like_events (op_id, video_id, user_id, liked, version)
    SELECT DISTINCT ON (op_id) op_id, video_id, user_id, liked, version FROM batch
    ORDER BY op_id, version
    ON CONFLICT (op_id) DO NOTHING
)
INSERT INTO likes (video_id, user_id, liked, version, op_id)
SELECT DISTINCT ON (video_id, user_id) video_id, user_id, liked, version, op_id FROM batch
ORDER BY video_id, user_id, version DESC
ON CONFLICT (video_id, user_id) DO UPDATE
    SET liked = excluded.liked, version = excluded.version, op_id = excluded.op_id
    WHERE excluded.version > likes.version`

// findGap looks for a partition of which the ledger is not as far as the batch's
// beginning. It never falls back but by a crash, which ends the transaction as well.
const findGap = `
SELECT partition, first, coalesce(next_offset, 0)
FROM unnest($1::int[], $2::bigint[]) AS batch (partition, first)
LEFT JOIN applied USING (partition) WHERE first > coalesce(next_offset, 0) LIMIT 1`

const moveApplied = `
INSERT INTO applied (partition, next_offset) SELECT * FROM unnest($1::int[], $2::bigint[])
ON CONFLICT (partition) DO UPDATE
    SET next_offset = greatest(applied.next_offset, excluded.next_offset)`

func (l *postgres) apply(
	ctx context.Context, batch []Event, spans map[int32]span,
) (map[uint64]int64, error) {
	epochs := map[uint64]int64{}
	columns := columnsOf(batch)
	var partitions []int32
	var first, next []int64
	for partition, s := range spans {
		partitions = append(partitions, partition)
		first, next = append(first, s.first), append(next, s.next)
	}
	err := l.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		steps := &pgx.Batch{}
		steps.Queue(findGap, partitions, first).Query(func(rows pgx.Rows) error {
			var partition int32
			var from, applied int64
			_, err := pgx.ForEachRow(rows, []any{&partition, &from, &applied}, func() error {
				return fmt.Errorf("partition %d: it begins at %d, applied is up to %d: %w",
					partition, from, applied, errGap)
			})
			return err
		})
		steps.Queue(lockEpochs, columns.videos).Query(func(rows pgx.Rows) error {
			var video uint64
			var epoch int64
			_, err := pgx.ForEachRow(rows, []any{&video, &epoch}, func() error {
				epochs[video] = epoch
				return nil
			})
			return err
		})
		steps.Queue(applyBatch, columns.ops, columns.videos, columns.users, columns.liked,
			columns.versions)
		steps.Queue(moveApplied, partitions, next)
		return tx.SendBatch(ctx, steps).Close()
	})
	if err != nil {
		return nil, stores.Failed("applying a batch to the ledger", err)
	}
	return epochs, nil
}

// columns are events, turned.
type columns struct {
	ops, videos, users, versions []int64
	liked                        []bool
}

func columnsOf(batch []Event) columns {
	var c columns
	for _, e := range batch {
		c.ops, c.videos = append(c.ops, int64(e.OpID)), append(c.videos, int64(e.Video))
		c.users, c.versions = append(c.users, int64(e.User)), append(c.versions, e.Version)
		c.liked = append(c.liked, e.Liked)
	}
	return c
}

func (l *postgres) applied(ctx context.Context) (map[int32]int64, error) {
	offsets := map[int32]int64{}
	err := l.db.Rows(ctx, `SELECT partition, next_offset FROM applied`, nil,
		func(row pgx.CollectableRow) error {
			var partition int32
			var offset int64
			err := row.Scan(&partition, &offset)
			offsets[partition] = offset
			return err
		})
	if err != nil {
		return nil, stores.Failed("reading how far the ledger is", err)
	}
	return offsets, nil
}

func (l *postgres) newEpoch(ctx context.Context, video uint64) (epoch int64, err error) {
	err = l.db.Row(ctx, `UPDATE videos SET epoch = epoch + 1 WHERE video_id = $1 RETURNING epoch`,
		[]any{int64(video)}, &epoch)
	if err != nil {
		return 0, stores.Failed("beginning a new epoch", err)
	}
	return epoch, nil
}

func (l *postgres) pairs(ctx context.Context, video uint64) ([]pair, error) {
	var list []pair
	err := l.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return stores.Each(ctx, tx, `SELECT user_id, liked, version, op_id FROM likes
			WHERE video_id = $1`, []any{int64(video)}, func(row pgx.CollectableRow) error {
			var p pair
			err := row.Scan(&p.user, &p.liked, &p.version, &p.op)
			list = append(list, p)
			return err
		})
	})
	if err != nil {
		return nil, stores.Failed("reading who likes a video", err)
	}
	return list, nil
}

// snapshot reads for as long as an audit may take.
func (l *postgres) snapshot(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	return l.db.Snapshot(ctx, read)
}

func (l *postgres) audit(ctx context.Context, videos int) (likers []Packed, ops Packed, err error) {
	likers, ops = make([]Packed, videos), Packed{}
	for i := range likers {
		likers[i] = Packed{}
	}
	err = l.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := stores.Each(ctx, tx, `SELECT video_id, user_id FROM likes WHERE liked
			ORDER BY video_id, user_id`, nil, func(row pgx.CollectableRow) error {
			var video, user uint64
			if err := row.Scan(&video, &user); err != nil {
				return err
			}
			if video < 1 || video > uint64(videos) {
				return fmt.Errorf("user %d likes video %d, which does not exist", user, video)
			}
			likers[video-1] = append(likers[video-1], user)
			return nil
		})
		if err != nil {
			return err
		}
		return stores.Each(ctx, tx, `SELECT op_id FROM like_events ORDER BY op_id`, nil,
			func(row pgx.CollectableRow) error {
				var op uint64
				err := row.Scan(&op)
				ops = append(ops, op)
				return err
			})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("auditing the ledger: %w", err)
	}
	return likers, ops, nil
}
