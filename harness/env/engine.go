package env

import "context"

// Batch are generators that offer one load together: stampede itself, executed so many times with
// "generate".
type Batch struct {
	// RunID is the run that they belong to, Name tells the batch apart in it.
	RunID, Name string
	Count       int
	// Plan is the file that each of them reads. It holds secrets.
	Plan []byte
	// Folder is one of the run, for what the engine and the generators have to say.
	Folder string
	// Ended is told why one of them, by its index from 0, has ended otherwise than in order, or
	// cannot start; -1 is all of them. It may be called from any goroutine, until Stop returns.
	Ended func(index int, why string)
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
