package writeheavy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/systems/internal/shed"
)

// classes are those of adds as an admission counts them, the most important first.
var classes = map[string]int{ClassHigh: 0, ClassNormal: 1, ClassLow: 2}

// The results of a decision.
const (
	DecisionTaken   = "taken"   // the add may begin, or wait
	DecisionRefused = "refused" // it is refused when it comes
	DecisionDropped = "dropped" // it was taken, and is refused while it waits
)

// shedding is row_at_a_time behind an admission: an add is refused before any work, and its client
// is told so. Reads are let through. Bursts are what the contract says of them.
func shedding(
	v variant, bursts func(Params) []int64, admission func(Params) *shed.Gate,
) variant {
	v.Guarantees = "that of row_at_a_time; who is shed is told, and nothing was done"
	v.Open = func(_ context.Context, st *opened) (Counters, error) {
		g, err := openGate(st, admission)
		return service{now{st}, g.admitted(rows{st}.add), MostRecords}, err
	}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) {
		g, err := openGate(st, admission)
		if err != nil {
			return nil, err
		}
		contract := Contract{Sheds: true, Bursts: bursts(st.Params)}
		return audited(contract, func(_ context.Context, _ *opened, _ pgx.Tx, a *Audit) error {
			a.Decisions = g.decided() // those of other processes are in their memory
			return nil
		})(ctx, st)
	}
	return v
}

// gate is the one admission of an instance, with the log of what it has decided.
type gate struct {
	*shed.Gate
	mu  sync.Mutex
	log []Decision
}

// asked is the key of an add in the context with which it asks for admission.
type asked struct{}

func openGate(st *opened, admission func(Params) *shed.Gate) (*gate, error) {
	return design.Keep(st, func() (*gate, error) {
		g := &gate{Gate: admission(st.Params)}
		g.Watch(g.note)
		return g, nil
	})
}

// note logs a decision.
func (g *gate) note(ctx context.Context, err error) {
	req, result := ctx.Value(asked{}).(*admitting), DecisionRefused
	switch {
	case err == nil:
		result, req.taken = DecisionTaken, true
	case req.taken:
		result = DecisionDropped
	case errors.Is(err, shed.ErrLeft):
		return // its client had left before it came
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, Decision{req.ID, req.Class, result})
}

// admitting is an add that asks for admission.
type admitting struct {
	AddRequest
	taken bool // under the gate's lock
}

// decided is the log so far.
func (g *gate) decided() []Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

// admitted is add behind the gate.
func (g *gate) admitted(
	add func(context.Context, AddRequest) error,
) func(context.Context, AddRequest) error {
	return func(ctx context.Context, req AddRequest) error {
		ctx = context.WithValue(ctx, asked{}, &admitting{AddRequest: req})
		began := false
		err := shed.Do(ctx, g, classes[req.Class], func(ctx context.Context) error {
			began = true
			return add(ctx, req)
		})
		if err != nil && !began && !errors.Is(err, shed.ErrLeft) {
			err = fmt.Errorf("%w: %w", ErrShed, err)
		}
		return err
	}
}

// none are the bursts of an admission that lets no less important add in while it refuses a more
// important one.
func none(Params) []int64 { return []int64{0, 0, 0} }

// alike is for an admission that ignores classes.
func alike(Params) []int64 { return nil }
