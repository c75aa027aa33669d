package likes

import (
	"context"
	"errors"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// ChangeLua is the script that dedupes and counts.
const ChangeLua = changeScript

// Counter counts likes in Redis as redis_pipelined does, and does nothing else, until end.
func Counter(
	ctx context.Context, cfg sut.Config,
) (count func(context.Context, uint64) error, end func(), err error) {
	v := redisPipelined(inPostgres)
	st, err := openStores(ctx, v, cfg)
	if err != nil {
		return nil, nil, err
	}
	l, err := v.Open(ctx, st)
	return func(ctx context.Context, id uint64) error {
		_, err := l.(*counting).store.change(ctx, Request{OpID: id, Video: 1, User: id}, true)
		return err
	}, func() { closeStores(st) }, err
}

// Apply writes an event at an offset of a partition to the ledger in Postgres, which it
// makes if there is none. It reports whether the ledger refused it because of a gap.
func Apply(ctx context.Context, cfg sut.Config, offset int64) (gap bool, err error) {
	cfg.MaxConns = 1
	db, err := stores.OpenPostgres(ctx, cfg, "likes", nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	l := &postgres{db}
	if offset == 0 {
		if _, err := db.Exec(ctx, schema+`INSERT INTO videos (video_id) VALUES (1)`); err != nil {
			return false, err
		}
	}
	e := Event{OpID: uint64(offset + 1), Video: 1, User: 1, Liked: true, Version: offset + 1}
	_, err = l.apply(ctx, []Event{e}, map[int32]span{3: {offset, offset + 1}})
	if errors.Is(err, errGap) {
		return true, nil
	}
	return false, err
}
