package idempotency

import (
	"context"

	"stampede/harness/sut"
)

// none has no middleware. It is wrong.
//
// The idea: every request charges. Clients should not send one twice.
//
// The guarantee: none, once a client does.
//
// It gives up: correctness. A client that does not know what became of its request, and asks
// again, is charged again.
func none() variant {
	return inPostgres(variant{
		Name:       "none",
		Idea:       "no keys: every request charges",
		Guarantees: "nothing, once a client sends a request again",
		GivesUp:    "correctness: who asks again is charged again",
		Breaks:     []sut.Break{{Invariant: ChargedOnce, Under: sut.Load}},
		NotApplicable: map[string]string{KeptForItsTime: "it keeps no keys",
			NothingStuck: "it keeps no keys"},
		Open: func(ctx context.Context, st *opened) (Till, error) { return bare(ctx, st) },
	})
}
