package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// offered is what a load offered, in the order of due times: what, and when it was due.
func offered(records []history.Record) []string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = fmt.Sprintf("%12d %d %s %s %s %d", r.Intended, r.Op.ID, r.Op.Kind, r.Op.Key,
			r.Op.Client, r.Op.Arg)
	}
	slices.Sort(list)
	return list
}

// keyed are operations that each have a key of their own, besides what follows from them.
type keyed struct{ pausing }

func (k keyed) Op(i uint64) history.Op {
	op := k.pausing.Op(i)
	op.Key, op.Client, op.Arg = fmt.Sprint("key-", i*i%31), fmt.Sprint("client-", i), int64(i%3)
	return op
}

// TestPartsOfferTheWhole: generators that split a load offer together what one offers, to the
// nanosecond, whatever their number.
func TestPartsOfferTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string, least, most int) int {
			return rapid.IntRange(least, most).Draw(rt, name)
		}
		process, err := arrival.Constant(float64(draw("rate", 1, 200)), time.Second)
		if err == nil && rapid.Bool().Draw(rt, "poisson") {
			process, err = arrival.Poisson(process)
		}
		if err != nil {
			rt.Fatal(err)
		}
		whole := Plan{MaxInFlight: 10_000, Queue: 10, Start: time.Second,
			Drain:    time.Duration(draw("drain", 0, 300)) * time.Millisecond,
			Timeout:  time.Duration(draw("timeout", 0, 50)) * time.Millisecond,
			Workload: once(time.Duration(draw("after", 0, 400)) * time.Millisecond)}
		if rapid.Bool().Draw(rt, "twice") {
			whole.Workload = keyed{pausing{again{whole.Workload.(script),
				sut.Resending(draw("resend", 0, 2)), 0}}}
		}
		takes, answers := wavering(time.Duration(draw("slow", 0, 40)) * time.Millisecond)
		seed := rapid.Uint64().Draw(rt, "seed")
		send := func(plan Plan) []history.Record {
			s, m := sim.New(1), new(memory)
			defer s.Close()
			if _, err := Simulate(t.Context(), plan, s, func(ctx context.Context, op history.Op,
			) (history.Reply, error) {
				sim.In(ctx).Do(s.Delay(takes(op)))
				return history.Reply{Value: 1}, answers(op)
			}, m, nil); err != nil {
				rt.Fatal(err)
			}
			return m.sorted(t)
		}
		whole.Arrivals = process.Start(seed)
		want := offered(send(whole))
		for _, n := range []int{1, 2, 4, draw("generators", 3, 9)} {
			var together []history.Record
			for i := range n {
				whole.Arrivals = process.Start(seed)
				plan, err := Part{i, n}.Plan(whole)
				if err != nil {
					rt.Fatal(err)
				}
				together = append(together, send(plan)...)
			}
			if got := offered(together); !slices.Equal(got, want) {
				rt.Fatalf("%d generators offered\n%s\nand one\n%s", n, strings.Join(got, "\n"),
					strings.Join(want, "\n"))
			}
		}
	})
}

// TestAPartIsSent: the generator that sends sends its part as it would be simulated. What is due
// together with the last arrival is sent even without a drain, also where another has that arrival.
func TestAPartIsSent(t *testing.T) {
	for _, drain := range []time.Duration{undrained, 20 * time.Millisecond} {
		send := func(of int) (all []history.Record) {
			for i := range of {
				synctest.Test(t, func(t *testing.T) {
					plan, err := Part{i, of}.Plan(Plan{Arrivals: every(t, 10*time.Millisecond, 20),
						Workload: once(15 * time.Millisecond), MaxInFlight: 100, Drain: drain})
					if err != nil {
						t.Fatal(err)
					}
					result, m, err := virtual(t, t.Context(), plan, takes(5*time.Millisecond))
					if err != nil {
						t.Fatal(err)
					}
					if want := time.Second + 190*time.Millisecond; result.LastDue != want {
						t.Errorf("the last due time of part %d of %d is %s, of the whole %s", i, of,
							result.LastDue, want)
					}
					all = append(all, m.sorted(t)...)
				})
			}
			return all
		}
		if got, want := offered(send(3)), offered(send(1)); !slices.Equal(got, want) {
			t.Errorf("three generators sent\n%s\nand one\n%s", strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
	}
}

// TestSharesAddUp: what may be in flight and what may wait is split without a rest.
func TestSharesAddUp(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		inFlight, queue := 0, 0
		for i := range n {
			plan, err := Part{i, n}.Plan(Plan{Arrivals: every(t, time.Second, 1), Workload: script{},
				MaxInFlight: 17, Queue: 5})
			if err != nil {
				t.Fatal(err)
			}
			inFlight, queue = inFlight+plan.MaxInFlight, queue+plan.Queue
		}
		if inFlight != 17 || queue != 5 {
			t.Errorf("%d generators have %d in flight and %d waiting", n, inFlight, queue)
		}
	}
}

// TestBadParts: what cannot be split is refused.
func TestBadParts(t *testing.T) {
	good := Plan{Arrivals: every(t, time.Second, 1), Workload: script{}, MaxInFlight: 2}
	users := Plan{Users: 3, Workload: script{}, MaxInFlight: 2}
	for _, c := range []struct {
		part Part
		plan Plan
		want string
	}{
		{Part{2, 2}, good, "no generator 2 of 2"}, {Part{-1, 2}, good, "no generator -1"},
		{Part{0, 0}, good, "no generator 0 of 0"}, {Part{0, 3}, good, "cannot be split among 3"},
		{Part{0, 2}, users, "need a schedule"},
	} {
		if _, err := c.part.Plan(c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.part, err, c.want)
		}
	}
}
