package reservation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisGate turns guests away in Redis and lets them in through Postgres.
//
// The idea: a script takes one from the counters of all nights in Redis, or says that all is
// sold out, which most guests of a rush are told. Who gets past it goes through the gate of
// counter_per_night, which decides. A role sets the counters in Redis to what Postgres says,
// again and again; a hold that got no further leaves its places to it.
//
// The guarantee: that of counter_per_night, whatever Redis forgets or invents.
//
// It gives up: freshness. A place that is free again is for sale when the role has seen it.
func redisGate() variant {
	v := inPostgres(variant{
		Name:       "redis_gate",
		Idea:       "counters in Redis turn guests away, Postgres lets them in, a role repairs Redis",
		Guarantees: "no night has more guests than places, whatever Redis forgets or invents",
		GivesUp:    "freshness: a place that is free again is for sale when the role has seen it",
		Needs:      []sut.Service{sut.Redis},
		State: state{Schema: counterSchema, Seed: seedCounters, Ready: showAll,
			Pending: openOrStale},
		Roles: []role{viewer()},
		Open: func(_ context.Context, st *opened) (Desk, error) {
			return admit(st.Params, gated{&desk{st, counters{}}}), nil
		},
	}, counters{}, counterNights)
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		a, err := auditOf(ctx, st, counterNights)
		a.Contract.ViewLagNS = int64(viewLag)
		return a, err
	}
	return v
}

// viewLag is how late the counters in Redis may be.
const viewLag = 3 * time.Second

type gated struct{ *desk }

// takeInRedis takes one of each night or none, and says whether it did. A night that Redis does
// not know is for Postgres to decide.
const takeInRedis = `
	for i = 1, #ARGV do
		local free = tonumber(redis.call('HGET', KEYS[1], ARGV[i]))
		if free and free < 1 then return 0 end
	end
	for i = 1, #ARGV do
		if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('HINCRBY', KEYS[1], ARGV[i], -1) end
	end
	return 1`

// Hold asks Redis first.
func (g gated) Hold(ctx context.Context, req HoldRequest) (Held, error) {
	if !g.Params.has(req) {
		return Held{}, ErrUnknownStay
	}
	nights := make([]any, req.Nights)
	for i := range nights {
		nights[i] = req.First + i
	}
	keys := []string{freeKey(g.opened, req.Resource)}
	taken, err := redis.NewScript(takeInRedis).Run(ctx, g.Redis, keys, nights...).Bool()
	switch {
	case err != nil:
		return Held{}, stores.Failed("asking Redis for a place", err)
	case !taken:
		return g.before(ctx, req)
	}
	reply, err := g.desk.Hold(ctx, req)
	if errors.Is(err, sut.ErrRefused) {
		g.refresh(ctx, req.Resource)
	}
	return reply, err
}

// Release gives a hold back, and its places to Redis.
func (g gated) Release(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	none, err = g.desk.Release(ctx, req)
	g.refresh(ctx, req.Resource)
	return none, err
}

// Cancel gives a booking back, and its places to Redis.
func (g gated) Cancel(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	none, err = g.desk.Cancel(ctx, req)
	g.refresh(ctx, req.Resource)
	return none, err
}

// refresh shows what is free of one resource. Where it fails the viewer will.
func (g gated) refresh(ctx context.Context, resource uint64) {
	if err := showStock(ctx, g.opened, resource); err != nil {
		g.Config.Warn("showing what is free", err)
	}
}

func freeKey(st *opened, resource uint64) string {
	return st.Key("free:" + strconv.FormatUint(resource, 10))
}

// viewer keeps the counters in Redis as Postgres has them.
func viewer() role {
	return role{Name: "viewer", Summary: "sets the counters in Redis to what Postgres says",
		Single: true, Places: []string{"read"},
		Step: func(ctx context.Context, st *opened) (time.Duration, error) {
			return st.Params.ViewEvery.D(), showAll(ctx, st)
		}}
}

func showAll(ctx context.Context, st *opened) error { return showStock(ctx, st, 0) }

// showStock writes the counters of a resource that differ, of all for 0.
func showStock(ctx context.Context, st *opened, resource uint64) error {
	want, err := stockOf(ctx, st, resource)
	if err != nil {
		return err
	}
	st.Config.Passed("read")
	have, err := shown(ctx, st, want)
	if err != nil {
		return err
	}
	pipe := st.Redis.Pipeline()
	for resource, nights := range want {
		if !maps.Equal(nights, have[resource]) {
			pipe.HSet(ctx, freeKey(st, resource), nights)
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("writing to Redis what is free: %w", err)
	}
	return nil
}

// free is what is free by night, as Redis has it, of each resource.
type free map[uint64]map[string]string

func stockOf(ctx context.Context, st *opened, resource uint64) (free, error) {
	all := free{}
	err := st.DB.Rows(ctx, `SELECT resource, night::text, free::text FROM stock
		WHERE $1 IN (0, resource)`, []any{resource},
		func(row pgx.CollectableRow) error {
			var resource uint64
			var night, places string
			err := row.Scan(&resource, &night, &places)
			if all[resource] == nil {
				all[resource] = map[string]string{}
			}
			all[resource][night] = places
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("reading what is free: %w", err)
	}
	return all, nil
}

// shown is what Redis has of the resources of others.
func shown(ctx context.Context, st *opened, of free) (free, error) {
	pipe, asked := st.Redis.Pipeline(), map[uint64]*redis.MapStringStringCmd{}
	for resource := range of {
		asked[resource] = pipe.HGetAll(ctx, freeKey(st, resource))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading from Redis what is free: %w", err)
	}
	all := free{}
	for resource, a := range asked {
		all[resource] = a.Val()
	}
	return all, nil
}

// openOrStale counts open holds, and the resources of which Redis says something else than
// Postgres.
func openOrStale(ctx context.Context, st *opened) (left int64, what string, err error) {
	left, what, err = openHolds(ctx, st)
	if left > 0 || err != nil {
		return left, what, err
	}
	want, err := stockOf(ctx, st, 0)
	if err != nil {
		return 0, "", err
	}
	have, err := shown(ctx, st, want)
	if err != nil {
		return 0, "", err
	}
	for resource, nights := range want {
		if !maps.Equal(nights, have[resource]) {
			left++
		}
	}
	return left, fmt.Sprintf("of %d resources Redis says something else than Postgres", left), nil
}
