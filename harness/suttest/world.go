package suttest

import (
	"cmp"
	"container/heap"
	"errors"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// World is a whole run in virtual time: a workload, a network that loses and delays, and a
// model of the system. Everything follows from the seed, and nothing waits.
type World struct {
	Trouble
	// Seed is the workload's. Rand is where everything that is random comes from.
	Seed uint64
	Rand *rand.Rand
	// Now is how far the run is. A model may move it on, a little.
	Now time.Duration
	// Records are the history; with the Windows of faults, and Samples that a model takes.
	Records []history.Record
	Windows []history.Window
	Samples []history.Sample
	// Spared, unless it is nil, says which operations meet no trouble.
	Spared func(history.Op) bool

	load     sut.Workload
	model    Model
	moments  moments
	busy     int    // attempts under way, and operations that are still to come
	followed []bool // of each record: others may follow, not from a second sending
}

// Model is the smallest correct system. It performs an operation and answers, now or later in
// the world's time, with a reply or an error. One that wraps sut.ErrRefused is a refusal;
// another one stands for an answer that never comes.
type Model interface {
	Do(op history.Op, answer func(history.Reply, error))
}

// Trouble is how often an attempt meets each mishap, of 1.
type Trouble struct {
	// A request that is lost has no effect, a reply that is lost had one, and one that is late
	// has it after the client gave up. An attempt that hangs has an effect and no end; one whose
	// dial fails was never sent, one that is dropped never started.
	LostRequest, LostReply, Late, Hang, DialFails, Dropped float64
}

// DrawTrouble draws any trouble, each mishap up to 15 % of the attempts.
func DrawTrouble(t *rapid.T) Trouble {
	mishap := rapid.Float64Range(0, 0.15)
	return Trouble{
		LostRequest: mishap.Draw(t, "lost requests"), LostReply: mishap.Draw(t, "lost replies"),
		Late: mishap.Draw(t, "late"), Hang: mishap.Draw(t, "hanging"),
		DialFails: mishap.Draw(t, "failed dials"), Dropped: mishap.Draw(t, "dropped"),
	}
}

// NetDelay is how long a message takes at most.
const NetDelay = 2 * time.Millisecond

// Patience is when a client of the world gives up.
const Patience = 100 * time.Millisecond

// NewWorld makes a world of a system's workload, in which nothing has happened yet.
func NewWorld(t TB, system sut.System, seed uint64, params any, trouble Trouble) *World {
	t.Helper()
	load, err := system.Workload(seed, params)
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(seed, load, trouble)
}

func newWorld(seed uint64, load sut.Workload, trouble Trouble) *World {
	return &World{Trouble: trouble, Seed: seed, Rand: rand.New(rand.NewPCG(seed, 1)), load: load}
}

// Run offers the first operations of the workload, so many, evenly over a time, and returns
// when nothing is left to happen.
func (w *World) Run(model Model, ops int, over time.Duration) {
	w.model = model
	for i := range ops {
		op := w.load.Op(uint64(i))
		w.attempted(time.Duration(i)*over/time.Duration(ops)-w.Now, func() { w.send(op) })
	}
	for w.Pending() {
		m := heap.Pop(&w.moments).(moment)
		w.Now = max(w.Now, m.at)
		m.do()
	}
}

// loseAnswers plans a time in which most attempts meet trouble, as under a fault that loses the
// answers of Postgres.
func (w *World) loseAnswers() {
	const from, to = 300 * time.Millisecond, 500 * time.Millisecond
	before := w.Trouble
	w.After(from, func() {
		w.Trouble = Trouble{LostRequest: 0.2, LostReply: 0.4, Late: 0.1, Hang: 0.1}
	})
	w.After(to, func() { w.Trouble = before })
	w.Windows = []history.Window{{Kind: history.FaultWindow, Fault: "lost-ack postgres", Start: from,
		End: to, Recovered: to}}
}

// After plans what happens in a while.
func (w *World) After(d time.Duration, do func()) {
	w.moments.planned++
	heap.Push(&w.moments, moment{w.Now + max(0, d), w.moments.planned, do})
}

// Every does something now and again after each pause, as long as it says that there is more to
// do, or an operation is or will be under way.
func (w *World) Every(pause time.Duration, do func() (more bool)) {
	var again func()
	again = func() {
		if do() || w.Busy() {
			w.After(pause, again)
		}
	}
	w.After(0, again)
}

// Some is a part of a duration, uniform.
func (w *World) Some(d time.Duration) time.Duration {
	return time.Duration(w.Rand.Int64N(int64(d) + 1))
}

// Pending says whether anything is still to happen.
func (w *World) Pending() bool { return w.moments.Len() > 0 }

// Busy says whether an operation is or will be under way.
func (w *World) Busy() bool { return w.busy > 0 }

// Next is when the next thing happens; something must be pending.
func (w *World) Next() time.Duration { return w.moments.list[0].at }

// attempted plans what belongs to an operation.
func (w *World) attempted(d time.Duration, do func()) {
	w.busy++
	w.After(d, func() {
		w.busy--
		do()
	})
}

// send starts an operation, and a second time beside it if it has one.
func (w *World) send(op history.Op) {
	w.resend(op, sut.Together)
	w.attempt(op, true)
}

// resend plans the second sending of an operation that has one at that time.
func (w *World) resend(op history.Op, when sut.Resending) {
	resender, is := w.load.(sut.Resender)
	if !is {
		return
	}
	if wanted, pause := resender.Resend(op); wanted == when {
		w.attempted(pause, func() { w.attempt(op, false) })
	}
}

// attempt decides what the network does to an attempt, from which others may follow.
func (w *World) attempt(op history.Op, followed bool) {
	i := len(w.Records)
	w.followed = append(w.followed, followed)
	w.Records = append(w.Records, history.Record{
		Seq: uint64(i), Op: op, Intended: w.Now, Start: w.Now, End: history.Never})
	u := w.Rand.Float64()
	if w.Spared != nil && w.Spared(op) {
		u = 1
	}
	deaf := func(history.Reply, error) {}
	for _, fate := range []struct {
		share float64
		do    func()
	}{
		{w.Dropped, func() {
			w.Records[i].Outcome, w.Records[i].Start = history.Dropped, history.Never
		}},
		{w.DialFails, func() {
			w.end(i, w.Some(NetDelay), history.Refused, history.Reply{}, sut.ErrRefused)
		}},
		{w.LostRequest, func() { w.lose(i) }},
		{w.LostReply, func() {
			w.perform(op, w.Some(NetDelay), deaf)
			w.lose(i)
		}},
		{w.Late, func() {
			w.perform(op, Patience+w.Some(2*Patience), deaf)
			w.lose(i)
		}},
		{w.Hang, func() { w.perform(op, w.Some(NetDelay), deaf) }},
	} {
		if u < fate.share {
			fate.do()
			return
		}
		u -= fate.share
	}
	w.perform(op, w.Some(NetDelay), func(reply history.Reply, err error) {
		switch {
		case err == nil:
			w.end(i, w.Some(NetDelay), history.OK, reply, nil)
		case errors.Is(err, sut.ErrRefused):
			w.end(i, w.Some(NetDelay), history.Refused, history.Reply{}, err)
		default:
			w.end(i, Patience, history.Unknown, history.Reply{}, err)
		}
	})
}

func (w *World) perform(op history.Op, in time.Duration, answer func(history.Reply, error)) {
	w.attempted(in, func() { w.model.Do(op, answer) })
}

var errTimeout = errors.New("timeout")

func (w *World) lose(i int) {
	w.end(i, Patience, history.Unknown, history.Reply{}, errTimeout)
}

// end completes a record and plans what follows.
func (w *World) end(
	i int, in time.Duration, outcome history.Outcome, reply history.Reply, err error,
) {
	w.attempted(in, func() {
		r := &w.Records[i]
		r.Outcome, r.Reply, r.Code, r.End = outcome, reply, sut.Code(err), w.Now
		if err != nil {
			r.Err = err.Error()
		}
		if !w.followed[i] {
			return
		}
		op := r.Op // following appends to the records
		if outcome == history.OK {
			w.resend(op, sut.Later)
		}
		for _, next := range w.load.Follow(op, outcome, reply) {
			w.attempted(next.After, func() { w.send(next.Op) })
		}
	})
}

// moment is something that happens; n breaks ties in the order of planning.
type moment struct {
	at time.Duration
	n  int
	do func()
}

// moments is a heap, earliest first.
type moments struct {
	list    []moment
	planned int
}

func (m *moments) Len() int { return len(m.list) }
func (m *moments) Less(i, k int) bool {
	a, b := m.list[i], m.list[k]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) < 0
}
func (m *moments) Swap(i, k int) { m.list[i], m.list[k] = m.list[k], m.list[i] }
func (m *moments) Push(x any)    { m.list = append(m.list, x.(moment)) }
func (m *moments) Pop() any {
	last := m.list[len(m.list)-1]
	m.list = m.list[:len(m.list)-1]
	return last
}
