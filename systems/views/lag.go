package views

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/harness/topics"
)

// The topics. They have equally many partitions: what the filter lets through
// goes to the partition of the same number.
const (
	topicWatch = "watch_events"
	topicValid = "valid_events"
)

// lag is how many records a stage is behind in a partition of its topic.
type lag struct {
	ProgressAudit
	topic  string
	behind int64
}

// lags are those of all stages in all partitions. How far they are is read before the ends:
// who had come by then to where the log ends now is at rest, and so is who reads from it.
func lags(ctx context.Context, st *opened) (list []lag, err error) {
	stands, err := database{st.DB}.stands(ctx)
	if err != nil {
		return nil, err
	}
	ends := make(map[string]map[int32]int64)
	for _, topic := range []string{topicWatch, topicValid} {
		if ends[topic], err = topics.Ends(ctx, st.Kafka, topics.Name(st.Config, topic)); err != nil {
			return nil, err
		}
	}
	for _, s := range stands {
		topic := topicValid
		if s.Stage == stageFilter {
			topic = topicWatch
		}
		end, has := ends[topic][s.Partition]
		if !has {
			return nil, fmt.Errorf("the table progress has a partition %d, %s has not",
				s.Partition, topic)
		}
		list = append(list, lag{s, topic, end - s.Next})
	}
	return list, nil
}

// pending counts the records that a stage has not come to, and the videos whose counts
// are not merged. What the filter is behind with becomes one for each generation's counter.
func pending(ctx context.Context, st *opened) (left int64, what string, err error) {
	lags, err := lags(ctx, st)
	if err != nil {
		return 0, "", err
	}
	generations := map[int64]bool{0: true} // the filter's
	for _, l := range lags {
		generations[l.Generation] = true
	}
	for _, l := range lags {
		behind := max(l.behind, -l.behind)
		if behind > 0 && what == "" {
			what = fmt.Sprintf("the %s (generation %d) is %d records behind in partition %d of %s",
				l.Stage, l.Generation, l.behind, l.Partition, l.topic)
		}
		if l.Stage == stageFilter {
			behind *= int64(len(generations))
		}
		left += behind
	}
	videos, unmerged, err := database{st.DB}.unmerged(ctx)
	if what == "" {
		what = unmerged
	}
	return left + videos, what, err
}

// Look is what a gauge saw, and the body of its history.Sample. The tables
// were read before the ends of the topics.
type Look struct {
	// Shown is how many views readers saw, over all videos, in the live
	// generation.
	Shown int64 `json:"shown"`
	// FilterLag and CounterLag are, for each partition, how many records the
	// stage had still to read.
	FilterLag  []int64 `json:"filter_lag"`
	CounterLag []int64 `json:"counter_lag"`
	// Dropped counts what was turned away by reason.
	Dropped map[string]int64 `json:"dropped"`
}

// look reads a Look.
func look(ctx context.Context, st *opened) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, roleTimeout)
	defer cancel()
	l := Look{Dropped: make(map[string]int64)}
	err := st.DB.Row(ctx, `SELECT coalesce(sum(views), 0)::bigint FROM shown_views
		WHERE generation = (SELECT max(generation) FROM generations WHERE live_at IS NOT NULL)`,
		nil, &l.Shown)
	if err != nil {
		return nil, fmt.Errorf("reading the counts: %w", err)
	}
	err = st.DB.Rows(ctx, `SELECT reason, sum(events)::bigint FROM drops GROUP BY 1`, nil,
		func(row pgx.CollectableRow) error {
			var reason string
			var events int64
			err := row.Scan(&reason, &events)
			l.Dropped[reason] = events
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("reading the drops: %w", err)
	}
	lags, err := lags(ctx, st)
	if err != nil {
		return nil, err
	}
	for _, lag := range lags { // in the order of the partitions
		switch {
		case lag.Stage == stageFilter:
			l.FilterLag = append(l.FilterLag, lag.behind)
		case lag.Generation == 1:
			l.CounterLag = append(l.CounterLag, lag.behind)
		}
	}
	return l, nil
}
