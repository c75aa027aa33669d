package writeheavy

import (
	"context"
	"errors"
	"fmt"

	"stampede/harness/sut"
	"stampede/systems/internal/shed"
)

// classes are those of adds as an admission counts them, the most important first.
var classes = map[string]int{ClassHigh: 0, ClassNormal: 1, ClassLow: 2}

// shedding is row_at_a_time behind an admission: an add is refused before any work, and its client
// is told so. Reads are let through.
func shedding(v variant, admission func(Params) shed.Admission) variant {
	v.Guarantees = "that of row_at_a_time; who is shed is told, and nothing was done"
	v.Open = func(_ context.Context, st *opened) (Counters, error) {
		gate, r := admission(st.Params), rows{st}
		return service{now{st}, func(ctx context.Context, req AddRequest) error {
			err := shed.Do(ctx, gate, classes[req.Class], func(ctx context.Context) error {
				return r.add(ctx, req)
			})
			if errors.Is(err, sut.ErrRefused) && !errors.Is(err, ErrRejected) {
				err = fmt.Errorf("%w: %w", ErrShed, err)
			}
			return err
		}, MostRecords}, nil
	}
	return v
}
