package likes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"stampede/harness/stores"

	"github.com/redis/go-redis/v9"
)

// pnCounter is a counter that several regions change without asking each other
// (Shapiro, Preguiça, Baquero, Zawirski: A comprehensive study of Convergent and
// Commutative Replicated Data Types, 2011, specifications 6 and 7). Each region
// adds to its own entries only; entries never fall within an epoch. A new epoch,
// after the counters were lost, replaces all of the one before.
type pnCounter struct {
	epoch       int64
	plus, minus []int64 // by region
}

func newPN(regions int) pnCounter {
	return pnCounter{plus: make([]int64, regions), minus: make([]int64, regions)}
}

// value is the number that the counter stands for.
func (c pnCounter) value() int64 {
	sum := int64(0)
	for i := range c.plus {
		sum += c.plus[i] - c.minus[i]
	}
	return sum
}

// merge is the least upper bound of two counters: of the later epoch all, of one
// epoch the larger of each entry. It is commutative, associative and idempotent,
// so that regions that have seen the same changes, in whatever order and however
// often, agree.
func merge(a, b pnCounter) pnCounter {
	if a.epoch != b.epoch {
		if a.epoch < b.epoch {
			return b
		}
		return a
	}
	m := newPN(len(a.plus))
	m.epoch = a.epoch
	for i := range m.plus {
		m.plus[i], m.minus[i] = max(a.plus[i], b.plus[i]), max(a.minus[i], b.minus[i])
	}
	return m
}

// mergeScript raises the entries of a region's counter to those of another
// region, as merge does, if both are of one epoch. KEYS are meta and counter,
// ARGV the epoch, then fields and values.
const mergeScript = `
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do
    local mine = tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or 0)
    if tonumber(ARGV[i + 1]) > mine then redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
return 1`

// counterOf reads the counter of a video as a region has it. It is ErrNotReady
// where there is none.
func (s *store) counterOf(ctx context.Context, region int, video uint64) (pnCounter, error) {
	pipe := s.rdb.TxPipeline()
	epoch := pipe.HGet(ctx, s.meta(region, video), "epoch")
	fields := pipe.HGetAll(ctx, s.pn(region, video))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return pnCounter{}, stores.Failed("reading a region's counter", err)
	}
	return parsePN(s.regions(), epoch.Val(), fields.Val())
}

func parsePN(regions int, epoch string, fields map[string]string) (pnCounter, error) {
	c := newPN(regions)
	if epoch == "" {
		return c, ErrNotReady
	}
	var err error
	if c.epoch, err = strconv.ParseInt(epoch, 10, 64); err != nil {
		return c, fmt.Errorf("reading a region's counter: the epoch: %w", err)
	}
	for r := range regions {
		for sign, entry := range map[string]*int64{"+": &c.plus[r], "-": &c.minus[r]} {
			text := fields[strconv.Itoa(r)+sign]
			if text == "" {
				continue
			}
			if *entry, err = strconv.ParseInt(text, 10, 64); err != nil {
				return c, fmt.Errorf("reading a region's counter: %w", err)
			}
		}
	}
	return c, nil
}

// readPN is read where there are regions. Viewers are those of all regions: the
// union of HyperLogLogs is one too.
func (s *store) readPN(ctx context.Context, region int, video uint64) (Count, error) {
	c, err := s.counterOf(ctx, region, video)
	if err != nil {
		return Count{}, err
	}
	sketches := make([]string, s.regions())
	for r := range sketches {
		sketches[r] = s.key(r, "viewers:", video)
	}
	viewers, err := s.rdb.PFCount(ctx, sketches...).Result()
	if err != nil {
		return Count{}, stores.Failed("estimating the viewers", err)
	}
	return Count{Video: video, Count: c.value(), Viewers: viewers}, nil
}

// exchange brings the counters of a video in all regions to what each of them
// knows. Regions of different epochs, while counters are rebuilt, are left alone.
func (s *store) exchange(ctx context.Context, video uint64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	seen := make([]pnCounter, s.regions())
	for region := range seen {
		if seen[region], err = s.counterOf(ctx, region, video); err != nil {
			return err
		}
	}
	for region, mine := range seen {
		all := mine
		for _, other := range seen {
			all = merge(all, other)
		}
		if all.epoch != mine.epoch || all.equal(mine) {
			continue
		}
		keys := []string{s.meta(region, video), s.pn(region, video)}
		if err := s.script.merge.Run(ctx, s.rdb, keys, all.args()...).Err(); err != nil {
			return stores.Failed("merging the counters of a region", err)
		}
	}
	return nil
}

func (c pnCounter) equal(o pnCounter) bool {
	return c.epoch == o.epoch && slices.Equal(c.plus, o.plus) && slices.Equal(c.minus, o.minus)
}

// args are those of mergeScript.
func (c pnCounter) args() []any {
	args := []any{c.epoch}
	for r := range c.plus {
		args = append(args, strconv.Itoa(r)+"+", c.plus[r], strconv.Itoa(r)+"-", c.minus[r])
	}
	return args
}

// differ says whether regions have different counters of a video.
func (s *store) differ(ctx context.Context, video uint64) (bool, error) {
	if s.layout.regions <= 1 {
		return false, nil
	}
	first, err := s.counterOf(ctx, 0, video)
	if err != nil {
		return false, err
	}
	for region := 1; region < s.regions(); region++ {
		other, err := s.counterOf(ctx, region, video)
		if err != nil || !other.equal(first) {
			return true, err
		}
	}
	return false, nil
}

const (
	// RoleReplicator names the role that joins regions.
	RoleReplicator = "replicator"
	// PlaceMerged is after a round of merging.
	PlaceMerged = "merged"
)

// inRegions is a design with the role that lets regions know of each other: it merges
// their counters, again and again. While it is cut off or stopped, regions go on alone;
// their counts differ, and agree again after the next round.
func inRegions(c counted) variant {
	v := c.variant()
	v.Roles = append(v.Roles, role{
		Name:    RoleReplicator,
		Summary: "exchanges the counters of the regions",
		Places:  []string{PlaceMerged},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			s := newStore(st, c.layout(st.Params))
			for video := uint64(1); video <= s.videos; video++ {
				if err := s.exchange(ctx, video); err != nil && !notReady(err) {
					return 0, err
				}
			}
			st.Config.Passed(PlaceMerged)
			return st.Params.MergeEvery.D(), nil
		},
	})
	return v
}
