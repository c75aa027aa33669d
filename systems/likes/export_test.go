package likes

import (
	"context"
	"errors"

	"stampede/harness/sut"
)

// ChangeLua is the script that dedupes and counts.
const ChangeLua = changeScript

// Counter counts likes of an instance in Redis and does nothing else.
func Counter(inst sut.Instance) func(context.Context, uint64) error {
	i := inst.(*instance)
	return func(ctx context.Context, id uint64) error {
		_, err := i.store.change(ctx, Request{OpID: id, Video: 1, User: id}, true)
		return err
	}
}

// Apply writes an event at an offset of a partition to the ledger in Postgres, which it
// makes if there is none. It reports whether the ledger refused it because of a gap.
func Apply(ctx context.Context, cfg sut.Config, offset int64) (gap bool, err error) {
	cfg.MaxConns = 1
	l, err := openPostgres(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer l.close()
	if offset == 0 {
		if err := l.prepare(ctx, 1); err != nil {
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
