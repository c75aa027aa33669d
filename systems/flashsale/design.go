package flashsale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// design is a variant as its file states it: what to say of it, how it keeps
// stock, and its Shop.
type design struct {
	name, idea, guarantees, givesUp string

	breaks []sut.Break
	// places are the fail points that a purchase passes.
	places []string
	// notApplicable adds to what follows from stock and counter.
	notApplicable map[string]string

	// stock is how Postgres keeps stock.
	stock stock
	// counter is what the design keeps in Redis, nil if it needs no Redis.
	counter *counterKind
	// queued: purchases stand in a line in Kafka, which the role cashier serves.
	queued bool
	// settings are what its connections set in Postgres.
	settings map[string]string
	// open makes the shop. If it is an io.Closer, it is closed first.
	open func(context.Context, *backend) (Shop, error)
}

// backend is what a shop is built on.
type backend struct {
	cfg    sut.Config
	params Params
	books  *books
	// redis is nil if the design needs none.
	redis *counters
}

// variant is the design as the harness sees it.
func (d design) variant() sut.Variant {
	v := sut.Variant{
		Name: d.name, Idea: d.idea, Guarantees: d.guarantees, GivesUp: d.givesUp,
		Needs: []sut.Service{sut.Postgres}, Breaks: d.breaks,
		NotApplicable: d.reasons(),
		Places:        d.places,
		Roles:         []sut.Role{d.reclaimer()},
		Open: func(ctx context.Context, cfg sut.Config) (sut.Instance, error) {
			return d.instance(ctx, cfg)
		},
	}
	if _, exempt := v.NotApplicable[RedisDrift]; !exempt {
		v.Gauge = d.gauge
	}
	if d.counter != nil {
		v.Needs = append(v.Needs, sut.Redis)
		if d.counter.reconciled {
			v.Roles = append(v.Roles, d.reconciler())
		}
	}
	if d.queued {
		v.Needs = append(v.Needs, sut.Kafka)
		v.Roles = append(v.Roles, d.cashier())
	}
	return v
}

// reasons says which invariants cannot be judged of the design, and why.
func (d design) reasons() map[string]string {
	why := map[string]string{}
	if !d.stock.keepsUnits {
		why[UnitExclusive] = "keeps a count, not a row for each unit"
	}
	if d.counter == nil || !d.counter.counts {
		why[RedisDrift] = "keeps no stock in Redis"
	}
	for invariant, reason := range d.notApplicable {
		why[invariant] = reason
	}
	return why
}

// backend opens the design's connections. They are closed by closeBackend.
func (d design) backend(ctx context.Context, cfg sut.Config) (*backend, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	params, err := sut.ParamsOf[Params](cfg.Params)
	if err != nil {
		return nil, err
	}
	if err := params.Validate(); err != nil {
		return nil, fmt.Errorf("flashsale parameters: %w", err)
	}
	db, err := stores.OpenPostgres(ctx, cfg, "flashsale", d.settings)
	if err != nil {
		return nil, err
	}
	b := &backend{cfg: cfg, params: params, books: newBooks(db, d.stock)}
	if d.counter == nil {
		return b, nil
	}
	if b.redis, err = openCounters(ctx, cfg, params, *d.counter); err != nil {
		db.Close()
		return nil, err
	}
	return b, nil
}

func (b *backend) close() error {
	b.books.db.Close()
	if b.redis == nil {
		return nil
	}
	return b.redis.close()
}

func (d design) instance(ctx context.Context, cfg sut.Config) (*instance, error) {
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening flashsale %s: %w", d.name, err)
	}
	shop, err := d.open(ctx, b)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening flashsale %s: %w", d.name, err), b.close())
	}
	return &instance{Shop: shop, backend: b, api: API(), design: d}, nil
}

// instance is an opened design. It is a Shop too.
type instance struct {
	Shop
	*backend
	api    *api.Table[Shop]
	design design
	closed onceError
}

// Prepare makes the schema, the items and the counters. Where any of them
// exists already it fails and changes nothing.
func (i *instance) Prepare(ctx context.Context) error {
	if i.redis != nil {
		if err := i.redis.empty(ctx, itemKeys(i.params)); err != nil {
			return err
		}
	}
	if err := i.books.prepare(ctx, i.params); err != nil {
		return err
	}
	if line, ok := i.Shop.(*lineShop); ok {
		return line.prepare(ctx)
	}
	if i.redis == nil {
		return nil
	}
	return i.redis.prepare(ctx, itemKeys(i.params))
}

