package reservation_test

import (
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/reservation"
)

const ms = time.Millisecond

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[reservation.Params, reservation.Audit]
}

// house is of ordinary size.
func house() *reservation.Params {
	p := crowd()
	p.Nights, p.Retry, p.LateShare = 6, 2, 0.2
	return p
}

// anyHouse is a small house of any kind.
func anyHouse(d suttest.Draw) *reservation.Params {
	p := crowd()
	p.Resources, p.Units = d.Int("resources", 1, 4), d.Int("units", 1, 4)
	p.Nights = d.Int("nights", 1, 8)
	p.Longest, p.Overbooking = d.Int("longest", 1, p.Nights), 1+d.Share("over")
	p.Retry = d.Int("retry", 0, 3)
	p.HoldTTL, p.Think = d.Millis("ttl", 1, 400), d.Millis("think", 0, 500)
	p.Confirm, p.Release, p.Cancel = d.Share("confirm"), d.Share("release"), d.Share("cancel")
	p.Rebook, p.LateShare, p.Resend = d.Share("rebook"), d.Share("late"), d.Share("resend")/2
	p.Crowd, p.Guests = d.Int("crowd", 1, 5), d.Int("guests", 0, 50)
	return p
}

// proof is what the judges of reservation are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"the order stays the same": {"raise seq of changes", "lower seq of changes"},
		},
		Absent: map[string][]string{
			"none is refused": {"invent cancel", "invent release"},
			"all answers are the same": {"exchange answers to cancel", "exchange answers to confirm",
				"exchange answers to release"},
		},
	}, reservation.System(), house, anyHouse, 200, time.Second, deskIn)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a guest in time is refused", Breaks: reservation.HeldIsMine,
			Do: func(e *evidence, pick func(int) int) bool {
				list := suttest.Alone(e.Records, reservation.KindConfirm, history.OK)
				if len(list) == 0 {
					return false
				}
				r := list[pick(len(list))]
				suttest.Deny(r, reservation.ErrExpired)
				return r.End < e.since(r.Op.ID&^3)+e.P.HoldTTL.D() // it did not come just before the end
			}},
		{Name: "nothing is sold, and all is sold out", Breaks: reservation.FreeIsForSale,
			Do: func(e *evidence, _ func(int) int) bool {
				for i := range e.Records {
					r := &e.Records[i]
					if r.Op.Kind == reservation.KindHold && r.Outcome != history.Dropped {
						r.End = min(r.End, r.Start+ms)
						suttest.Deny(r, reservation.ErrSoldOut)
					}
				}
				return true
			}},
	})
}

// since is when a hold was first asked for, long ago if it was not acknowledged.
func (e *evidence) since(hold uint64) time.Duration {
	start, acked := history.Never, false
	for i := range e.Records {
		if r := &e.Records[i]; r.Op.ID == hold && r.Outcome != history.Dropped {
			start, acked = min(start, r.Start), acked || r.Outcome == history.OK
		}
	}
	if !acked {
		return -history.Never
	}
	return start
}
