package taskqueue

// retryWithoutJitter waits as long as it may before another attempt. It is not wrong.
//
// The idea: postgres_batch, whose pause doubles with each attempt, exactly.
//
// The guarantee: that of postgres_batch.
//
// It gives up: the dependency. What failed together when it went down comes back together, again
// and again: backoff-kept shows how many of these calls the busiest moment had.
func retryWithoutJitter() variant {
	return inPostgres(variant{
		Name:       "retry_without_jitter",
		Idea:       "postgres_batch with a pause that doubles exactly",
		Guarantees: "that of postgres_batch",
		GivesUp:    "the dependency: what failed together comes back together",
	}, func(st *opened) keeper {
		return &table{opened: st, batch: st.Params.Batch, backoff: `0 * $4::bigint + $5::bigint`}
	})
}
