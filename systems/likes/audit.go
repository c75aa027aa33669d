package likes

import (
	"context"
	"slices"
)

// auditVideo fills in what the counting store says of a video.
func (i *instance) auditVideo(ctx context.Context, v *VideoAudit) error {
	if i.store == nil {
		count, err := i.Count(ctx, CountRequest{Video: v.Video, User: 1})
		v.Shards, v.Members = 1, v.Ledger
		v.Counts, v.Viewers = []int64{count.Count}, count.Viewers
		return err
	}
	for region := range i.store.regions() {
		count, err := i.store.read(ctx, region, v.Video)
		if err != nil && !notReady(err) {
			return err
		}
		v.Counts, v.Viewers = append(v.Counts, count.Count), count.Viewers
	}
	v.Shards = i.store.known.get(i.store.meta(0, v.Video), int64(i.store.layout.shards))
	pairs, err := i.store.pairs(ctx, v.Video)
	if err != nil {
		return err
	}
	v.Members = Packed{}
	for _, p := range pairs {
		if p.liked {
			v.Members = append(v.Members, p.user)
		}
	}
	slices.Sort(v.Members)
	return nil
}
