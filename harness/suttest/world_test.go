package suttest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// echoes is a workload of operations of which each acknowledged one has a follow-up, and the
// model of a system that refuses every third.
type echoes struct {
	sut.Workload
	done []uint64
}

func (*echoes) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	if outcome != history.OK || op.Kind == "echo" {
		return nil
	}
	return []sut.FollowUp{{After: time.Millisecond, Op: history.Op{ID: op.ID + 1, Kind: "echo"}}}
}

func (*echoes) Resend(op history.Op) (sut.Resending, time.Duration) {
	if op.Kind == "echo" {
		return sut.Never, 0
	}
	return []sut.Resending{sut.Never, sut.Together, sut.Later}[op.ID>>8%3], time.Millisecond
}

func (e *echoes) Do(op history.Op, answer func(history.Reply, error)) {
	e.done = append(e.done, op.ID)
	if op.Kind == "say" && op.ID>>8%3 == 0 {
		answer(history.Reply{}, sut.ErrRefused)
		return
	}
	answer(history.Reply{Value: 1}, nil)
}

func worldOf(seed uint64, trouble Trouble) (*World, *echoes) {
	e := &echoes{Workload: sut.OneKind("say", func(i uint64) history.Op {
		return history.Op{ID: (i + 1) << 8, Kind: "say"}
	})}
	w := newWorld(seed, e, trouble)
	w.Run(e, 99, time.Second)
	return w, e
}

// TestWorldIsItsSeed: with a seed everything is the same, with another one it is not.
func TestWorldIsItsSeed(t *testing.T) {
	tr := Trouble{LostRequest: 0.2, LostReply: 0.2, Late: 0.1}
	a, _ := worldOf(1, tr)
	b, _ := worldOf(1, tr)
	c, _ := worldOf(2, tr)
	if !reflect.DeepEqual(a.Records, b.Records) || reflect.DeepEqual(a.Records, c.Records) {
		t.Error("the records do not follow from the seed")
	}
}

// TestWorldWithoutTrouble: every third is refused, what is acknowledged has its follow-up and
// its second sending, from which nothing follows.
func TestWorldWithoutTrouble(t *testing.T) {
	w, e := worldOf(1, Trouble{})
	count := map[string]int{}
	for _, r := range w.Records {
		count[r.Op.Kind+" "+r.Outcome.String()]++
		if r.End <= r.Start || r.End > r.Start+2*NetDelay {
			t.Fatalf("%+v took too long or no time", r)
		}
	}
	want := map[string]int{"say refused": 33, "say ok": 2 * 66, "echo ok": 66}
	if !reflect.DeepEqual(count, want) || len(e.done) != len(w.Records) {
		t.Errorf("got %v and %d performed, want %v", count, len(e.done), want)
	}
}

// TestWorldsMishaps: each does what it is named for.
func TestWorldsMishaps(t *testing.T) {
	for name, c := range map[string]struct {
		trouble Trouble
		outcome history.Outcome
		started bool // at all, then: with an effect, and with an end
		effect  bool
		ended   bool
	}{
		"lost request": {Trouble{LostRequest: 1}, history.Unknown, true, false, true},
		"lost reply":   {Trouble{LostReply: 1}, history.Unknown, true, true, true},
		"late":         {Trouble{Late: 1}, history.Unknown, true, true, true},
		"hang":         {Trouble{Hang: 1}, history.Unknown, true, true, false},
		"dial fails":   {Trouble{DialFails: 1}, history.Refused, true, false, true},
		"dropped":      {Trouble{Dropped: 1}, history.Dropped, false, false, false},
	} {
		w, e := worldOf(1, c.trouble)
		if (len(e.done) > 0) != c.effect {
			t.Errorf("%s: %d had an effect", name, len(e.done))
		}
		if slices.ContainsFunc(w.Records, func(r history.Record) bool {
			return r.Outcome != c.outcome || (r.Start != history.Never) != c.started ||
				(r.End != history.Never) != c.ended
		}) {
			t.Errorf("%s: %+v", name, w.Records[0])
		}
	}
}

// TestProofMissesNothing: a proof says what it lacks.
func TestProofMissesNothing(t *testing.T) {
	p := Proof[int]{Invariants: []string{"a", "b"}}
	if got := p.unshown(map[string]bool{"a": true}); len(got) != 1 {
		t.Errorf("of two invariants one was broken: %q", got)
	}
	seen := map[string]map[check.Status]bool{"a": {check.Broken: true}}
	if got := p.unseen(seen); len(got) != 3 {
		t.Errorf("three cases are missing: %q", got)
	}
	c := Case[int]{Want: check.Broken, Says: "twice"}
	broken := check.Verdict{Status: check.Broken, Violations: []check.Violation{{Text: "sold twice"}}}
	if got := c.differs(broken); got != "" {
		t.Errorf("that is as wanted: %s", got)
	}
	for _, v := range []check.Verdict{{Status: check.Held, Reason: "twice"}, {Status: check.Broken}} {
		if c.differs(v) == "" {
			t.Errorf("%+v passes for %+v", v, c)
		}
	}
}
