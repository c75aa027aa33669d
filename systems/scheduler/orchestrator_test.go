package scheduler

import (
	"os"
	"slices"
	"testing"
	"time"

	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// TestDecide: up at once and by whole steps, down by halves when fewer have sufficed
// for five minutes of business time, within bounds.
func TestDecide(t *testing.T) {
	p := DefaultParams()
	p.TimeScale, p.Executors, p.FleetStep, p.MaxFleet = 1, 10, 20, 60
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name  string
		needs []int // each minute
		want  []int
	}{
		{"little", []int{5, 10, 0}, []int{10, 10, 10}},
		{"a step", []int{11, 30, 31, 300}, []int{30, 30, 50, 60}},
		{"down by halves", []int{30, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
			[]int{30, 30, 30, 30, 30, 15, 15, 15, 15, 15, 10, 10}},
		{"not while they are needed", []int{30, 5, 5, 5, 20, 5, 5, 5, 5, 5},
			[]int{30, 30, 30, 30, 30, 30, 30, 30, 30, 15}},
		{"not below what suffices", []int{50, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20},
			[]int{50, 50, 50, 50, 50, 30, 30, 30, 30, 30, 30, 30}},
		{"up again on the way down", []int{30, 5, 5, 5, 5, 5, 16}, []int{30, 30, 30, 30, 30, 15, 30}},
		{"what half suffices for", []int{30, 5, 5, 5, 5, 5, 12, 12, 12, 12, 12, 12},
			[]int{30, 30, 30, 30, 30, 15, 15, 15, 15, 15, 15, 15}},
	} {
		o, now, got := orchestrator{}, p.Executors, []int(nil)
		for minute, need := range c.needs {
			now = o.decide(start.Add(time.Duration(minute)*time.Minute), p, now, need)
			got = append(got, now)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDemand: the tasks of a minute count together, whenever in it they are due; those
// that are overdue count with those of this minute.
func TestDemand(t *testing.T) {
	b := newTable(t)
	p := tableParams()
	p.Granularity, p.Predict = sut.Duration(time.Second), sut.Duration(20*time.Minute)
	b.be(t, p, "scale_predictive", "")
	const began = 3 * time.Hour // before now
	for i := range uint64(30) {
		b.ask(t, 1+i, began+10*time.Minute+time.Duration(2*i)*time.Second, Spec{Task: "x"})
	}
	for i := range uint64(20) {
		b.ask(t, 100+i, began+15*time.Minute, Spec{Task: "x"})
		b.ask(t, 200+i, began+30*time.Minute+time.Duration(i), Spec{Task: "later"})
	}
	rush, _, err := b.demand(t.Context())
	if err != nil || rush != 30 {
		t.Errorf("%d tasks in the worst minute (%v), want 30", rush, err)
	}
	for i := range uint64(40) {
		b.ask(t, 300+i, time.Duration(i)*time.Minute, Spec{Task: "overdue"})
	}
	if rush, _, err = b.demand(t.Context()); err != nil || rush != 40 {
		t.Errorf("%d tasks in the worst minute (%v), want the 40 that are overdue", rush, err)
	}
}

// TestPlannedSizes: with the parameters of the scenario, whose tasks are looked at as
// they are asked for, the orchestrator that predicts plans 10, 30 before nine, 15, 10.
func TestPlannedSizes(t *testing.T) {
	for _, profile := range []string{"default", "full"} {
		p := autoscaling(t, profile)
		for seed := range uint64(5) {
			sizes, ready := plannedSizes(t, seed, p)
			if want := []int{10, 30, 15, 10}; !slices.Equal(sizes, want) {
				t.Errorf("%s, seed %d: planned %v, want %v", profile, seed, sizes, want)
			}
			if ready > p.NineAfter.D()-p.Provision.D() {
				t.Errorf("%s, seed %d: 30 are wanted %v after the beginning, too late for nine",
					profile, seed, ready)
			}
		}
	}
}

// autoscaling are the parameters of a profile of the scenario.
func autoscaling(t *testing.T, profile string) Params {
	t.Helper()
	const file = "../../scenarios/scheduler-autoscale.yaml"
	src, err := os.ReadFile(file)
	ok(t, err)
	sys := System()
	_, res, err := scenario.Decode(src, file, scenario.Options{Profile: profile,
		SystemNames: []string{sys.Name},
		Systems:     func(string) (sut.System, bool) { return sys, true }})
	ok(t, err)
	return *res.Params.(*Params)
}

// plannedSizes lets an orchestrator look every 15 seconds of business time at the tasks
// of a workload that have been asked for, all of which start when they are due. It
// returns the sizes and when the second was planned, after the beginning.
func plannedSizes(
	t *testing.T, seed uint64, p Params,
) (sizes []int, ready time.Duration) {
	t.Helper()
	load, err := System().Workload(seed, p)
	ok(t, err)
	const whole = 22 * time.Minute
	day := p.day()
	due, asked := map[time.Time]int64{}, uint64(0)
	o, now := orchestrator{}, p.Executors
	sizes = []int{now}
	for at := time.Duration(0); at < whole; at += 15 * time.Second {
		for ; float64(asked) < at.Seconds()/p.TimeScale*p.Rate; asked++ {
			req := load.(*workload).request(asked)
			due[req.At.Truncate(time.Minute)]++
		}
		rush := int64(0)
		for minute, n := range due {
			if in := minute.Sub(day.Add(at)); in > 0 && in <= p.Predict.D() {
				rush = max(rush, n)
			}
		}
		business := time.Unix(0, 0).Add(time.Duration(float64(at) / p.TimeScale))
		if wanted := o.decide(business, p, now, p.needed(rush, p.Work.D().Seconds())); wanted != now {
			if now = wanted; len(sizes) == 1 {
				ready = at
			}
			sizes = append(sizes, now)
		}
	}
	return sizes, ready
}
