package flashsale_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/api/apitest"
	"stampede/harness/check"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/flashsale"
)

// foreignSuite is a sale that is over before the first unit comes back.
func foreignSuite() suttest.Suite {
	s := suite()
	p := crowd()
	p.CartTTL = sut.Duration(time.Second)
	p.PayDelay = sut.Duration(500 * time.Millisecond)
	s.Params, s.Ops, s.Undecided = p, 600, nil
	return s
}

// TestOtherWords: a server is judged by its codes, whatever its texts are.
func TestOtherWords(t *testing.T) {
	for _, name := range []string{"units_skip_locked", "redis_reservation"} {
		t.Run(name, func(t *testing.T) {
			suttest.Understood(t, foreignSuite(), name, apitest.Reworded)
		})
	}
}

// TestFalseSoldOutIsCaught: one that tells every 40th buyer so while units are free.
func TestFalseSoldOutIsCaught(t *testing.T) {
	s := foreignSuite()
	p := crowd()
	p.Units = 2000
	s.Params = p
	var buys atomic.Int64
	verdicts := suttest.Foreign(t, s, "units_skip_locked", func(next http.Handler) http.Handler {
		return apitest.Reworded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/buy" && buys.Add(1)%40 == 0 {
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write(apitest.Problem("sold_out", "sorry"))
				return
			}
			next.ServeHTTP(w, r)
		}))
	})
	if v := verdicts[flashsale.NoFalseSoldOut]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}

// TestForgottenKeysAreCaught: to a server to which keys mean nothing, a repeated request is
// that of a buyer who has a unit already.
func TestForgottenKeysAreCaught(t *testing.T) {
	verdicts := suttest.Foreign(t, foreignSuite(), "units_skip_locked",
		func(next http.Handler) http.Handler { return apitest.Forgetful(next, nil, "op_id") })
	if v := verdicts[flashsale.IdempotentBuy]; v.Status != check.Broken || len(v.Witness) == 0 {
		t.Errorf("%s is %s with witnesses %v: %s", v.Invariant, v.Status, v.Witness, v.Reason)
	}
}
