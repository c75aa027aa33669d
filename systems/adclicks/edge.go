package adclicks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

// edge is the API of a design: it writes clicks into the log, and reads what became of them.
//
// Most repeated clicks go no further. A Bloom filter knows most clicks to be new without asking
// anybody; of those that it takes for known the decisions say whether they are, and where. A
// click that is in the log and not decided, or that another process has, gets through; the
// aggregator decides exactly.
type edge struct {
	*opened
	purse *purse
	// known says that a click is in the log, and where if it can tell.
	known func(ctx context.Context, click string) (position string, is bool, err error)

	mu     sync.Mutex
	filter *bloom.BloomFilter // nil when the edge is closed
}

// errClosed: the process ends.
var errClosed = errors.New("the API is closed")

func newEdge(st *opened) *edge {
	e := &edge{opened: st, purse: &purse{opened: st, holder: rand.Text()},
		filter: bloom.NewWithEstimates(uint(st.Params.BloomClicks), st.Params.BloomFalse)}
	e.known = e.decided
	return e
}

// Close ends the filter, which would answer without any store.
func (e *edge) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.filter = nil
	return nil
}

// maybe says that a click may have come before, and notes that it has come.
func (e *edge) maybe(click string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.filter == nil {
		return false, notSent(errClosed)
	}
	return e.filter.TestOrAddString(click), nil
}

// decided looks for a click among the decisions.
func (e *edge) decided(ctx context.Context, click string) (position string, is bool, err error) {
	err = e.DB.Row(ctx, `SELECT part || '/' || log_offset FROM decisions WHERE click = $1 LIMIT 1`,
		[]any{click}, &position)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return position, err == nil, stores.Failed("looking for a click", err)
}

// Click writes a click into the log.
func (e *edge) Click(ctx context.Context, req ClickRequest) (Clicked, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(e.Config))
	defer cancel()
	maybe, err := e.maybe(req.Click)
	if err != nil {
		return Clicked{}, err
	}
	if maybe {
		position, is, err := e.known(ctx, req.Click)
		if err != nil || is {
			return Clicked{position}, notSent(err)
		}
	}
	if err := e.purse.take(ctx, req.Campaign, req.Cents); err != nil {
		return Clicked{}, err
	}
	value, err := json.Marshal(event{ID: req.ID, Click: req.Click, Campaign: req.Campaign,
		Ad: req.Ad, User: req.User, IP: req.IP, AtMS: req.AtMS, Cents: req.Cents})
	if err != nil {
		return Clicked{}, fmt.Errorf("encoding a click: %w", err)
	}
	r := &kgo.Record{Topic: topics.Name(e.Config, topicClicks), Key: []byte(req.Campaign),
		Value: value}
	if err := partitions.Append(ctx, e.Config, e.Kafka, r, sut.ErrRefused); err != nil {
		if errors.Is(err, sut.ErrRefused) {
			e.purse.give(req.Campaign, req.Cents)
		}
		return Clicked{}, err
	}
	return Clicked{fmt.Sprintf("%d/%d", r.Partition, r.Offset)}, nil
}

// Dashboard adds up the windows of a campaign.
func (e *edge) Dashboard(ctx context.Context, req CampaignRequest) (Figures, error) {
	return e.figures(ctx, req.Campaign, `SELECT clicks, cents, on_time, sketch FROM windows
		WHERE campaign = $1`)
}

// figures adds up what a statement selects. They are as old as the campaign's own partition, which
// its windows tell; the primary key of those begins with the campaign.
func (e *edge) figures(ctx context.Context, campaign, windows string) (Figures, error) {
	f, all := Figures{Campaign: campaign}, newSketch()
	var known bool
	err := e.DB.Row(ctx, `SELECT EXISTS (SELECT FROM budgets WHERE campaign = $1),
			(SELECT greatest(0, max(max_ms) - $2) FROM progress
				WHERE part = (SELECT part FROM windows WHERE campaign = $1 LIMIT 1))`,
		[]any{campaign, e.Params.Lateness.D().Milliseconds()}, &known, &f.ThroughMS)
	if err == nil && !known {
		return f, ErrUnknownCampaign
	}
	if err != nil {
		return f, stores.Failed("reading the age of the figures", err)
	}
	list, err := stores.Collect[sums](ctx, e.DB, windows, campaign)
	for _, s := range list {
		f.Clicks, f.Cents = f.Clicks+s.Clicks, f.Cents+s.Cents
		users, wrong := sketchOf(s.Sketch)
		err = errors.Join(err, wrong, all.Merge(users))
	}
	f.Users = int64(all.Estimate())
	return f, stores.Failed("reading the figures of a campaign", err)
}

// Replay notes that a replay is to be made.
func (e *edge) Replay(ctx context.Context, req ReplayRequest) (none api.Nothing, err error) {
	_, err = e.DB.Exec(ctx, `INSERT INTO replays (op_id) VALUES ($1) ON CONFLICT DO NOTHING`, req.ID)
	return none, stores.Failed("asking for a replay", err)
}

// notSent marks an error before anything was written into the log.
func notSent(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("not sent: %w: %w", sut.ErrRefused, err)
}