// Do performs one operation.
func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	return i.api.Do(ctx, i.Shop, op)
}

// Audit reads an Audit from the ledger in one snapshot, then from Redis.
func (i *instance) Audit(ctx context.Context) (json.RawMessage, error) {
	a, err := i.books.audit(ctx)
	if err != nil {
		return nil, err
	}
	if i.redis != nil && i.redis.kind.counts {
		if a.Redis, err = i.redis.audit(ctx, itemKeys(i.params)); err != nil {
			return nil, err
		}
	}
	a.CartTTLNS = i.params.CartTTL.D().Nanoseconds()
	a.ReclaimSlackNS = i.design.reclaimSlack(i.params, i.cfg).Nanoseconds()
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit: %w", err)
	}
	return raw, nil
}

// Quiesced says what the roles have still to do: purchases that stand in a line,
// carts that must be paid or reclaimed, counters that must be brought in line
// with the ledger.
func (i *instance) Quiesced(ctx context.Context) (pending string, err error) {
	if line, ok := i.Shop.(*lineShop); ok {
		if pending, err := line.pending(ctx); pending != "" || err != nil {
			return pending, err
		}
	}
	held, err := i.books.held(ctx)
	if err != nil {
		return "", err
	}
	if held > 0 {
		return fmt.Sprintf("%d carts are neither paid nor reclaimed (cart_ttl is %s)",
			held, i.params.CartTTL), nil
	}
	if i.redis == nil || !i.redis.kind.reconciled {
		return "", nil
	}
	return i.unreconciled(ctx)
}

// Backlog counts purchases in the line, held carts, and how far Redis is from the orders.
func (i *instance) Backlog(ctx context.Context) (left int64, err error) {
	if line, ok := i.Shop.(*lineShop); ok {
		if left, err = line.undecided(ctx); err != nil {
			return 0, err
		}
	}
	held, err := i.books.held(ctx)
	if err != nil {
		return 0, err
	}
	left += held
	if i.redis == nil || !i.redis.kind.reconciled {
		return left, nil
	}
	balances, err := i.balances(ctx)
	for _, l := range balances {
		left += l.left()
	}
	return left, err
}

// Empty says which orders, payments or changes there are before the sale, and
// which counters in Redis are not full.
func (i *instance) Empty(ctx context.Context) (string, error) {
	var orders, payments, changes int64
	err := i.books.db.Row(ctx, `SELECT (SELECT count(*) FROM orders),
		(SELECT count(*) FROM payments), (SELECT count(*) FROM order_log)`, nil,
		&orders, &payments, &changes)
	if err != nil {
		return "", stores.Failed("checking that the ledger is empty", err)
	}
	if orders+payments+changes > 0 {
		return fmt.Sprintf("%d orders, %d payments and %d changes", orders, payments, changes), nil
	}
	if line, ok := i.Shop.(*lineShop); ok {
		return line.pending(ctx)
	}
	if i.redis == nil || !i.redis.kind.counts {
		return "", nil
	}
	counters, err := i.redis.audit(ctx, itemKeys(i.params))
	if err != nil {
		return "", err
	}
	for _, c := range counters {
		if !c.Present || c.Stock != i.redis.units || c.Holds != 0 {
			return fmt.Sprintf("a counter of %s at %d of %d with %d reserved",
				c.Item, c.Stock, i.redis.units, c.Holds), nil
		}
	}
	return "", nil
}

// Close closes the shop and its connections. Further calls return what the
// first one did.
func (i *instance) Close() error {
	return i.closed.do(func() error {
		var err error
		if c, ok := i.Shop.(io.Closer); ok {
			err = c.Close()
		}
		return errors.Join(err, i.backend.close())
	})
}

// ledgerShop is a Shop but for its Buy: payments and snapshots work alike in
// all designs that keep their stock in Postgres.
type ledgerShop struct{ books *books }

// PaymentResult applies a webhook's delivery in one transaction.
func (s ledgerShop) PaymentResult(ctx context.Context, p Payment) (PaymentState, error) {
	state, _, err := s.books.payment(ctx, p)
	return state, err
}

// Stock reads a snapshot.
func (s ledgerShop) Stock(ctx context.Context, item string) (Stock, error) {
	return s.books.snapshot(ctx, item)
}
