package taskqueue

// postgresBatch claims several jobs with one statement.
//
// The idea: the table of postgres_table. A claim takes as many jobs of each tenant as of any
// other, one commit for all; the handler does them in one call, and one statement ends them. If
// the call fails each half is tried for itself, until what fails is alone.
//
// The guarantee: that of postgres_table. One job that no handler can do costs its batch a few
// more calls, and nobody else an attempt.
//
// It gives up: latency, because a job ends with its batch; and where one tenant alone has jobs, a
// claim takes only its share of a batch.
func postgresBatch() variant {
	return inPostgres(variant{
		Name:       "postgres_batch",
		Idea:       "postgres_table, but a claim, a call of the handler and an end are of a batch",
		Guarantees: "that of postgres_table; what fails is found by halves",
		GivesUp:    "latency: a job ends with its batch",
	}, func(st *opened) keeper {
		return &table{opened: st, batch: st.Params.Batch, backoff: fullJitter}
	})
}
