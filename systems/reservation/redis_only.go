package reservation

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/api"
	"stampede/harness/design"
	"stampede/harness/sim"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisOnly keeps everything in Redis. It is wrong.
//
// The idea: one script for each operation, which nothing can interrupt, over hashes of holds and
// of free places.
//
// The guarantee: no night has more guests than places, and a hold that expired is over, by one
// clock.
//
// It gives up: durability. Redis writes its log to the disk once a second, and who was told of a
// booking in that second loses it with the power.
func redisOnly() variant {
	return variant{
		Name:       "redis_only",
		Idea:       "holds, bookings and free places in Redis, one script for each operation",
		Guarantees: "no night has more guests than places, as long as Redis forgets nothing",
		GivesUp:    "durability: bookings of the last second are lost with the power",
		Needs:      []sut.Service{sut.Redis},
		Breaks:     []sut.Break{{Invariant: BookingsKept, Under: sut.PowerLoss}},
		Open: func(_ context.Context, st *opened) (Desk, error) {
			return admit(st.Params, &inRedis{st}), nil
		},
		Roles: []role{{Name: "expirer", Summary: expirerDoes,
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				_, err := (&inRedis{st}).run(ctx, "expire", expireBatch)
				return st.Params.ExpireEvery.D(), err
			}}},
		State: state{
			Ready: prepareRedis,
			Found: func(ctx context.Context, st *opened) (string, error) {
				n, err := st.Redis.HLen(ctx, st.Key("holds")).Result()
				if n == 0 || err != nil {
					return "", err
				}
				return fmt.Sprintf("%d holds", n), nil
			},
			Pending: func(ctx context.Context, st *opened) (int64, string, error) {
				n, err := st.Redis.ZCard(ctx, st.Key("due")).Result()
				return n, fmt.Sprintf("%d holds are open", n), err
			},
			Audit: auditRedis,
		},
		Model: modelInRedis,
	}
}

//go:embed redis_only.lua
var lua string

type inRedis struct{ *opened }

// run runs the script. It reads the clock itself.
func (r *inRedis) run(ctx context.Context, what string, args ...any) ([]any, error) {
	script := redis.NewScript(lua)
	keys := []string{r.Key("holds"), r.Key("due"), r.Key("changes"), r.Key("free")}
	return script.Run(ctx, r.Redis, keys, append([]any{what}, args...)...).Slice()
}

// answers are the errors that the script names.
func answers() map[string]error {
	return map[string]error{"ok": nil, "sold_out": ErrSoldOut, "expired": ErrExpired,
		"not_open": ErrNotOpen, "unknown_hold": ErrUnknownHold}
}

// errScript: the script answers something else.
var errScript = errors.New("an unexpected answer of the script")

func (r *inRedis) ask(ctx context.Context, doing, what string, args ...any) (int64, error) {
	reply, err := r.run(ctx, what, args...)
	if err != nil {
		return 0, stores.Failed(doing, err)
	}
	if len(reply) == 2 {
		word, _ := reply[0].(string)
		version, _ := reply[1].(int64)
		if err, known := answers()[word]; known {
			return version, err
		}
	}
	return 0, fmt.Errorf("%s: %w: %v", doing, errScript, reply)
}

// Hold takes a place of each night.
func (r *inRedis) Hold(ctx context.Context, req HoldRequest) (Held, error) {
	if !r.Params.has(req) {
		return Held{}, ErrUnknownStay
	}
	version, err := r.ask(ctx, "holding a place", held, req.ID, req.Resource, req.First, req.Nights,
		req.Guest, r.Params.HoldTTL.D().Microseconds())
	return Held{Version: version}, err
}

// Confirm takes the payment and then changes the hold.
func (r *inRedis) Confirm(ctx context.Context, req HeldRequest) (Booked, error) {
	if err := pay(ctx, r.Params); err != nil {
		return Booked{}, err
	}
	version, err := r.change(ctx, req, held, confirmed)
	return Booked{version}, err
}

// Release gives a hold back.
func (r *inRedis) Release(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	_, err = r.change(ctx, req, held, released)
	return none, err
}

// Cancel gives a booking back.
func (r *inRedis) Cancel(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	_, err = r.change(ctx, req, confirmed, cancelled)
	return none, err
}

