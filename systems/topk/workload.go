package topk

import (
	"errors"
	"math"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/systems/internal/sketch"
)

// firstWindow is the window in which the events begin, so that no late one is before 1970.
const firstWindow = 10

// newWorkload makes the operations as a pure function of the seed. Scheduled operations record
// batches; after some of them the top of their window is read.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API(), seed: s.Seed()}
	w.late, w.read, w.span = s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindRecord}}
	return w
}

type workload struct {
	sut.Resends
	p     Params
	table *api.Table[Counter]
	seed  uint64

	late, read, span keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindRecord, KindTop} }

// window is that of batch i.
func (w *workload) window(i uint64) int64 {
	window := firstWindow + int64(i)/int64(w.p.Batches)
	if w.late.At(i) < w.p.Late {
		window--
	}
	return window
}

// Op returns scheduled operation i, which records batch i. Its keys are not written down: they
// follow from its body.
func (w *workload) Op(i uint64) history.Op {
	length := w.p.Window.D().Milliseconds()
	at := w.window(i)*length + int64(i)%int64(w.p.Batches)*length/int64(w.p.Batches)
	r := keys.Recipe{Seed: sketch.Hash(w.seed ^ sketch.Hash(i)), Draws: w.p.Batch, Keys: w.p.Items,
		Skew: int(math.Round(w.p.Skew * 1000))}
	if w.p.MoveEvery > 0 {
		turn := w.p.windowOf(at) / int64(w.p.MoveEvery)
		r.Shift = int(sketch.Hash(uint64(turn)) % uint64(w.p.Items))
	}
	return history.Op{ID: (i + 1) << 1, Kind: KindRecord, Arg: at, Body: r.Append([]byte{bodyRecipe})}
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	i := op.ID>>1 - 1
	if op.Kind != KindRecord || outcome != history.OK || w.read.At(i) >= w.p.Reads {
		return nil
	}
	req := TopRequest{ID: op.ID | 1, Window: w.window(i), Span: 1, K: w.p.K}
	if w.span.At(i) < 0.5 {
		req.Span = w.p.Span
	}
	return []sut.FollowUp{{After: time.Duration(w.span.At(i) * float64(w.p.FlushEvery)),
		Op: w.table.Op(KindTop, req)}}
}

// The first byte of the body of a batch: whether keys follow, or a recipe by which they are made.
const bodyKeys, bodyRecipe = 0, 1

// AppendBinary appends what a history keeps of a batch: its keys.
func (r *RecordRequest) AppendBinary(body []byte) ([]byte, error) {
	return sketch.AppendKeys(append(body, bodyKeys), r.Keys), nil
}

// UnmarshalBinary reads keys, or makes them by a recipe.
func (r *RecordRequest) UnmarshalBinary(body []byte) (err error) {
	r.Keys, err = keysOf(string(body), nil)
	return err
}

// keysOf are the keys of a body, in a list that may be used again.
func keysOf(body string, list []uint64) ([]uint64, error) {
	raw := []byte(body)
	switch {
	case len(raw) > 0 && raw[0] == bodyKeys:
		return sketch.ReadKeys(raw[1:], maxEvents, list)
	case len(raw) > 0 && raw[0] == bodyRecipe:
		r, err := keys.ReadRecipe(raw[1:])
		if err != nil {
			return nil, err
		}
		return r.Make(list), nil
	}
	return nil, errMalformed
}

var errMalformed = errors.New("malformed batch")

const maxEvents = 1000 // of a batch
