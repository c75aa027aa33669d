package reservation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// confirmBlind confirms what it saw, not what there is. It is wrong.
//
// The idea: read the hold, and if it is open take the payment and write the booking. The write
// looks neither at the version nor at the state.
//
// The guarantee: that of counter_per_night, as long as no server sleeps between the two.
//
// It gives up: correctness. A server that sleeps for longer than the hold lasts wakes up and
// books a place that somebody else has by then.
func confirmBlind() variant {
	return inPostgres(variant{
		Name:       "confirm_blind",
		Idea:       "counter_per_night, but a confirmation reads the hold and then writes the booking",
		Guarantees: "no night has more guests than places, if no server sleeps while it confirms",
		GivesUp:    "correctness: a server that slept for longer than the hold lasted books it",
		Breaks:     []sut.Break{{Invariant: ExpiredIsOver, Under: sut.RolePause}},
		State:      state{Schema: counterSchema, Seed: seedCounters},
		Open: func(_ context.Context, st *opened) (Desk, error) {
			return admit(st.Params, blind{&desk{st, counters{}}}), nil
		},
	}, counters{}, counterNights)
}

type blind struct{ *desk }

// Confirm reads, pays and writes.
func (b blind) Confirm(ctx context.Context, req HeldRequest) (Booked, error) {
	var open bool
	err := b.DB.Row(ctx, `SELECT state = 'held' AND version = $1 AND expires_at > clock_timestamp()
		FROM holds WHERE hold_id = $2 AND guest = $3 AND resource = $4`,
		[]any{req.Version, req.Hold, req.Guest, req.Resource}, &open)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Booked{}, ErrUnknownHold
	case err != nil:
		return Booked{}, stores.Failed("looking at a hold", err)
	case !open:
		return Booked{req.Version + 1}, b.otherwise(ctx, req, "confirm_op")
	}
	if err := pay(ctx, b.Params); err != nil {
		return Booked{}, err
	}
	_, err = b.DB.Exec(ctx, `UPDATE holds SET state = 'confirmed', version = $1, confirm_op = $2,
		confirmed_at = clock_timestamp() WHERE hold_id = $3 AND confirm_op = 0`, req.Version+1, req.ID, req.Hold)
	return Booked{req.Version + 1}, stores.Failed("confirming a hold", err)
}