func (r *inRedis) change(ctx context.Context, req HeldRequest, from, to string) (int64, error) {
	return r.ask(ctx, "changing a hold to "+to, to, req.ID, req.Hold, req.Guest, req.Resource,
		req.Version, from)
}

// errPrepared: there is something already.
var errPrepared = errors.New("redis has places already")

func prepareRedis(ctx context.Context, st *opened) error {
	n, err := st.Redis.Exists(ctx, st.Key("free")).Result()
	if err == nil && n > 0 {
		err = errPrepared
	}
	for r := 1; r <= st.Params.Resources && err == nil; r++ {
		nights := make([]any, 0, 2*st.Params.Nights)
		for n := 1; n <= st.Params.Nights; n++ {
			nights = append(nights, nightKey(r, n), st.Params.capacity())
		}
		err = st.Redis.HSet(ctx, st.Key("free"), nights...).Err()
	}
	return err
}

func nightKey(resource, night int) string {
	return strconv.Itoa(resource) + ":" + strconv.Itoa(night)
}

// redisModel is its model: each script is one command, which nothing interrupts.
type redisModel struct {
	*sim.Cluster
	p       Params
	holds   *sim.Map[uint64, HoldRow]
	changes *sim.Map[int64, Change]
	taken   *sim.Map[[2]int, int64] // by resource and night
	made    []uint64                // in their order, without some that are over for good
}

const (
	costHeld   = "held"
	costChange = "change"
	costOver   = "expire"
)

func modelInRedis(c *sim.Cluster, p Params, cfg sut.Config) design.Model[Desk] {
	r := &redisModel{Cluster: c, p: p, holds: sim.NewMap[uint64, HoldRow](c.Redis),
		changes: sim.NewMap[int64, Change](c.Redis), taken: sim.NewMap[[2]int, int64](c.Redis)}
	limit := roleLimit(cfg)
	c.Role("expirer", 1, sut.AfterError, sim.Only(func(own *sim.Process) {
		for {
			_ = own.Within(limit, func() { r.run(own, costOver, r.expire) }) // it tries again
			own.Do(c.Sim.Delay(p.ExpireEvery.D()))
		}
	}))
	return design.Model[Desk]{Open: admitModelled(c, p, r), Audit: r.audit, Pending: r.pending}
}

func (r *redisModel) run(p *sim.Process, script string, does func()) {
	p.Do(r.Redis.Client.Send(), r.Redis.Execute(does, script), r.Redis.Client.Receive())
}

// Hold takes a place of each night.
func (r *redisModel) Hold(ctx context.Context, req HoldRequest) (h Held, err error) {
	if !r.p.has(req) {
		return Held{}, ErrUnknownStay
	}
	r.run(sim.In(ctx), costHeld, func() {
		h.Version = 1
		if _, again := r.holds.Get(req.ID); again {
			return
		}
		for night := req.First; night < req.First+req.Nights; night++ {
			if n, _ := r.taken.Get([2]int{int(req.Resource), night}); n >= int64(r.p.capacity()) {
				h, err = Held{}, ErrSoldOut
				return
			}
		}
		row := HoldRow{Hold: req.ID, Resource: req.Resource, First: req.First, Nights: req.Nights,
			Guest: req.Guest, HeldNS: int64(r.Sim.Now())}
		r.made = append(r.made, req.ID)
		r.add(row, 1)
		r.change(row, held)
	})
	return h, err
}

// add changes what is taken of the nights of a hold.
func (r *redisModel) add(h HoldRow, n int64) {
	for night := h.First; night < h.First+h.Nights; night++ {
		key := [2]int{int(h.Resource), night}
		taken, _ := r.taken.Get(key)
		r.taken.Set(key, taken+n)
	}
}

// change gives a hold another state.
func (r *redisModel) change(h HoldRow, state string) {
	before := h.State
	h.State, h.Version = state, h.Version+1
	switch state {
	case held:
	case confirmed:
		h.ConfirmedNS = int64(r.Sim.Now())
	default:
		h.EndedNS = int64(r.Sim.Now())
		r.add(h, -1)
	}
	r.holds.Set(h.Hold, h)
	seq := int64(r.changes.Len()) + 1
	r.changes.Set(seq, Change{seq, h.Hold, before, state, h.Version, int64(r.Sim.Now())})
}

