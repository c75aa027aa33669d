package likes

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// RoleRepairer names the role that keeps Redis in line with the ledger.
	RoleRepairer = "repairer"
	// PlaceRebuilt is after the counters were rebuilt and before users are let in.
	PlaceRebuilt = "rebuilding"
	// settleTime bounds the time from before an interaction is counted until its
	// acknowledgement, and is how long a rebuild waits: what is acknowledged at all
	// was in the log when the rebuild asks how long that is.
	settleTime = time.Second
	// repairRest is how many times as long as a comparison took the stores are
	// left alone, so that comparing takes a tenth of the time at most.
	repairRest = 9
)

// repairer is the role that keeps Redis in line with the ledger.
//
// A video without counters, as after Redis has lost its data or was started again
// (see connected), is rebuilt. Nobody can write to it meanwhile. First the repairer
// waits until whoever had counted in the old Redis has logged it or given up (see
// tellBuffer for those who acknowledge first), and until the ledger has all of the
// log up to then, and what Redis still knows beyond that; then it begins a new epoch,
// reads who likes the video and lets users in.
// What is logged even later comes with a version of the old epoch, by which the
// ledger's worker tells that Redis may not know it.
//
// Drift while running has two directions. What Redis knows and the ledger does
// not, because its server has died or given up between the two, is logged again,
// with the version and the operation that Redis has. What the ledger knows and
// Redis does not, because an event came late, is told to Redis.
// Versions say which is newer, so that a repair cannot undo what a user does at
// the same time.
func (c counted) repairer() role {
	return role{
		Name:    RoleRepairer,
		Summary: "rebuilds lost counters from the ledger and repairs drift between them",
		Places:  []string{PlaceRebuilt},
		Single:  true,
		Do: func(ctx context.Context, st *opened) error {
			r := &repair{backend: c.on(st), settle: max(settleTime, c.settle),
				waits: map[uint64]*wait{}, seen: map[uint64]map[uint64]int64{}}
			return r.work(ctx)
		},
	}
}

// repair remembers what a repairer has seen.
type repair struct {
	*backend
	// settle is how long a rebuild waits before it asks anything.
	settle time.Duration
	// waits are the videos that have lost their counters.
	waits map[uint64]*wait
	// seen are, by video and user, the versions that Redis was ahead with when it
	// was last compared.
	seen    map[uint64]map[uint64]int64
	compare time.Time // when to compare next
}

// wait is a video that waits for its rebuild.
type wait struct {
	since time.Time
	// target is what the ledger must have of the log, nil until it is known.
	target map[int32]int64
}

func (r *repair) work(ctx context.Context) error {
	return r.Config.Every(ctx, r.Params.RepairEvery.D(), func() error {
		lost, err := r.store.lost(ctx)
		if err != nil {
			return err
		}
		for _, video := range lost {
			if err := r.restore(ctx, video); err != nil {
				return err
			}
		}
		if len(lost) > 0 || time.Now().Before(r.compare) {
			return nil
		}
		began := time.Now()
		for video := uint64(1); video <= r.store.videos; video++ {
			if err := r.repair(ctx, video); err != nil {
				return err
			}
		}
		r.compare = time.Now().Add(repairRest * time.Since(began))
		return nil
	})
}

// restore brings the rebuild of a video as far as it can go now.
func (r *repair) restore(ctx context.Context, video uint64) error {
	w := r.waits[video]
	if w == nil {
		w = &wait{since: time.Now()}
		r.waits[video] = w
	}
	if time.Since(w.since) < r.settle {
		return nil
	}
	if w.target == nil {
		waiting, err := r.store.buffers(ctx, r.store.rdb, r.store.limit, "")
		if err != nil || waiting > 0 {
			return err
		}
		ends, err := r.log.ends(ctx)
		if err != nil {
			return err
		}
		w.target = ends
	}
	if lag, err := r.lag(ctx, w.target); err != nil || lag > 0 {
		return err
	}
	// What a server had in its buffer that died before, Redis may have, and the ledger has not.
	ahead, _, err := r.unequal(ctx, video)
	if err == nil && len(ahead) > 0 {
		w.target = nil // the ledger must have that too
		err = r.relog(ctx, video, ahead)
	}
	if err != nil || len(ahead) > 0 {
		return err
	}
	epoch, err := r.ledger.newEpoch(ctx, video)
	if err != nil {
		return err
	}
	pairs, err := r.ledger.pairs(ctx, video)
	if err != nil {
		return err
	}
	r.Config.Passed(PlaceRebuilt)
	if err := r.store.rebuild(ctx, video, epoch, pairs); err != nil {
		return err
	}
	r.Config.Logger.Info("likes repairer rebuilt the counters of a video", "video", video,
		"epoch", epoch, "pairs", len(pairs))
	delete(r.waits, video)
	delete(r.seen, video)
	return nil
}

// relog logs what Redis knows of some pairs, many at once.
func (r *repair) relog(ctx context.Context, video uint64, pairs []pair) error {
	for some := range slices.Chunk(pairs, chunk) {
		events := make([]Event, len(some))
		for i, p := range some {
			events[i] = Event{OpID: p.op, Video: video, User: p.user, Liked: p.liked,
				Version: p.version}
		}
		if err := r.log.append(ctx, events...); err != nil {
			return fmt.Errorf("logging what Redis knows: %w", err)
		}
	}
	return nil
}

// lag is how many records the ledger has not applied yet, up to a target.
func (b *backend) lag(ctx context.Context, target map[int32]int64) (int64, error) {
	applied, err := b.ledger.applied(ctx)
	if err != nil {
		return 0, err
	}
	lag := int64(0)
	for partition, end := range target {
		lag += max(0, end-applied[partition])
	}
	return lag, nil
}

// repair compares a video once. What Redis is ahead with is most likely on its
// way to the ledger; only what it was ahead with the last time, too, is logged
// again.
func (r *repair) repair(ctx context.Context, video uint64) error {
	ahead, behind, err := r.unequal(ctx, video)
	if err != nil {
		return err
	}
	now, still := make(map[uint64]int64, len(ahead)), []pair(nil)
	for _, p := range ahead {
		now[p.user] = p.version
		if r.seen[video][p.user] == p.version {
			still = append(still, p)
		}
	}
	if err := r.relog(ctx, video, still); err != nil {
		return err
	}
	r.seen[video] = now
	for _, p := range behind {
		if err := r.store.adopt(ctx, video, p); err != nil && !notReady(err) {
			return err
		}
	}
	return nil
}
