package autocomplete

import (
	"context"
	"fmt"

	"stampede/harness/stores"
	"stampede/systems/internal/known"
)

// blocks knows what is blocked.
type blocks interface {
	// blocked is what no suggestion that begins now may show.
	blocked(ctx context.Context) (map[string]bool, error)
	// block returns once that includes another phrase, for everybody.
	block(ctx context.Context, req BlockRequest) error
}

// placeBlocked is when a phrase is blocked, and not all APIs know.
const placeBlocked = "blocked"

// keepBlock notes a block.
func keepBlock(ctx context.Context, st *opened, req BlockRequest) (seq int64, err error) {
	if seq, err = known.Add(ctx, st.DB, req.ID, req.Phrase); err == nil {
		st.Config.Passed(placeBlocked)
	}
	return seq, err
}

// leased knows what is blocked by a lease; see known.Lease.
type leased struct {
	*opened
	lease *known.Lease
}

// renewals is how often a lease is renewed while it lasts.
const renewals = 10

// byLease begins to keep a lease. It says what is blocked before anybody relies on that.
func byLease(st *opened, removed func([]string)) (b blocks, stop func()) {
	l := leased{st, known.NewLease(st.DB, st.Params.BlockLease.D(), removed)}
	end := beside(st, "a lease is not renewed", st.Params.BlockLease/renewals, l.lease.Renew)
	return l, func() {
		end()
		ctx, cancel := context.WithTimeout(context.Background(), stores.Timeout(st.Config))
		defer cancel()
		if err := l.lease.Release(ctx); err != nil {
			st.Config.Warn("blocks wait until a lease is over", err)
		}
	}
}

// blocked waits for a lease, half the time of an operation at most.
func (l leased) blocked(ctx context.Context) (map[string]bool, error) {
	all, err := l.lease.Set(ctx, stores.Timeout(l.Config)/2)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return all, nil
}

func (l leased) block(ctx context.Context, req BlockRequest) error {
	seq, err := keepBlock(ctx, l.opened, req)
	if err != nil {
		return err
	}
	return known.Wait(ctx, l.DB, seq)
}
