package containers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/moby/moby/client"
)

// stiff is a freezer that fails some times.
type stiff struct {
	err   error
	fails int
	tries int
}

func (s *stiff) ContainerPause(
	context.Context, string, client.ContainerPauseOptions,
) (r client.ContainerPauseResult, err error) {
	if s.tries++; s.tries <= s.fails {
		return r, s.err
	}
	return r, nil
}

// TestFreeze: what an engine could not freeze it is asked to freeze again, and nothing else is
// repeated.
func TestFreeze(t *testing.T) {
	race := errors.New("OCI runtime pause failed: unable to freeze: unknown")
	for name, c := range map[string]struct {
		stiff
		tries int
		fails bool
	}{
		"at once":          {stiff{}, 1, false},
		"at the third try": {stiff{err: race, fails: 2}, 3, false},
		"never":            {stiff{err: race, fails: 1000}, freezeTries, true},
		"of another cause": {stiff{err: errors.New("no such container"), fails: 1}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			engine := c.stiff
			err := freeze(t.Context(), &engine, "id")
			if (err != nil) != c.fails || engine.tries != c.tries {
				t.Errorf("%s: %d tries and %v, want %d and an error: %v", name, engine.tries, err, c.tries,
					c.fails)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		engine := stiff{err: race, fails: 1000}
		if err := freeze(ctx, &engine, "id"); !errors.Is(err, race) || engine.tries != 1 {
			t.Errorf("cancelled: %d tries and %v", engine.tries, err)
		}
	})
}
