package commentary

import (
	"fmt"

	"stampede/harness/edge"
)

// edgeSWR never lets viewers wait for the origin twice.
//
// The idea: as edge, but those who miss the same answer at the same moment wait for one request to
// the origin (coalescing), and an answer that has just become too old is still given while one
// request in the background fetches the next (stale-while-revalidate, RFC 5861). Both times
// together are as long as edge's one.
//
// The guarantee: that of edge.
//
// It gives up: that a change is seen at once. Who looks at a match that nobody has looked at for a
// second is shown what was true before.
func edgeSWR() variant {
	return edged(variant{Name: "edge_swr",
		Idea: "as edge, with one request to the API for all who miss the same answer, in the " +
			"background if there is an answer that is not much too old",
		Guarantees: "what is acknowledged is kept, and seen when the edge's answer is too old at the " +
			"latest",
		GivesUp: "that a change is seen at once; who looks after a pause is shown what was true before",
	}, edge.Config{Coalesce: true, StaleWhileRevalidate: true}, func(p Params) string {
		return fmt.Sprintf("public, max-age=1, stale-while-revalidate=%d", int(p.MaxAge.D().Seconds())-1)
	})
}