// Confirm takes the payment and then changes the hold.
func (r *redisModel) Confirm(ctx context.Context, req HeldRequest) (Booked, error) {
	p := sim.In(ctx)
	p.Do(sim.Harmless(r.Sim.Delay(r.p.Pay.D())))
	return Booked{req.Version + 1}, r.changed(p, req, held, confirmed)
}

// Release gives a hold back.
func (r *redisModel) Release(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	return none, r.changed(sim.In(ctx), req, held, released)
}

// Cancel gives a booking back.
func (r *redisModel) Cancel(ctx context.Context, req HeldRequest) (none api.Nothing, err error) {
	return none, r.changed(sim.In(ctx), req, confirmed, cancelled)
}

func (r *redisModel) changed(p *sim.Process, req HeldRequest, from, to string) (err error) {
	r.run(p, costChange, func() {
		h, is := r.holds.Get(req.Hold)
		by := &h.EndOp
		if to == confirmed {
			by = &h.ConfirmOp
		}
		over := h.State == held && to == confirmed && int64(r.Sim.Now()) >= h.HeldNS+int64(r.p.HoldTTL)
		switch {
		case !is || h.Guest != req.Guest || h.Resource != req.Resource:
			err = ErrUnknownHold
		case *by == req.ID:
		case h.State == expired || over:
			err = ErrExpired
		case h.State != from || h.Version != req.Version:
			err = ErrNotOpen
		default:
			*by = req.ID
			r.change(h, to)
		}
	})
	return err
}

// expire ends holds whose time is over. What is over for longer than a loss of power takes back is
// forgotten.
func (r *redisModel) expire() {
	now, done := int64(r.Sim.Now()), 0
	r.made = slices.DeleteFunc(r.made, func(id uint64) bool {
		h, is := r.holds.Get(id)
		if h.State == held && h.HeldNS+int64(r.p.HoldTTL) <= now && done < expireBatch {
			done++
			r.change(h, expired)
			return false
		}
		return !is || h.State != held && max(h.ConfirmedNS, h.EndedNS)+int64(r.Redis.Journal) < now
	})
}

func (r *redisModel) pending() (left int64, what string) {
	for _, id := range r.made {
		if h, _ := r.holds.Get(id); h.State == held {
			left++
		}
	}
	return left, fmt.Sprintf("%d holds are open", left)
}

func (r *redisModel) audit() any {
	a := emptyAudit(r.p)
	for seq := int64(1); seq <= int64(r.changes.Len()); seq++ {
		c, _ := r.changes.Get(seq)
		a.Changes = append(a.Changes, c)
		if h, is := r.holds.Get(c.Hold); is && c.State == held {
			a.Holds = append(a.Holds, h)
		}
	}
	a.Nights = eachNight(r.p, func(resource, night int) int64 {
		n, _ := r.taken.Get([2]int{resource, night})
		return n
	})
	return a
}

func auditRedis(ctx context.Context, st *opened) (any, error) {
	a := emptyAudit(st.Params)
	pipe := st.Redis.TxPipeline()
	holds, changes := pipe.HVals(ctx, st.Key("holds")), pipe.LRange(ctx, st.Key("changes"), 0, -1)
	places := pipe.HGetAll(ctx, st.Key("free"))
	if _, err := pipe.Exec(ctx); err != nil {
		return a, fmt.Errorf("reading everything: %w", err)
	}
	err := errors.Join(decode(holds.Val(), &a.Holds), decode(changes.Val(), &a.Changes))
	a.Nights = eachNight(st.Params, func(resource, night int) int64 {
		left, err2 := strconv.ParseInt(places.Val()[nightKey(resource, night)], 10, 64)
		err = errors.Join(err, err2)
		return int64(st.Params.capacity()) - left
	})
	return a, err
}

func decode[T any](texts []string, rows *[]T) error {
	for _, text := range texts {
		var row T
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			return fmt.Errorf("reading a row: %w", err)
		}
		*rows = append(*rows, row)
	}
	return nil
}
