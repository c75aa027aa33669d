package scheduler

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// TestWorkloadIsPure: the same seed asks for the same, in whatever order it is
// asked, and another seed for something else.
func TestWorkloadIsPure(t *testing.T) {
	p := DefaultParams()
	var loads []sut.Workload
	for _, seed := range []uint64{1, 1, 2} {
		load, err := System().Workload(seed, p)
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, load)
	}
	differ := false
	for i := uint64(500); i > 0; i-- {
		op := loads[0].Op(i)
		reply := history.Reply{Key: "1", Value: int64(time.Second)}
		if !reflect.DeepEqual(op, loads[1].Op(i)) || !reflect.DeepEqual(
			loads[0].Follow(op, history.OK, reply), loads[1].Follow(op, history.OK, reply)) {
			t.Fatalf("operation %d is another one at the second look", i)
		}
		differ = differ || !reflect.DeepEqual(op, loads[2].Op(i))
	}
	if !differ {
		t.Error("two seeds ask for the same")
	}
}

// TestWorkloadIsAMorning: as many tasks are due at nine as the parameters say, all
// others within what is ahead of them, and what becomes of them has identities of
// its own.
func TestWorkloadIsAMorning(t *testing.T) {
	p := DefaultParams()
	load, err := System().Workload(7, p)
	if err != nil {
		t.Fatal(err)
	}
	const ops = 2000 // ten seconds, 100 of business time: all before nine
	day := p.day()
	atNine, recurring := 0, 0
	seen := map[uint64]bool{}
	for i := range uint64(ops) {
		op := load.Op(i)
		req := load.(*workload).request(i)
		now := day.Add(time.Duration(float64(i) / p.Rate * p.TimeScale * float64(time.Second)))
		switch {
		case req.Cron != "":
			recurring++
		case req.At.Equal(day.Add(p.NineAfter.D())):
			atNine++
		case req.At.Before(now.Add(-ms)) || req.At.After(now.Add(p.Ahead.D())):
			t.Errorf("task %d is due at %v, at %v", i, req.At, now)
		}
		due := history.Reply{Key: "1", Value: int64(time.Second)}
		for _, next := range append(load.Follow(op, history.OK, due), sut.FollowUp{Op: op}) {
			if seen[next.Op.ID] || next.After < 0 {
				t.Errorf("%+v comes twice, or before it was asked for", next)
			}
			seen[next.Op.ID] = true
		}
	}
	if atNine < ops*25/100 || atNine > ops*35/100 || recurring < 10 || recurring > 80 {
		t.Errorf("%d of %d are due at nine, %d recur", atNine, ops, recurring)
	}
}

// TestRetries: what is lost is sent again with the same identity, and only so often.
func TestRetries(t *testing.T) {
	p := DefaultParams()
	load, err := System().Workload(7, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []history.Op{load.Op(0),
		{ID: 258, Kind: KindCancel, Key: "256"}} {
		tries := 0
		for list := load.Follow(op, history.Unknown, history.Reply{}); len(list) > 0; tries++ {
			if again := list[0].Op; again.ID != op.ID || again.Kind != op.Kind || again.Key != op.Key {
				t.Fatalf("%+v is sent again as %+v", op, again)
			}
			list = load.Follow(list[0].Op, history.Unknown, history.Reply{})
		}
		if tries != p.RetryOnLost {
			t.Errorf("%s is sent again %d times", op.Kind, tries)
		}
	}
}

// TestBadParams: every bad parameter is named.
func TestBadParams(t *testing.T) {
	p := DefaultParams()
	p.Day, p.TimeScale, p.Crons, p.Recurrence, p.MaxFleet = "nine", 0, []string{"x"}, "never", 1
	p.Cancel, p.Lease, p.RescueWithin = 0.99, 0, 0
	_, err := System().Workload(1, p)
	if err == nil {
		t.Fatal("they were accepted")
	}
	for _, name := range []string{"day", "time_scale", "crons", "recurrence", "max_fleet", "poison",
		"lease", "rescue_within"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}

// TestBadAudits: an audit without a list, or with an outcome and no end, proves nothing.
func TestBadAudits(t *testing.T) {
	for name, change := range map[string]func(*Audit){
		"no tasks":          func(a *Audit) { a.Tasks = nil },
		"no runs":           func(a *Audit) { a.Runs = nil },
		"no effects":        func(a *Audit) { a.Effects = nil },
		"no changes":        func(a *Audit) { a.Changes = nil },
		"a run without end": func(a *Audit) { a.Runs[0].EndedUS = 0 },
	} {
		e := goodRun(t)
		change(&e.audit)
		for inv, v := range e.judge(t) {
			if v.Status == check.Held || inv != NoPhantomRuns && v.Status != check.Undecided {
				t.Errorf("%s: %s is %s: %s", name, inv, v.Status, v.Reason)
			}
		}
	}
}

// TestGoesOn: the last task is due when the last occurrence is, or as far ahead as a task of
// the schedule may be.
func TestGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		crons     []string
		recurring float64
		want      time.Duration
	}{
		"ahead":          {[]string{"*/2 * * * *"}, 0, 9 * time.Second},
		"every minute":   {[]string{"* * * * *"}, 0.1, 9 * time.Second},
		"every third":    {[]string{"* * * * *", "*/3 * * * *"}, 0.1, 16500 * time.Millisecond},
		"never any more": {[]string{"0 0 30 2 *"}, 0.1, 9 * time.Second},
	} {
		p := DefaultParams()
		p.Day, p.TimeScale, p.Times = "2026-01-05T08:57:30Z", 20, 2
		p.Ahead, p.Crons, p.Recurring = sut.Duration(3*time.Minute), c.crons, c.recurring
		if got := System().GoesOn(&p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
