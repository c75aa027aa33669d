// Package sweep removes what runs that are dead have left on this machine.
package sweep

import (
	"context"
	"errors"
	"fmt"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/processes"
)

// All removes the containers, volumes, processes and data folders of runs
// whose process is dead, and names each of them. What belongs to a living run
// is left alone. One backend's failure does not keep the others from it. A dry
// sweep names them and removes nothing.
func All(ctx context.Context, dry bool) (removed []string, err error) {
	var errs []error
	for _, s := range []env.Sweeper{processes.New(), containers.New()} {
		gone, err := s.Sweep(ctx, dry)
		removed = append(removed, gone...)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", s.Name(), err))
		}
	}
	return removed, errors.Join(errs...)
}
