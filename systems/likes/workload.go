package likes

import (
	"time"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from
// (i+1)<<8: its journey derives all others from them, so that they are unique
// without coordination and Follow needs no memory.
const (
	idBits = 8
	idMask = 1<<idBits - 1

	slotLike   = 0x00
	slotUnlike = 0x01
	slotRelike = 0x02
	slotView   = 0x03
	slotRead   = 0x10 // … 0x1f: reads of the count
)

// retryPause is the pause before the first retry; it doubles each time.
const retryPause = 50 * time.Millisecond

// hotShare is what likes the hot video, if there is one, and hotTurn how many likes see the
// same one if it moves.
const (
	hotShare = 0.8
	hotTurn  = 2000
)

// newWorkload makes the interactions as a pure function of the seed.
//
// Scheduled operations are likes. Operations 2k and 2k+1 sometimes are the
// same user's clicks on the same video, which race. All else follows from
// replies:
//
//   - some who liked take it back within Think, and some of them like again;
//   - an interaction of unknown outcome is sent again with the same identity,
//     up to RetryOnLost times; Op.Arg counts the attempts;
//   - some interactions are sent twice with the same identity (Resend);
//   - reads of the count, by the same user, and views fall within Think after
//     the first reply to a like.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p}
	w.twice, w.back, w.again = s.Coin(), s.Coin(), s.Coin()
	w.when, w.reads, w.views = s.Coin(), s.Coin(), s.Coin()
	w.videos = s.Skewed(p.Videos, p.VideoSkew, hotShare, hotTurn)
	if p.Users > 0 {
		w.users = s.Uniform(p.Users)
	}
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At,
		Kinds: []string{KindLike, KindUnlike, KindView}}
	for n := range p.Videos {
		w.names = append(w.names, VideoKey(uint64(n+1)))
	}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p      Params
	users  keys.Source // nil: user i for operation i
	videos keys.Source
	names  []string

	twice, back, again, when, reads, views keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindLike, KindUnlike, KindCount, KindView}
}

// Op returns scheduled operation i, a like.
func (w *workload) Op(i uint64) history.Op {
	who := i
	// With x pairs of a double click among 1 - x of others a pair has 2 - x
	// users; x = 2s/(1+s) makes the share of users that click twice s.
	s := w.p.ClickTwice
	if i%2 == 1 && w.twice.At(i/2) < 2*s/(1+s) {
		who = i - 1
	}
	user := who
	if w.users != nil {
		user = w.users.At(who)
	}
	return history.Op{ID: (i + 1) << idBits, Kind: KindLike,
		Key: w.names[w.videos.At(who)], Client: UserName(user + 1)}
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	if outcome == history.Dropped {
		return nil
	}
	var next []sut.FollowUp
	if outcome == history.Unknown && op.Arg < int64(w.p.RetryOnLost) && op.Kind != KindCount {
		retry := op
		retry.Arg++
		next = append(next, sut.FollowUp{After: retryPause << op.Arg, Op: retry})
	}
	slot := op.ID & idMask
	if slot == slotLike && op.Arg == 0 {
		next = w.look(next, op)
	}
	if outcome != history.OK {
		return next
	}
	switch {
	case slot == slotLike && w.back.At(op.ID) < w.p.Unlike:
		next = append(next, w.then(op, KindUnlike, slotUnlike))
	case slot == slotUnlike && w.again.At(op.ID) < w.p.Relike:
		next = append(next, w.then(op, KindLike, slotRelike))
	}
	return next
}

// look adds the views and the reads of who liked.
func (w *workload) look(next []sut.FollowUp, op history.Op) []sut.FollowUp {
	if w.views.At(op.ID) < w.p.Views {
		next = append(next, w.then(op, KindView, slotView))
	}
	n := int(w.p.Reads)
	if w.reads.At(op.ID) < w.p.Reads-float64(n) {
		n++
	}
	for k := range uint64(n) {
		next = append(next, w.then(op, KindCount, slotRead+k))
	}
	return next
}

// then is another operation of the same journey, within Think.
func (w *workload) then(op history.Op, kind string, slot uint64) sut.FollowUp {
	op.ID, op.Kind, op.Arg = op.ID&^idMask|slot, kind, 0
	after := time.Duration(w.when.At(op.ID) * float64(w.p.Think.D()))
	return sut.FollowUp{After: after, Op: op}
}
