package adclicks

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// purse is what a process of the API may spend. It takes a budget slice by slice, and asks for
// another one when a slice is used up. A slice is given while a budget is not all given, so that
// what is spent is at most a slice more than the budget, however many processes spend it and
// however far the aggregators are behind. What a process has left when it dies is not spent.
type purse struct {
	*opened
	holder    string
	campaigns sync.Map // of pockets, by campaign
}

// pocket is what is left for a campaign.
type pocket struct {
	mu     sync.Mutex // held while a slice is asked for
	left   int64
	slices int64 // that it was given, as far as it knows
	unsure bool  // whether it was given one more
	spent  bool  // nothing is left of the budget, for good
}

func (u *purse) pocket(campaign string) *pocket {
	v, _ := u.campaigns.LoadOrStore(campaign, &pocket{})
	p, _ := v.(*pocket)
	return p
}

// take spends the price of a click.
func (u *purse) take(ctx context.Context, campaign string, cents int64) error {
	p := u.pocket(campaign)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left < cents {
		if p.spent {
			return ErrOverBudget
		}
		if err := u.slice(ctx, campaign, p); err != nil {
			if errors.Is(err, ErrUnknownCampaign) {
				u.campaigns.Delete(campaign) // nobody bounds the number of those that do not exist
			}
			return err
		}
	}
	p.left -= cents
	return nil
}

// give takes back what was not spent.
func (u *purse) give(campaign string, cents int64) {
	p := u.pocket(campaign)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += cents
}

// slice gets another slice. Whether it was given one whose answer was lost it asks first.
func (u *purse) slice(ctx context.Context, campaign string, p *pocket) error {
	have := p.slices
	var err error
	if p.unsure {
		err = u.DB.Row(ctx, `SELECT coalesce(max(slices), 0) FROM allotments
			WHERE campaign = $1 AND holder = $2`, []any{campaign, u.holder}, &have)
	}
	if err == nil && have == p.slices {
		p.unsure = true
		err = u.DB.Row(ctx, `WITH given AS (
				UPDATE budgets SET allotted = allotted + $3
				WHERE campaign = $1 AND allotted < budget RETURNING campaign)
			INSERT INTO allotments AS a SELECT campaign, $2, 1 FROM given
			ON CONFLICT (campaign, holder) DO UPDATE SET slices = a.slices + 1
			RETURNING slices`, []any{campaign, u.holder, u.Params.Slice}, &have)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return u.exhausted(ctx, campaign, p)
	}
	if err != nil {
		return notSent(stores.Failed("taking a slice of a budget", err))
	}
	p.left += (have - p.slices) * int64(u.Params.Slice)
	p.slices, p.unsure = have, false
	return nil
}

// exhausted says why there is no slice.
func (u *purse) exhausted(ctx context.Context, campaign string, p *pocket) error {
	var known bool
	err := u.DB.Row(ctx, `SELECT EXISTS (SELECT FROM budgets WHERE campaign = $1)`, []any{campaign},
		&known)
	switch {
	case err != nil:
		return notSent(stores.Failed("looking for a campaign", err))
	case !known:
		return ErrUnknownCampaign
	}
	p.spent, p.unsure = true, false
	return nil
}
