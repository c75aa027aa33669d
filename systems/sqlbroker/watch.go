package sqlbroker

import (
	"encoding/json"

	"stampede/harness/check"
)

// watchPending follows, through the samples of the gauge, the dead versions of rows
// that claims have to step over.
func (j *judging) watchPending() {
	w := &check.Watched{Quantity: "dead versions of rows", Unit: "rows"}
	for _, s := range j.Samples() {
		var look Look
		if !s.Seen() || json.Unmarshal(s.Body, &look) != nil {
			w.Gaps++
			continue
		}
		w.Look(s.From, look.DeadRows, look.DeadRows, false)
	}
	if w.Judged > 0 {
		j.Watched(w)
	}
}
