// Package interleave runs the statements of a few sessions on Postgres in every
// order in which a server could execute them, and says after which of them
// something is wrong: races are found without load and without luck.
//
// What runs is the code itself. A Tracer on its connections stops it before each
// statement; Explore lets one statement after the other go, and repeats everything
// from a fresh beginning with another order until there is none left. It is the
// search of a stateless model checker (Godefroid, Model Checking for Programming
// Languages using VeriSoft, POPL 1997) without reduction: a handful of statements
// in each of two or three sessions is what it can do.
package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Session is one line of work.
type Session struct {
	Name string
	// Do works to its end. It stops before each statement that it sends with its
	// ctx, or one made of that, over a connection that has the Tracer. It must send
	// the same statements whenever it reads the same.
	Do func(ctx context.Context) error
}

// World is a fresh beginning.
type World struct {
	Sessions []Session
	// Judge, called after all sessions, says what is wrong. The errors are what
	// they returned, one for each.
	Judge func(ctx context.Context, errs []error) error
}

// Violation is an order after which something was wrong.
type Violation struct {
	// Order are the statements, each after the name of its session.
	Order []string
	Err   error
}

// String shows the order, one statement a line.
func (v Violation) String() string {
	return fmt.Sprintf("%v\n  %s", v.Err, strings.Join(v.Order, "\n  "))
}

// Result is what became of all orders.
type Result struct {
	Orders     int
	Violations []Violation
}

const (
	// maxOrders bounds a search: three sessions of three statements have 1,680.
	maxOrders = 5000
	// patience is how long a statement may take that waits for no lock.
	patience = 20 * time.Second
	// lookEvery is how often a statement without an answer is looked at.
	lookEvery = time.Millisecond
	// shownSQL is how much of a statement an order shows, in bytes.
	shownSQL = 90
)

// Explore runs the sessions of a World that fresh makes, in every order of their
// statements. A statement that waits for another session's lock goes on when it gets
// it. The connection watch sees who waits; nobody else may use it. An error says
// that not all orders were run.
func Explore(
	ctx context.Context, watch *pgx.Conn, fresh func(context.Context) (World, error),
) (Result, error) {
	var result Result
	for choices := []choice(nil); ; {
		if result.Orders == maxOrders {
			return result, fmt.Errorf("there are more than %d orders", maxOrders)
		}
		world, err := fresh(ctx)
		if err != nil {
			return result, fmt.Errorf("a fresh beginning: %w", err)
		}
		r := newRound(world, watch, choices)
		errs, err := r.run(ctx)
		if err != nil {
			return result, fmt.Errorf("in the order\n  %s\n%w", strings.Join(r.order, "\n  "), err)
		}
		result.Orders++
		if err := world.Judge(ctx, errs); err != nil {
			result.Violations = append(result.Violations, Violation{r.order, err})
		}
		if choices = next(r.made); choices == nil {
			return result, nil
		}
	}
}

// choice is a moment at which some sessions could go on, and the one that did.
type choice struct {
	of   []int
	took int // index into of
}

// next is the beginning of the next order to be tried, nil if all were.
func next(made []choice) []choice {
	for i := len(made) - 1; i >= 0; i-- {
		if c := made[i]; c.took+1 < len(c.of) {
			return append(slices.Clone(made[:i]), choice{c.of, c.took + 1})
		}
	}
	return nil
}

// errDiverged is why a search cannot go on.
var errDiverged = errors.New("the sessions took other steps when they were repeated: they may " +
	"depend only on the values that they read")
