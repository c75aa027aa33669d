package sqlbroker

import (
	"encoding/json"
	"time"

	"stampede/harness/check"
)

// nothing is a clause that says nothing.
func nothing(*check.Run) func() { return nil }

// looks shows what the gauge saw, nil where it saw nothing.
func looks(r *check.Run, see func(at time.Duration, look *Look)) {
	for _, s := range r.Samples() {
		var look Look
		if !s.Seen() || json.Unmarshal(s.Body, &look) != nil {
			see(s.From, nil)
			continue
		}
		see(s.From, &look)
	}
}

// watch is a clause that follows a quantity of the gauge and shows it beside an invariant that
// has to do with it. It judges nothing.
func watch(quantity, unit string, of func(Look) int64) check.Clause {
	return watchBy(quantity, unit, func(w *check.Watched) func(time.Duration, *Look) {
		return func(at time.Duration, look *Look) { w.Look(at, of(*look), of(*look), false) }
	})
}

// watchChange follows what became of totals of the gauge within a second or more. Where a
// total has become less, its store has lost something.
func watchChange(
	quantity, unit string, of func(before, now Look, span time.Duration) (int64, bool),
) check.Clause {
	return watchBy(quantity, unit, func(w *check.Watched) func(time.Duration, *Look) {
		var before *Look
		var since time.Duration
		return func(at time.Duration, look *Look) {
			if before != nil && at-since < time.Second {
				return
			}
			if before != nil {
				if n, is := of(*before, *look, at-since); is && n >= 0 {
					w.Look(at, n, n, false)
				}
			}
			before, since = look, at
		}
	})
}

func watchBy(
	quantity, unit string, follow func(*check.Watched) func(at time.Duration, look *Look),
) check.Clause {
	return check.OnAudit(func(r *check.Run, _ *final) func() {
		w := &check.Watched{Quantity: quantity, Unit: unit}
		see := follow(w)
		looks(r, func(at time.Duration, look *Look) {
			if look == nil {
				w.Gaps++
				return
			}
			see(at, look)
		})
		if w.Judged > 0 {
			r.Watched(w)
		}
		return nil
	})
}

// needSnapshot needs a snapshot that was as old as half the time for which one was to be
// held, where one was and a gauge has looked.
func needSnapshot(r *check.Run, f *final) func() {
	looked, oldest := false, int64(0)
	looks(r, func(_ time.Duration, look *Look) {
		if look != nil {
			looked, oldest = true, max(oldest, look.SnapshotNS)
		}
	})
	r.Need(!looked || time.Duration(oldest) >= f.p.ReportFor.D()/2,
		"no old snapshot was held for the requested time")
	return nil
}
