package likes

import (
	"context"

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
