package views

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

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

// gauge opens connections of its own.
func (d design) gauge(ctx context.Context, cfg sut.Config) (sut.Gauge, error) {
	cfg, _, err := settings(cfg)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.Timeout = 1, min(stores.Timeout(cfg), roleTimeout)
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	client, err := openKafka(ctx, cfg)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &lookout{cfg: cfg, db: db, client: client, merged: d.composite}, nil
}

// lookout is an opened gauge.
type lookout struct {
	cfg    sut.Config
	db     database
	client *kgo.Client
	merged bool
}

// Sample reads a Look.
func (l *lookout) Sample(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	look := Look{Dropped: make(map[string]int64)}
	table := "shard_views"
	if l.merged {
		table = "merged_views"
	}
	err := l.db.Row(ctx, `SELECT coalesce(sum(views), 0)::bigint FROM `+table+`
		WHERE generation = (SELECT max(generation) FROM generations WHERE live_at IS NOT NULL)`,
		nil, &look.Shown)
	if err != nil {
		return nil, fmt.Errorf("reading the counts: %w", err)
	}
	err = l.db.Rows(ctx, `SELECT reason, sum(events)::bigint FROM drops GROUP BY 1`, nil,
		func(row pgx.CollectableRow) error {
			var reason string
			var events int64
			err := row.Scan(&reason, &events)
			look.Dropped[reason] = events
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("reading the drops: %w", err)
	}
	if err := l.lag(ctx, &look); err != nil {
		return nil, err
	}
	body, err := json.Marshal(look)
	if err != nil {
		return nil, fmt.Errorf("encoding a look: %w", err)
	}
	return body, nil
}

func (l *lookout) lag(ctx context.Context, look *Look) error {
	stands, err := l.db.stands(ctx)
	if err != nil {
		return err
	}
	ends, err := ends(ctx, l.client, l.cfg)
	if err != nil {
		return err
	}
	look.FilterLag, look.CounterLag = ends[topicWatch], ends[topicValid]
	for _, s := range stands {
		lag := look.FilterLag
		switch {
		case s.Stage == stageCounter && s.Generation > 1:
			continue
		case s.Stage == stageCounter:
			lag = look.CounterLag
		}
		if int(s.Partition) < len(lag) {
			lag[s.Partition] -= s.Next
		}
	}
	return nil
}

// Close closes the connections.
func (l *lookout) Close() error {
	l.client.Close()
	l.db.Close()
	return nil
}
