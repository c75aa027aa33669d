package likes

import (
	"context"

	"stampede/harness/sut"
)

const (
	// RoleReplicator names the role that joins regions.
	RoleReplicator = "replicator"
	// PlaceMerged is after a round of merging.
	PlaceMerged = "merged"
)

// replicator is the role that lets regions know of each other: it merges their
// counters, again and again. While it is cut off or stopped, regions go on
// alone; their counts differ, and agree again after the next round.
func (d design) replicator() sut.Role {
	return sut.Role{
		Name:    RoleReplicator,
		Summary: "exchanges the counters of the regions",
		Places:  []string{PlaceMerged},
		Run: func(ctx context.Context, cfg sut.Config) error {
			return d.run(ctx, cfg, RoleReplicator, func(ctx context.Context, b *backend) error {
				return b.cfg.Every(ctx, b.params.MergeEvery.D(), func() error {
					for video := uint64(1); video <= b.store.videos; video++ {
						if err := b.store.exchange(ctx, video); err != nil && !notReady(err) {
							return err
						}
					}
					b.cfg.Passed(PlaceMerged)
					return nil
				})
			})
		},
	}
}
