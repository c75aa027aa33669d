package reservation

import (
	"context"
	"fmt"

	"stampede/harness/sut"
)

// waitingRoom lets some guests to the desk at once, and some more wait, in the order in which
// they came. It is of one server.
type waitingRoom struct {
	Desk
	inside, all chan struct{}
}

// admit puts a waiting room before a desk, if the parameters ask for one.
func admit(p Params, d Desk) Desk {
	if p.Admit == 0 {
		return d
	}
	return &waitingRoom{d, make(chan struct{}, p.Admit), make(chan struct{}, p.Admit+p.Waiting)}
}

// Hold waits for its turn.
func (w *waitingRoom) Hold(ctx context.Context, req HoldRequest) (Held, error) {
	select {
	case w.all <- struct{}{}:
		defer func() { <-w.all }()
	default:
		return Held{}, ErrHouseFull
	}
	select {
	case w.inside <- struct{}{}:
		defer func() { <-w.inside }()
	case <-ctx.Done():
		return Held{}, fmt.Errorf("in the waiting room: %w: %w", sut.ErrRefused, ctx.Err())
	}
	return w.Desk.Hold(ctx, req)
}
