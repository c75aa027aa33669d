package idempotency

import (
	"context"
	"net/http"

	"stampede/harness/sut"
	"stampede/systems/internal/idem"
)

// doneBeforeEffect keeps the answer before it charges. It is wrong.
//
// The idea: claim the key and keep the answer at once, so that no second request can get through,
// and then charge. Nobody has to ask the provider.
//
// The guarantee: no key is charged twice, as long as no server crashes.
//
// It gives up: correctness. What another request is told may not have been charged yet, and a
// server that dies before it has charged leaves an answer that says it has, and the client that
// comes back gets it.
func doneBeforeEffect() variant {
	return inPostgres(variant{
		Name:       "done_before_effect",
		Idea:       "the key is marked done, with its answer, and then the provider charges",
		Guarantees: "one charge for each key, as long as no server crashes and the provider answers",
		GivesUp:    "correctness: clients are told of a charge that was not made yet, or never",
		Breaks: []sut.Break{{Invariant: ChargesKept, Under: sut.RoleCrash},
			{Invariant: KeptForItsTime, Under: sut.Load}},
		Roles: []role{reaper()},
		Open: func(ctx context.Context, st *opened) (Till, error) {
			t, err := bare(ctx, st)
			if err == nil {
				t.handler = &idem.Middleware{Store: early{rows{st}}, Next: http.HandlerFunc(t.tooEarly)}
			}
			return t, err
		},
	})
}

// tooEarly answers, keeps that and charges.
func (t *till) tooEarly(w http.ResponseWriter, r *http.Request) {
	pay, err := paymentOf(r)
	var answer idem.Recorder
	reply(&answer, pay, err)
	if err == nil {
		err = idem.ExecutionOf(r.Context()).Claim.(earlyClaim).rowClaim.Finish(r.Context(),
			answer.Response())
	}
	if err == nil {
		t.Config.Passed(placeBegun)
		err = t.provider.Charge(r.Context(), pay)
		t.Config.Passed(placeCharged)
	}
	reply(w, pay, err)
}

type early struct{ rows }

// Begin claims a key as it does elsewhere.
func (s early) Begin(ctx context.Context, req idem.Request) (idem.Claim, *idem.Response, error) {
	claim, kept, err := s.rows.Begin(ctx, req)
	if claim == nil {
		return nil, kept, err
	}
	return earlyClaim{claim.(*rowClaim)}, nil, err
}

// earlyClaim has ended before the middleware ends it.
type earlyClaim struct{ *rowClaim }

func (earlyClaim) Finish(context.Context, idem.Response) error { return nil }
