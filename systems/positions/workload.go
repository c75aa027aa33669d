package positions

import (
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Scheduled operation i owns the 32 identities from (i+1)<<5. The first is its ping. Those from
// spare on are of pings that follow from it, each with one for a read after it.
const (
	idBits = 5
	spare  = 20
)

// numbersPerPing is how many numbers there are for a scheduled ping and those that follow from it.
const numbersPerPing = 4

// pingOf is the number of the scheduled ping to which an identity belongs.
func pingOf(op uint64) uint64 { return op>>idBits - 1 }

// around is when a driver is read before, during and after an erasure, relative to the ping.
func around() []time.Duration {
	return []time.Duration{8 * time.Millisecond, 9 * time.Millisecond, 10 * time.Millisecond,
		40 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond}
}

// eraseAfter is when the erasure is requested.
const eraseAfter = 10 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are pings,
// of each driver in turn. Some are followed by reads, some by two more pings at once, a few by an
// erasure with reads and pings around it; an erased driver goes on pinging.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API()}
	w.late, w.read, w.track, w.erase = s.Coin(), s.Coin(), s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindPing}}
	return w
}

type workload struct {
	sut.Resends
	p     Params
	table *api.Table[Tracker]

	late, read, track, erase keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindPing, KindLatest, KindTrack, KindErase} }

// Op returns scheduled operation i. Two pings of a driver that follow each other may have been
// swapped on their way: the driver was in a tunnel.
func (w *workload) Op(i uint64) history.Op {
	driver, turn := w.driver(i), i/uint64(w.p.Drivers)
	odd := driver % 2 // so that any number of turns ends with a pair of some drivers
	pair := turn + odd
	if w.late.At(driver<<32|pair/2) < w.p.Late && pair^1 >= odd {
		turn = pair ^ 1 - odd
	}
	return w.ping((i+1)<<idBits, driver, int64(turn)*numbersPerPing+1)
}

// ping is the ping of a driver with a number.
func (w *workload) ping(id, driver uint64, seq int64) history.Op {
	at := whereabouts(driver, seq)
	return w.table.Op(KindPing, PingRequest{ID: id, Driver: driver, Seq: at.Seq, Lat: at.Lat,
		Lon: at.Lon})
}

// driver is the one of scheduled operation i.
func (w *workload) driver(i uint64) uint64 { return i%uint64(w.p.Drivers) + 1 }

// Follow returns what an operation brings about. Who looks does so after a ping that was refused
// too.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (list []sut.FollowUp) {
	i, id := pingOf(op.ID), op.ID
	about := DriverRequest{Driver: w.driver(i)}
	look := func(kind string, after time.Duration) {
		id++
		about.ID = id
		next := w.table.Op(KindLatest, about)
		if kind == KindTrack {
			most := 20
			if i/uint64(w.p.Drivers)%2 == 1 {
				most = 3 // fewer than there are
			}
			next = w.table.Op(KindTrack, TrackRequest{ID: id, Driver: about.Driver, Most: most})
		}
		list = append(list, sut.FollowUp{After: after, Op: next})
	}
	erases := w.erase.At(i) < w.p.Erase
	ping := func(n int64, after time.Duration) {
		list = append(list, sut.FollowUp{After: after,
			Op: w.ping((i+1)<<idBits+spare+2*uint64(n), about.Driver, op.Arg+n)})
	}
	switch {
	case op.Kind == KindErase && outcome == history.Unknown && op.Arg < int64(w.p.Retry):
		retry := op
		retry.Arg++
		return []sut.FollowUp{{After: 50 * time.Millisecond << min(op.Arg, 4), Op: retry}}
	case op.Kind != KindPing:
		return nil
	case op.ID&(1<<idBits-1) >= spare:
		if !erases {
			look(KindLatest, 0)
		}
		return list
	case outcome == history.OK && erases:
		for _, after := range around() {
			look(KindLatest, after)
			look(KindTrack, after)
		}
		about.ID = id + 1
		list = append(list, sut.FollowUp{After: eraseAfter, Op: w.table.Op(KindErase, about)})
		for n := range int64(numbersPerPing - 1) { // one before it, one together with it, one after it
			ping(n+1, eraseAfter+time.Duration(n-1)*time.Millisecond)
		}
		return list
	case outcome == history.OK && 1-w.read.At(i) < w.p.Late:
		ping(2, 0)
		ping(1, 0)
	}
	if w.read.At(i) < w.p.Reads {
		look(KindLatest, 0)
	}
	if w.track.At(i) < w.p.Tracks {
		look(KindTrack, 0)
	}
	return list
}
