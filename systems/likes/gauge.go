package likes

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/harness/sut"
)

// Look is what a gauge saw of the way from the log to the ledger, and the body of
// its history.Sample. The parts cannot be read at one instant; they were read in the
// order of the fields, and none of them ever falls.
type Look struct {
	// Before and After are how many records the log had.
	Before int64 `json:"before"`
	// Committed and Applied are, by partition, the offset from which the ledger's
	// worker would go on, and the one after the last in the ledger.
	Committed []int64 `json:"committed"`
	Applied   []int64 `json:"applied"`
	After     int64   `json:"after"`
}

// Lag bounds how many records of the log were not in the ledger when that was
// read.
func (l Look) Lag() (low, high int64) {
	applied := int64(0)
	for _, n := range l.Applied {
		applied += n
	}
	return max(0, l.Before-applied), max(0, l.After-applied)
}

// gauge looks over connections of its own.
type gauge struct{ *backend }

func (d design) gauge(ctx context.Context, cfg sut.Config) (sut.Gauge, error) {
	cfg.MaxConns = 1
	b, err := d.backend(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the gauge of likes %s: %w", d.name, err)
	}
	return gauge{b}, nil
}

// Close closes the connections.
func (g gauge) Close() error { return g.close() }

// Sample reads the log's length, what is committed, what is applied, and the
// length again.
func (g gauge) Sample(ctx context.Context) (json.RawMessage, error) {
	before, err := g.log.ends(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := g.log.committed(ctx)
	if err != nil {
		return nil, err
	}
	applied, err := g.ledger.applied(ctx)
	if err != nil {
		return nil, err
	}
	after, err := g.log.ends(ctx)
	if err != nil {
		return nil, err
	}
	look := Look{Committed: make([]int64, len(before)), Applied: make([]int64, len(before))}
	for p := range int32(len(before)) {
		look.Before += before[p]
		look.After += after[p]
		look.Committed[p], look.Applied[p] = committed[p], applied[p]
	}
	return json.Marshal(look)
}
