package views

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// station is a stage at work on one generation: who has read how far.
type station struct {
	stage      string
	generation int64
}

// The stages. The filter has no generations.
const (
	stageFilter  = "filter"
	stageCounter = "counter"
)

// stand is where a station stands in a partition, and its right to move on.
type stand struct {
	partition int32
	// epoch is higher than that of anybody who took the partition before.
	epoch int64
	// next is the offset to go on at, source the last position in watch_events
	// of which a view was counted.
	next, source int64
	// decided is up to where the filter has decided; views are the positions,
	// from next on, of what it found to be views, in order. It has to forward
	// these; all before next is in the log.
	decided int64
	views   []int64
}

// saw says whether an event before decided, from next on, is a view.
func (s *stand) saw(in int64) bool {
	_, found := slices.BinarySearch(s.views, in)
	return found
}

// move is a stand's progress to another offset: for the counter with the last
// source, for the filter with what is decided beyond it.
type move struct {
	stand
	to, toSource int64
	toDecided    int64
	toViews      []int64
}

// sum counts views of one video in one window by one shard.
type sum struct {
	Video       string
	WindowStart int64
	Shard       int32
	Views       int64
}

// books are where the stages keep results and progress, each change in one
// transaction. Tests in virtual time have them in memory.
type books interface {
	// take gives the partitions to the caller alone: stands that were given
	// out before cannot move any more.
	take(ctx context.Context, who station, partitions []int32) ([]stand, error)
	// filtered stores what was decided, which drops are part of, and moves on,
	// all or nothing; counted does so for counts. errFenced means that somebody
	// else has taken one of the partitions, and that nothing was stored.
	filtered(ctx context.Context, moves []move, drops []DropAudit) error
	counted(ctx context.Context, who station, moves []move, sums []sum) error
	// counts adds views without regard to who has the partitions, reports
	// notes progress in the same way: what wrong designs do.
	counts(ctx context.Context, who station, sums []sum) error
	reports(ctx context.Context, who station, moves []move) error
	// rules returns all versions of the rules above the given one.
	rules(ctx context.Context, above int64) ([]Rules, error)
	changelog
	// creators says who made each video.
	creators(ctx context.Context) (map[string]string, error)
}

// errFenced: a partition was taken by somebody else, or what should be stored
// was stored already.
var errFenced = errors.New("the partition has another owner or has moved on")

func fenced(moves []move, stored int) error {
	return fmt.Errorf("%d of %d partitions could not move on: %w",
		len(moves)-stored, len(moves), errFenced)
}
