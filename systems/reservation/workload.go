package reservation

import (
	"encoding/json"
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from (i+1)<<8: its guest's
// visit v has those from v<<2, one for each step. A visit begins with a hold.
const (
	idBits   = 8
	stepBits = 2
	stepMask = 1<<stepBits - 1
	lastOf   = 1<<idBits - 1 // also the mask of an identity in its journey

	stepHold    = 0
	stepConfirm = 1
	stepRelease = 2
	stepCancel  = 3
)

// retryPause is the pause before the first retry; it doubles each time.
const retryPause = 50 * time.Millisecond

// hotShare is what wants the hot resource, if there is one, and hotTurn how many see the same
// one if it moves.
const (
	hotShare = 0.8
	hotTurn  = 2000
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are
// holds. From an acknowledged one follows a confirmation, a release or nothing; from a booking a
// cancellation, and from that another hold. Who finds all sold out comes back when holds have
// expired. An operation of unknown outcome is repeated with the same identity; Op.Arg counts
// the attempts.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API()}
	w.resources = s.Skewed(p.Resources, p.Skew, hotShare, hotTurn)
	w.first, w.nights = s.Coin(), s.Coin()
	w.confirm, w.release, w.cancel, w.rebook = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.when, w.late = s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: w.Kinds()}
	if p.Guests > 0 {
		w.guests = s.Uniform(p.Guests)
	}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p         Params
	table     *api.Table[Desk]
	resources keys.Source
	guests    keys.Source // nil: guest i for operation i

	first, nights, confirm, release, cancel, rebook, when, late keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindHold, KindConfirm, KindRelease, KindCancel}
}

// Op returns scheduled operation i, a hold.
func (w *workload) Op(i uint64) history.Op {
	guest := i
	if w.guests != nil {
		guest = w.guests.At(i)
	}
	return w.hold((i+1)<<idBits, w.resources.At(i/uint64(w.p.Crowd))+1, fmt.Sprint("guest-", guest+1))
}

// hold is a stay of the workload's choice.
func (w *workload) hold(id, resource uint64, guest string) history.Op {
	nights := 1 + int(w.nights.At(id)*float64(w.p.Longest))
	first := 1 + int(w.first.At(id)*float64(w.p.Nights-nights+1))
	return w.table.Op(KindHold, HoldRequest{ID: id, Resource: resource, Guest: guest, First: first,
		Nights: nights})
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch {
	case outcome == history.Unknown && op.Arg < int64(w.p.Retry):
		retry := op
		retry.Arg++
		return []sut.FollowUp{{After: retryPause << op.Arg, Op: retry}}
	case outcome == history.Refused && op.Kind == KindHold:
		if visit := op.ID & lastOf >> stepBits; visit < uint64(w.p.ComeBack) {
			return w.visit(op, w.p.HoldTTL.D())
		}
	case outcome == history.OK:
		return w.next(op, reply)
	}
	return nil
}

// next is what follows from success.
func (w *workload) next(op history.Op, reply history.Reply) []sut.FollowUp {
	switch op.ID & stepMask {
	case stepHold:
		var r Held
		if json.Unmarshal(reply.Body, &r) != nil {
			return nil // no answer that one can go on from
		}
		about := HeldRequest{Hold: op.ID, Version: r.Version}
		if w.confirm.At(op.ID) < w.p.Confirm {
			return w.then(op, KindConfirm, stepConfirm, about)
		}
		if w.release.At(op.ID) < w.p.Release {
			return w.then(op, KindRelease, stepRelease, about)
		}
	case stepConfirm:
		if w.cancel.At(op.ID) < w.p.Cancel {
			return w.then(op, KindCancel, stepCancel,
				HeldRequest{Hold: op.ID &^ stepMask, Version: reply.Value})
		}
	case stepCancel:
		if w.rebook.At(op.ID) < w.p.Rebook {
			return w.visit(op, w.p.Think.D())
		}
	}
	return nil
}

// then is the next step of a visit, within Think; a late confirmation comes when the hold
// expires, a twentieth of its time earlier or later.
func (w *workload) then(op history.Op, kind string, step uint64, r HeldRequest) []sut.FollowUp {
	r.ID, r.Guest = op.ID&^stepMask|step, op.Client
	_, _ = fmt.Sscanf(op.Key, "resource-%d", &r.Resource) // it is the workload's own
	u := w.when.At(r.ID)
	after := time.Duration(u * float64(w.p.Think.D()))
	if kind == KindConfirm && w.late.At(r.ID) < w.p.LateShare {
		after = time.Duration((0.95 + 0.1*u) * float64(w.p.HoldTTL.D()))
	}
	return []sut.FollowUp{{After: after, Op: w.table.Op(kind, r)}}
}

// visit is another visit of the guest, who asks for other nights. There are 64 at most.
func (w *workload) visit(op history.Op, within time.Duration) []sut.FollowUp {
	id := op.ID&^stepMask + 1<<stepBits
	if id&lastOf == 0 {
		return nil
	}
	var resource uint64
	_, _ = fmt.Sscanf(op.Key, "resource-%d", &resource)
	after := time.Duration((0.5 + w.when.At(id)) * float64(within))
	return []sut.FollowUp{{After: after, Op: w.hold(id, resource, op.Client)}}
}
