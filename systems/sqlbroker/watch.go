package sqlbroker

import (
	"encoding/json"
	"time"

	"stampede/harness/check"
)

// looks yields what the gauge saw, nil where it saw nothing.
func (j *judging) looks(see func(at time.Duration, look *Look)) {
	for _, s := range j.Samples() {
		var look Look
		if !s.Seen() || json.Unmarshal(s.Body, &look) != nil {
			see(s.From, nil)
			continue
		}
		see(s.From, &look)
	}
}

// watch follows a quantity of the gauge and shows it beside an invariant that has to do
// with it.
func (j *judging) watch(quantity, unit string, of func(Look) int64) {
	w := &check.Watched{Quantity: quantity, Unit: unit}
	j.looks(func(at time.Duration, look *Look) {
		if look == nil {
			w.Gaps++
			return
		}
		n := of(*look)
		w.Look(at, n, n, false)
	})
	if w.Judged > 0 {
		j.Watched(w)
	}
}

// needSnapshot needs a snapshot that was as old as half the time for which one was to be
// held, where one was and a gauge has looked.
func (j *judging) needSnapshot() {
	looked, oldest := false, int64(0)
	j.looks(func(_ time.Duration, look *Look) {
		if look != nil {
			looked, oldest = true, max(oldest, look.SnapshotNS)
		}
	})
	j.Need(!looked || time.Duration(oldest) >= j.p.ReportFor.D()/2,
		"no old snapshot was held for the requested time")
}

// watchConsumption follows how many messages consumers work off.
func (j *judging) watchConsumption() {
	j.watchChange("messages processed by consumers", "messages/s",
		func(before, now Look, span time.Duration) (int64, bool) {
			return int64(float64(now.Consumed-before.Consumed) / span.Seconds()), true
		})
}

// watchClaims follows how long consumers' claims take.
func (j *judging) watchClaims() {
	j.watchChange("mean time of a consumer's claim", "µs",
		func(before, now Look, _ time.Duration) (int64, bool) {
			claims := now.Claims - before.Claims
			return (now.ClaimingUS - before.ClaimingUS) / max(claims, 1), claims > 0
		})
}

// watchChange follows what became of totals of the gauge within a second or more. Where a
// total has become less, its store has lost something.
func (j *judging) watchChange(
	quantity, unit string, of func(before, now Look, span time.Duration) (int64, bool),
) {
	w := &check.Watched{Quantity: quantity, Unit: unit}
	var before *Look
	var since time.Duration
	j.looks(func(at time.Duration, look *Look) {
		switch {
		case look == nil:
			w.Gaps++
		case before == nil:
			before, since = look, at
		case at-since >= time.Second:
			if n, is := of(*before, *look, at-since); is && n >= 0 {
				w.Look(at, n, n, false)
			}
			before, since = look, at
		}
	})
	if w.Judged > 0 {
		j.Watched(w)
	}
}
