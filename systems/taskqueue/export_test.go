package taskqueue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// Mutants are postgres_table and postgres_batch with a planted error each. In those that begin with
// "dying" a worker dies with every tenth claim in its hands, and in those that begin with "silent"
// none renews a lease.
func Mutants() map[string]sut.Variant {
	planted := func(batch int, plant func(*table) keeper, change ...func(*variant)) sut.Variant {
		v := inPostgres(variant{Name: "mutant"}, func(st *opened) keeper {
			return plant(&table{opened: st, batch: min(batch, st.Params.Batch), backoff: fullJitter})
		})
		for _, c := range change {
			c(&v)
		}
		return systemOf(v).Variants[0]
	}
	with := func(change func(*Params)) func(*table) keeper {
		return func(t *table) keeper {
			st := &opened{Config: t.Config, Params: t.Params, DB: t.DB}
			change(&st.Params)
			t.opened = st
			return t
		}
	}
	schemaOf := func(was, is string) func(*variant) {
		return func(v *variant) { v.State.Schema = strings.Replace(v.State.Schema, was, is, 1) }
	}
	same := func(t *table) keeper { return t }
	return map[string]sut.Variant{
		"table":  planted(1, same),
		"batch":  planted(1000, same),
		"dying":  planted(1, func(t *table) keeper { return &dying{keeper: t} }),
		"silent": planted(1, func(t *table) keeper { return silent{t} }),

		"M160": planted(1, func(t *table) keeper { return &dying{keeper: popping{t}} }),
		"M161": planted(1, func(t *table) keeper { return &dying{keeper: acking{t}} }),
		"M162": planted(1, func(t *table) keeper { return silent{t} }, func(v *variant) {
			v.State.Schema += `CREATE FUNCTION salted() RETURNS trigger LANGUAGE plpgsql AS
				'BEGIN NEW.salt := NEW.attempt; RETURN NEW; END';
				CREATE TRIGGER salted BEFORE INSERT ON effects FOR EACH ROW EXECUTE FUNCTION salted();`
		}),
		"M164": planted(1, func(t *table) keeper { return unfenced{silent{t}} }),
		"M169": planted(1, same, schemaOf(`state IN ('ready', 'waiting', 'running')`,
			`state IN ('ready', 'waiting')`)),
		"key kept": planted(1, same, schemaOf(`state IN ('ready', 'waiting', 'running')`,
			`state <> 'cancelled'`)),
		"no lock": planted(1, func(t *table) keeper { return ordered{t, "priority, id", ""} }),
		"M170":    planted(1, func(t *table) keeper { return ordered{t, "id", alone} }),
		"M171":    planted(1, func(t *table) keeper { return ordered{t, "priority DESC, id", alone} }),
		"M172":    planted(1000, func(t *table) keeper { return &sweeping{table: t} }),
		"M174":    planted(1, func(t *table) keeper { return agreeing{t} }),

		"attempt more": planted(1, with(func(p *Params) { p.MaxAttempts++ })),
		"no pause": planted(1, func(t *table) keeper {
			t.backoff = `0 * ($4::bigint + $5::bigint)`
			return t
		}),
		"no limit":    planted(1, with(func(p *Params) { p.TenantRate = 0 })),
		"early lease": planted(1, func(t *table) keeper { return hasty{silent{t}} }),
	}
}

// dying is a queue each tenth of whose claims goes to a worker that dies at once.
type dying struct {
	keeper
	claims atomic.Int64
}

func (d *dying) Take(ctx context.Context, last *turn) ([]claim, error) {
	list, err := d.keeper.Take(ctx, last)
	if err == nil && len(list) > 0 && d.claims.Add(1)%10 == 0 {
		return nil, nil
	}
	return list, err
}

// silent renews no lease.
type silent struct{ *table }

func (silent) Beat(_ context.Context, claims []claim) (int, error) { return len(claims), nil }

// unfenced ends a job whoever has it.
type unfenced struct{ silent }

func (u unfenced) Done(ctx context.Context, claims []claim) error {
	_, err := u.DB.Exec(ctx, `UPDATE jobs SET state = 'done', ended_by = $2,
		ended_at = clock_timestamp() WHERE id = $1 AND state = 'running'`, int64(claims[0].job.ID),
		claims[0].attempt)
	return stores.Failed("ending a job", err)
}

// ordered claims in some order of all jobs, which it locks, or does not.
type ordered struct {
	*table
	by, lock string
}

const alone = " FOR UPDATE SKIP LOCKED"

func (o ordered) Take(ctx context.Context, _ *turn) ([]claim, error) {
	return o.claims(ctx, `UPDATE jobs j SET state = 'running', attempts = old.attempts + 1,
			lease_until = clock_timestamp() + $1::bigint * interval '1 microsecond'
		FROM (SELECT id, attempts FROM jobs WHERE state = 'ready' ORDER BY `+o.by+` LIMIT 1`+o.lock+`) old
		WHERE j.id = old.id
		RETURNING payload, j.attempts, ns(statement_timestamp()), ns(clock_timestamp())`,
		o.Params.Lease.D().Microseconds())
}

// sweeping makes dead letters of all that were claimed with poison.
type sweeping struct {
	*table
	last atomic.Pointer[[]claim]
}

func (s *sweeping) Take(ctx context.Context, last *turn) ([]claim, error) {
	list, err := s.table.Take(ctx, last)
	if len(list) > 0 {
		s.last.Store(&list)
	}
	return list, err
}

func (s *sweeping) Fail(ctx context.Context, c claim, permanent bool) (*failure, error) {
	how, err := s.table.Fail(ctx, c, permanent)
	if list := s.last.Load(); permanent && list != nil {
		for _, other := range *list {
			if _, err := s.table.Fail(ctx, other, true); err != nil {
				return nil, err
			}
		}
	}
	return how, err
}

// agreeing says that it has cancelled what it has not.
type agreeing struct{ *table }

func (a agreeing) Cancel(ctx context.Context, job uint64) error {
	err := a.table.Cancel(ctx, job)
	if errors.Is(err, ErrTooLate) {
		return nil
	}
	return err
}

// hasty gives away what a worker has for half of its lease.
type hasty struct{ silent }

func (h hasty) Upkeep(ctx context.Context) (int, error) {
	n, err := h.table.Upkeep(ctx)
	if err == nil {
		_, err = h.DB.Exec(ctx, `UPDATE jobs SET state = 'ready' WHERE state = 'running'
			AND attempts < $2 AND lease_until - $1::bigint * interval '1 microsecond' < clock_timestamp()`,
			h.Params.Lease.D().Microseconds()/2, h.Params.MaxAttempts)
	}
	return n, stores.Failed("taking jobs back", err)
}

// Hand works for a queue whose handlers do nothing.
type Hand struct {
	keeper keeper
	turn   turn
}

// HandOf is a worker of an instance.
func HandOf(inst sut.Instance, name string) *Hand {
	jobs, _ := design.Opened[Jobs](inst)
	return &Hand{jobs.(desk).keeper, turn{worker: name}}
}

// Turn claims jobs and ends them, if it is to, and returns how many.
func (h *Hand) Turn(ctx context.Context, end bool) (int, error) {
	list, err := h.keeper.Take(ctx, &h.turn)
	if err == nil && end && len(list) > 0 {
		err = h.keeper.Done(ctx, list)
	}
	return len(list), err
}
