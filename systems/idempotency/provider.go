package idempotency

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// provider charges customers. It stands for somebody else's service: its log has every charge,
// on connections and in tables of its own, so that neither a crash of the shop nor a rollback
// undoes one. It does not know what a repeated request is: each request charges.
//
// It can be asked by a reference, which is the shop's. A request has a fence, and once the
// provider has seen one for a reference it charges nothing there under a lower one. So a shop
// that asks, and hears that nothing was charged, knows that nothing will be: an older request
// that is still on its way is turned away. Without a fence a request is 0.
type provider struct {
	db     *stores.Postgres
	params Params
	busy   sync.WaitGroup
}

// payment is a charge at the provider.
type payment struct {
	Reference string `json:"-"`
	Fence     int64  `json:"-"`
	ID        uint64 `json:"-"`
	Key       string `json:"-"`
	Customer  string `json:"customer"`
	Amount    int64  `json:"amount"`
	Receipt   string `json:"receipt"`
}

var (
	// errStale: the reference is another claim's by now.
	errStale = errors.New("the provider has seen a newer fence")
	// errSilent: the provider does not answer in time.
	errSilent = errors.New("the provider does not answer")
)

// openProvider makes the provider that a shop's process asks.
func openProvider(ctx context.Context, st *opened) (*provider, error) {
	cfg := st.Config
	cfg.MaxConns = max(2, stores.MaxConns(cfg)/2)
	db, err := stores.OpenPostgres(ctx, cfg, "provider", nil)
	return &provider{db: db, params: st.Params}, err
}

// Close waits for requests that the provider is still working on.
func (p *provider) Close() error {
	p.busy.Wait()
	p.db.Close()
	return nil
}

// Charge charges. The provider works on, whether the shop waits or not.
func (p *provider) Charge(ctx context.Context, pay payment) error {
	answer := make(chan error, 1)
	p.busy.Go(func() { answer <- p.serve(context.WithoutCancel(ctx), pay) })
	patience := time.NewTimer(p.params.ProviderTimeout.D())
	defer patience.Stop()
	select {
	case err := <-answer:
		if err == nil && chance(pay.Receipt, "lost") < p.params.LostAnswers {
			return errSilent
		}
		return err
	case <-patience.C:
		return errSilent
	case <-ctx.Done():
		return fmt.Errorf("charging: %w", ctx.Err())
	}
}

// chance is a number in [0, 1) that depends on a receipt alone.
func chance(receipt, of string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(of + receipt)) // it never fails
	return float64(h.Sum32()%10_000) / 10_000
}

func (p *provider) serve(ctx context.Context, pay payment) error {
	takes := p.params.ProviderTime.D()
	if chance(pay.Receipt, "slow") < p.params.SlowShare {
		takes = p.params.SlowTime.D()
	}
	if takes > 0 {
		sut.Pause(ctx, takes)
	}
	err := p.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := see(ctx, tx, pay.Reference, pay.Fence); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO provider_charges
			(reference, op_id, key, customer, amount, receipt) VALUES ($1, $2, $3, $4, $5, $6)`,
			pay.Reference, pay.ID, pay.Key, pay.Customer, pay.Amount, pay.Receipt)
		return err
	})
	return unsure("charging", err)
}

// see notes the fence of a reference, unless a higher one was seen. It locks the reference.
func see(ctx context.Context, tx pgx.Tx, reference string, fence int64) error {
	tag, err := tx.Exec(ctx, `INSERT INTO provider_fences AS f VALUES ($1, $2)
		ON CONFLICT (reference) DO UPDATE SET fence = excluded.fence WHERE f.fence <= excluded.fence`,
		reference, fence)
	if err == nil && tag.RowsAffected() == 0 {
		err = errStale
	}
	return err
}

// Ask returns what was charged last by a reference, if anything was. From then on nothing is
// charged there under a lower fence.
func (p *provider) Ask(
	ctx context.Context, reference string, fence int64,
) (pay payment, found bool, err error) {
	err = p.db.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := see(ctx, tx, reference, fence); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT customer, amount, receipt FROM provider_charges
			WHERE reference = $1 ORDER BY seq DESC LIMIT 1`, reference).
			Scan(&pay.Customer, &pay.Amount, &pay.Receipt)
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	})
	return pay, found && err == nil, unsure("asking the provider", err)
}

// unsure wraps an error after which nobody knows what was done.
func unsure(doing string, err error) error {
	if err == nil {
		return nil
	}
	return stores.Unknown(doing, err)
}
