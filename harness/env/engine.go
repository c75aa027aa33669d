package env

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// NodeVariable names a generator's machine where its host name is that of a container.
const NodeVariable = "STAMPEDE_NODE"

// Batch are generators that offer one load together: stampede itself, executed so many times with
// "generate".
type Batch struct {
	// RunID is the run that they belong to, Name tells the batch apart in it.
	RunID, Name string
	Count       int
	// Plan is the file that each of them reads. It holds secrets.
	Plan []byte
	// Within is how long they take at most, from being placed to having handed over what they
	// recorded. An engine that can do so ends them after that, also when the run is dead.
	Within time.Duration
	// Folder is one of the run, for what the engine and the generators have to say.
	Folder string
	// Ended is called with why a generator, by its index from 0, failed or cannot start. It may be
	// called from any goroutine, until Stop returns.
	Ended func(index int, why string)
}

// Object is a name for what an engine makes of the batch: at most 63 characters, of lower-case
// letters, digits and "-".
func (b Batch) Object() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.Name)) // it never fails
	return fmt.Sprintf("stampede-%s-%08x", b.RunID, h.Sum32())
}

// Engine places generators.
type Engine interface {
	// Name is what the user calls it, for example "swarm".
	Name() string
	// Available says why no generator can be placed here, or nil.
	Available(ctx context.Context) error
	// Start places the generators of a batch and does not wait for them. None of them is ever
	// started a second time. On error nothing is left.
	Start(ctx context.Context, b Batch) (Placed, error)
	// Show is what Start would make of a batch, for people, without its secrets.
	Show(b Batch) (string, error)
}

// undoBound is how long it may take to stop what was half started.
const undoBound = time.Minute

// Undo stops what was half started if err is an error, though ctx may be over, and adds what went
// wrong in that. It is to be deferred.
func Undo(ctx context.Context, err *error, stop func(context.Context) error) {
	if *err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	*err = errors.Join(*err, stop(ctx))
}

// Placed are generators that an engine has started.
type Placed interface {
	// Metered are those that run on this machine, as far as it matters who uses it.
	Metered() []Metered
	// State is what the engine knows of one of them, by its index, for people.
	State(ctx context.Context, index int) string
	// Stop ends those that still run, removes what was made, and returns when it is gone. It is
	// idempotent.
	Stop(ctx context.Context) error
}
