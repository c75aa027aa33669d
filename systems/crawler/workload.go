package crawler

import (
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Scheduled operation i owns the 16 identities from (i+1)<<4. The first is its seed.
const (
	idBits = 4

	looked = 1 // and the following: somebody asks what is known of it
	looks  = 3
)

// lookEvery is the time between two questions about a page.
const lookEvery = 400 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are seeds:
// pages of one island, and later of the next.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	return &workload{p: p, table: API(), twice: s.Coin(), draws: s.Uniform(1 << 40),
		priorities: s.Uniform(lowest + 1)}
}

type workload struct {
	p     Params
	table *api.Table[Crawler]

	twice             keys.Coin
	draws, priorities keys.Source
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindSeed, KindLook} }

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op {
	return w.table.Op(KindSeed, SeedRequest{ID: (i + 1) << idBits, URL: w.url(i),
		Priority: int(w.priorities.At(i))})
}

// url is the page of seed i. Now and then it is none.
func (w *workload) url(i uint64) string {
	if none := []string{"ftp://h0.test/", "http://me@h0.test/", "http://h0.test:81/",
		"http://nowhere.test/"}; i%20 == 19 {
		return none[i/20%uint64(len(none))]
	}
	shape := w.p.Web()
	island := int(i / uint64(w.p.PerIsland) % uint64(shape.Islands()))
	return "http://" + shape.Chosen(island, w.draws.At(i))
}

// Follow returns what an operation brings about: looks at its page.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (list []sut.FollowUp) {
	i, n := op.ID>>idBits-1, op.ID&(1<<idBits-1)
	switch {
	case n < looked && outcome == history.OK:
		n = looked - 1
	case n < looked || n >= looked+looks-1:
		return nil
	}
	look := w.table.Op(KindLook, LookRequest{ID: (i+1)<<idBits + n + 1, URL: w.url(i)})
	return append(list, sut.FollowUp{After: lookEvery * time.Duration(n-looked+1), Op: look})
}

// Resend says which seeds are sent twice, with one identity, at once.
func (w *workload) Resend(op history.Op) (when sut.Resending, pause time.Duration) {
	if op.Kind == KindSeed && w.twice.At(op.ID>>idBits-1) < w.p.Twice/2 {
		return sut.Together, 0
	}
	return sut.Never, 0
}
