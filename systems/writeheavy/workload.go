package writeheavy

import (
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Scheduled operation i owns the 1024 numbers from (i+1)<<10: the first is the add or the batch,
// the last the read that follows it, and the records of a batch have those after the first.
const (
	idBits   = 10
	idMask   = 1<<idBits - 1
	slotRead = idMask
)

// retryPause is the pause before the first retry; it doubles each time.
const retryPause = 50 * time.Millisecond

// hotShare is how much goes to the hot key, if there is one, and hotTurn after how many operations
// another key is hot if it moves: keys are drawn by numbers, of which an operation owns 1024.
const (
	hotShare = 0.8
	hotTurn  = 2000 << idBits
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are adds
// and batches. What is of unknown outcome is sent again, some of it twice in any case. After the
// last attempt of some adds, whatever its outcome, their counter is read: half of the time right
// after it, which shows an answer that came too early; else later, perhaps once the load is over.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API()}
	w.keys, w.users = s.Skewed(p.Keys, p.Skew, hotShare, hotTurn), s.Uniform(p.Users)
	w.batch, w.down, w.size, w.poison = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.class, w.read, w.when = s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindAdd, KindBatch}}
	w.pause = s.Coin()
	return w
}

type workload struct {
	sut.Resends
	p           Params
	table       *api.Table[Counters]
	keys, users keys.Source

	batch, down, size, poison, class, read, when, pause keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindAdd, KindBatch, KindRead} }

// record is the add of a number.
func (w *workload) record(id uint64) Record {
	r := Record{ID: id, Key: w.keys.At(id) + 1, User: w.users.At(id) + 1, Class: ClassNormal,
		Delta: 1 + int64(w.size.At(id)*10)}
	switch u := w.class.At(id); {
	case u < 0.1:
		r.Class = ClassHigh
	case u > 0.6:
		r.Class = ClassLow
	}
	if w.down.At(id) < w.p.Down {
		r.Delta = -r.Delta
	}
	switch u := w.poison.At(id); {
	case u < w.p.Poison/2:
		r.Delta = 0
	case u < w.p.Poison:
		r.Delta *= 10 * MostDelta
	}
	return r
}

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op {
	id := (i + 1) << idBits
	if w.batch.At(i) >= w.p.Batches {
		return w.table.Op(KindAdd, w.record(id).add(0))
	}
	req := BatchRequest{ID: id, Records: make([]Record, w.p.Records)}
	for k := range req.Records {
		req.Records[k] = w.record(id + 1 + uint64(k))
	}
	return w.table.Op(KindBatch, req)
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	if outcome == history.Unknown && op.Kind != KindRead {
		if again := w.retry(op); again != nil {
			return again
		}
	}
	if op.Kind == KindAdd && w.read.At(op.ID) < w.p.Reads {
		req := ReadRequest{ID: op.ID | slotRead, Key: w.record(op.ID).Key,
			Reader: 1 + uint64(w.when.At(op.ID)*float64(w.p.Readers))}
		return []sut.FollowUp{{Op: w.table.Op(KindRead, req),
			// A nanosecond at least: in virtual time the add has ended before that.
			After: time.Duration(max(1, (2*w.pause.At(op.ID)-1)*float64(w.p.readWithin())))}}
	}
	return nil
}

// retry is another attempt, unless there were enough.
func (w *workload) retry(op history.Op) []sut.FollowUp {
	asked, err := w.table.Asked(op)
	if err != nil {
		return nil // it is the workload's own
	}
	var next history.Op
	attempt := 0
	switch req := asked.(type) {
	case *AddRequest:
		attempt = req.Attempt
		req.Attempt++
		next = w.table.Op(KindAdd, *req)
	case *BatchRequest:
		attempt = int(req.Attempt)
		req.Attempt++
		next = w.table.Op(KindBatch, *req)
	}
	if attempt >= w.p.Retry {
		return nil
	}
	return []sut.FollowUp{{After: retryPause << attempt, Op: next}}
}

// readWithin is how long after an add its counter is read at most: a tree has applied it by then.
func (p Params) readWithin() time.Duration {
	return 3 * (p.EdgeWindow + p.MiddleWindow + p.RootWindow).D()
}
