package sqlbroker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// tokenHash is what is stored of a token. Tokens are long and random, as those are who
// make them: nothing slower is needed.
func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// permit says who may do what that does not show the server's token: see the README.
// Without a server's token the context carries the hash of the shown one, so that Create can
// compare it again.
func permit(rates *rates, served bool) api.Permit {
	otherwise := func() error {
		if served {
			return api.ErrUnauthorized
		}
		return nil
	}
	check := func(r *http.Request, shown string) error {
		queue := r.PathValue("queue")
		if queue == "" {
			return otherwise()
		}
		if err := checkText("queue", queue); err != nil {
			return fmt.Errorf("%w: %w", api.ErrBadRequest, err)
		}
		want, err := rates.tokenOf(r.Context(), queue)
		switch {
		case errors.Is(err, ErrUnknownQueue):
			return otherwise()
		case err != nil:
			return fmt.Errorf("nothing was done: %w: %w", sut.ErrRefused, err)
		case want == nil:
			return otherwise()
		case shown == "":
			return api.ErrUnauthorized
		case subtle.ConstantTimeCompare(tokenHash(shown), want) != 1:
			return ErrForbidden
		case served && administers(r.Pattern):
			return ErrForbidden
		}
		return nil
	}
	return func(r *http.Request, shown string) (context.Context, error) {
		err := check(r, shown)
		if served {
			return r.Context(), err
		}
		return permittedBy(r.Context(), shown), err
	}
}

// administers says whether a route is one of operators.
func administers(route string) bool {
	return route == routeQueue || route == routePurge || route == routeRedrive
}
