package shed_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/sut"
	"stampede/systems/internal/shed"
)

const ms = time.Millisecond

// kind is a policy with its bounds.
type kind struct {
	name string
	make func() shed.Admission
	// limit of running requests and depth of the queue, 0 without one.
	limit, depth int
	// bursts are how many requests a class may admit while a more important one is refused; nil
	// where classes are not told apart.
	bursts []int
}

func kinds() []kind {
	return []kind{
		{"FIFO", func() shed.Admission { return shed.FIFO(3) }, 3, 0, nil},
		{"Depth", func() shed.Admission { return shed.Depth(3, 9, 6, 2) }, 3, 9, []int{0, 0, 0}},
		{"CoDel", func() shed.Admission { return shed.CoDel(3, 20, 5*ms, 10*ms) }, 3, 20, nil},
		{"Controlled", func() shed.Admission { return shed.Controlled(3, 20, 5*ms, 50*ms) }, 3, 20,
			nil},
		{"Buckets", func() shed.Admission { return shed.Buckets(3, 9, 50, 8, 4, 2) }, 3, 9,
			[]int{8, 4, 2}},
		{"Buckets with a full queue", func() shed.Admission {
			return shed.Buckets(3, 9, 2000, 20, 1, 1)
		}, 3, 9, []int{20, 1, 1}},
		{"Adaptive", func() shed.Admission { return shed.Adaptive(2, 6, 10*ms, 9, 6, 2) }, 6, 9,
			[]int{0, 0, 0}},
	}
}

// request is one that a test sends gap after the one before. It takes as long as work, and its
// caller's deadline is after patience.
type request struct {
	class               int
	gap, work, patience time.Duration
}

// forever is the patience of callers that must be answered by the policy.
const forever = 1000 * time.Hour

// load is some requests of three classes, of which a tenth loses patience.
func load(seed uint64, n int, gap, work time.Duration) []request {
	random := rand.New(rand.NewPCG(seed, 0))
	exp := func(mean time.Duration) time.Duration {
		return time.Duration(random.ExpFloat64() * float64(mean))
	}
	list := make([]request, n)
	for i := range list {
		list[i] = request{random.IntN(3), exp(gap), exp(work), forever}
		if random.IntN(10) == 0 {
			list[i].patience = 1 + exp(10*ms)
		}
		if random.IntN(4) == 0 {
			list[i].gap = 0
		}
	}
	return list
}

// result is what became of a request.
type result struct {
	request

	err     error
	took    time.Duration
	effects int
}

type work = func(context.Context) error

// server works on a request, as shed.Do does.
type server func(context.Context, shed.Admission, int, work) error

// violations sends requests one after the other and names the properties that did not hold.
func (k kind) violations(
	t *testing.T, admission func() shed.Admission, do server, list []request,
) (broken map[string]bool, stats shed.Stats) {
	broken = map[string]bool{}
	results := make([]result, len(list))
	synctest.Test(t, func(t *testing.T) {
		a := admission()
		var group sync.WaitGroup
		var mu sync.Mutex
		running, began, ended := 0, 0, 0
		watched := watch(a, &began, &ended)
		for i, r := range list {
			<-time.After(r.gap)
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), r.patience)
				defer cancel()
				began := time.Now()
				err := do(ctx, a, r.class, func(context.Context) error {
					mu.Lock()
					results[i].effects++
					running++
					broken["limit"] = broken["limit"] || running > k.limit
					mu.Unlock()
					<-time.After(r.work)
					mu.Lock()
					running--
					mu.Unlock()
					return nil
				})
				results[i].request, results[i].err, results[i].took = r, err, time.Since(began)
			})
			synctest.Wait()
			s := a.Stats()
			mu.Lock()
			if s.Offered != i+1 || s.Offered != s.Admitted+s.Refused+s.Left+s.Waiting {
				broken["conservation"] = true
			}
			broken["memory"] = broken["memory"] || k.depth > 0 && s.Waiting > k.depth
			broken["idle"] = broken["idle"] || s.Waiting > 0 && s.Running < s.Limit
			mu.Unlock()
		}
		group.Wait()
		stats = a.Stats()
		broken["conservation"] = broken["conservation"] || stats != counted(results, stats.Limit)
		// A request that is refused after it has waited is watched twice.
		broken["watched"] = watched && (ended != stats.Refused+stats.Left ||
			began < stats.Admitted || began > stats.Admitted+ended)
	})
	for _, r := range results {
		if refused := errors.Is(r.err, sut.ErrRefused); refused != (r.effects == 0) ||
			refused != (r.err != nil) {
			broken["effect"] = true
		}
		if r.took >= forever || r.patience == forever && errors.Is(r.err, shed.ErrLeft) {
			broken["wait"] = true
		}
	}
	if k.bursts != nil && k.inverted(results) {
		broken["priority"] = true
	}
	return broken, stats
}

// watch counts the decisions of a gate: requests that may begin or wait, and refusals.
func watch(a shed.Admission, began, ended *int) (watched bool) {
	g, watched := a.(*shed.Gate)
	if watched {
		g.Watch(func(_ context.Context, err error) {
			if err == nil {
				*began++
			} else {
				*ended++
			}
		})
	}
	return watched
}

// counted is what a gate's counts are when all requests have been answered.
func counted(results []result, limit int) shed.Stats {
	s := shed.Stats{Offered: len(results), Limit: limit}
	for _, r := range results {
		switch {
		case r.err == nil:
			s.Admitted++
		case errors.Is(r.err, shed.ErrLeft):
			s.Left++
		default:
			s.Refused++
		}
	}
	return s
}

// inverted says whether less important classes admit more than their burst between two refusals
// of a class, without any admission of that class or of a more important one.
func (k kind) inverted(results []result) bool {
	for class := range k.bursts {
		refused, admitted := false, make([]int, len(k.bursts))
		for _, r := range results {
			accepted := r.err == nil || errors.Is(r.err, shed.ErrLeft)
			switch {
			case accepted && r.class <= class:
				refused = false
			case accepted:
				admitted[r.class]++
			case r.class == class && !refused:
				refused = true
				clear(admitted)
			case r.class == class:
				for lower := class + 1; lower < len(k.bursts); lower++ {
					if admitted[lower] > k.bursts[lower] {
						return true
					}
				}
			}
		}
	}
	return false
}

// TestProperties: at any load, offered requests are those that are admitted, refused, gone or
// waiting; a refused one has had no effect and an admitted one has one; no caller waits for ever;
// limits of running and waiting requests hold; nobody waits for what is free; less important
// classes are refused first; and who watches sees each decision.
func TestProperties(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				list := load(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 300).Draw(rt, "n"),
					time.Duration(rapid.IntRange(1, 8).Draw(rt, "gap"))*ms,
					time.Duration(rapid.IntRange(1, 30).Draw(rt, "work"))*ms)
				broken, _ := k.violations(t, k.make, shed.Do, list)
				for name, is := range broken {
					if is {
						rt.Errorf("%s does not hold", name)
					}
				}
			})
		})
	}
}

// TestParallel: limits and counts hold for callers that run in parallel and do not wait for each
// other.
func TestParallel(t *testing.T) {
	for _, k := range kinds() {
		synctest.Test(t, func(t *testing.T) {
			a := k.make()
			var group sync.WaitGroup
			var running atomic.Int32
			for i := range 16 {
				group.Go(func() {
					for range 300 {
						_ = shed.Do(t.Context(), a, i%3, func(context.Context) error {
							if running.Add(1) > int32(k.limit) {
								t.Errorf("%s: more than %d run", k.name, k.limit)
							}
							runtime.Gosched()
							running.Add(-1)
							return nil
						})
					}
				})
			}
			group.Wait()
			if s := a.Stats(); s.Offered != 4800 || s.Running+s.Waiting+s.Left > 0 ||
				s.Admitted+s.Refused != s.Offered {
				t.Errorf("%s: %+v", k.name, s)
			}
		})
	}
}

// inverse takes the least important class for the most important one.
type inverse struct{ shed.Admission }

func (a inverse) Admit(ctx context.Context, class int) error {
	return a.Admission.Admit(ctx, 2-class)
}

// uncounted does not count refusals.
type uncounted struct{ shed.Admission }

func (a uncounted) Stats() shed.Stats {
	s := a.Admission.Stats()
	s.Refused = 0
	return s
}

// TestWrong: the properties catch wrong policies and servers, at a load that is shed.
func TestWrong(t *testing.T) {
	right := func(a shed.Admission) shed.Admission { return a }
	for _, wrong := range []struct {
		name, breaks string
		wrap         func(shed.Admission) shed.Admission
		do           server
	}{
		{"sheds the important first", "priority",
			func(a shed.Admission) shed.Admission { return inverse{a} }, shed.Do},
		{"counts no refusals", "conservation",
			func(a shed.Admission) shed.Admission { return uncounted{a} }, shed.Do},
		{"sheds after work", "effect", right,
			func(ctx context.Context, a shed.Admission, class int, do work) error {
				err := do(ctx)
				return errors.Join(err, shed.Do(ctx, a, class, func(context.Context) error {
					return nil
				}))
			}},
		{"drops silently", "effect", right,
			func(ctx context.Context, a shed.Admission, class int, do work) error {
				_ = shed.Do(ctx, a, class, do)
				return nil
			}},
		{"never tells", "wait", right,
			func(ctx context.Context, a shed.Admission, class int, do work) error {
				err := shed.Do(ctx, a, class, do)
				if err != nil {
					<-ctx.Done()
				}
				return err
			}},
		{"does not wait", "limit", right,
			func(ctx context.Context, _ shed.Admission, _ int, do work) error { return do(ctx) }},
	} {
		for _, k := range kinds() {
			if k.bursts == nil {
				continue // it tells no classes apart
			}
			admission := func() shed.Admission { return wrong.wrap(k.make()) }
			broken, _ := k.violations(t, admission, wrong.do, load(1, 300, 2*ms, 20*ms))
			if !broken[wrong.breaks] {
				t.Errorf("%s, %s: not caught by %s", k.name, wrong.name, wrong.breaks)
			}
		}
	}
}

// waiting starts a caller that waits, and returns where its answer comes.
func waiting(ctx context.Context, a shed.Admission) <-chan error {
	told := make(chan error, 1)
	go func() { told <- a.Admit(ctx, 0) }()
	synctest.Wait()
	return told
}

// TestLeaves: a caller whose context ends leaves the queue at once, and the next one begins.
func TestLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shed.FIFO(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
		defer cancel()
		began, first := time.Now(), <-waiting(ctx, a)
		gone, next := waiting(ctx, a), waiting(t.Context(), a)
		err := <-gone
		if first != nil || !errors.Is(err, shed.ErrLeft) || !errors.Is(err, sut.ErrRefused) ||
			!errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*ms {
			t.Errorf("first %v, then %v after %v", first, err, time.Since(began))
		}
		if err := a.Admit(ctx, 0); !errors.Is(err, shed.ErrLeft) {
			t.Errorf("with a context that had ended: %v", err)
		}
		a.Release(ms)
		if err := <-next; err != nil {
			t.Errorf("next: %v", err)
		}
		// One that goes in the moment in which it could begin does not begin.
		ctx, cancel = context.WithCancel(t.Context())
		gone = waiting(ctx, a)
		next = waiting(t.Context(), a)
		cancel()
		a.Release(ms)
		if err := <-gone; !errors.Is(err, shed.ErrLeft) {
			t.Errorf("gone: %v", err)
		}
		if err := <-next; err != nil {
			t.Errorf("next: %v", err)
		}
		a.Release(ms)
		want := shed.Stats{Offered: 6, Admitted: 3, Left: 3, Limit: 1}
		if got := a.Stats(); got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
		defer func() {
			if recover() == nil {
				t.Error("Release without Admit does not panic")
			}
		}()
		a.Release(ms)
	})
}

// admits offers some requests of a class and returns how many are admitted, and releases them.
func admits(a shed.Admission, class, n int) (admitted int) {
	for range n {
		if a.Admit(context.Background(), class) == nil {
			a.Release(0)
			admitted++
		}
	}
	return admitted
}

// TestBuckets: each class has its burst, and new tokens go to the most important one first.
func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shed.Buckets(1, 1, 100, 8, 4, 2)
		for _, one := range []struct {
			after       time.Duration
			class, want int
		}{
			{0, 2, 2}, {0, 1, 4}, {0, 0, 8}, // full at first
			{10 * ms, 1, 0}, {0, 0, 1}, // one token
			{100 * ms, 2, 0}, {0, 1, 2}, {0, 0, 8}, // ten
			{time.Hour, 9, 2}, {0, -1, 8}, // full again
		} {
			<-time.After(one.after)
			if got := admits(a, one.class, 20); got != one.want {
				t.Errorf("%+v: %d", one, got)
			}
		}
	})
}

// TestAdaptive: the limit falls once for all slow requests of a time, and none begins
// while more run; it rises by about one for each limit of fast ones.
func TestAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shed.Adaptive(10, 12, 10*ms, 5)
		for range 20 { // a limit that is not reached does not rise
			waiting(t.Context(), a)
			a.Release(ms)
		}
		for range 15 {
			waiting(t.Context(), a)
		}
		for _, one := range []struct {
			after, took             time.Duration
			limit, running, waiting int
		}{
			{2 * ms, 20 * ms, 9, 9, 5},
			{2 * ms, 20 * ms, 9, 9, 4}, // it began before the limit fell
			{30 * ms, 20 * ms, 8, 8, 4},
			{ms, 30 * ms, 8, 8, 3},
			{ms, 0, 8, 8, 2},
		} {
			<-time.After(one.after)
			a.Release(one.took)
			s := a.Stats()
			if s.Limit != one.limit || s.Running != one.running || s.Waiting != one.waiting {
				t.Errorf("after %+v: %+v", one, s)
			}
		}
		for _, one := range []struct{ n, limit int }{{8, 9}, {100, 12}} {
			for range one.n {
				waiting(t.Context(), a)
				a.Release(5 * ms)
			}
			if s := a.Stats(); s.Limit != one.limit {
				t.Errorf("after %d fast ones: %+v", one.n, s)
			}
		}
		for a.Stats().Running > 0 {
			a.Release(5 * ms)
		}
		if s := a.Stats(); s.Limit != 12 || s.Waiting > 0 || s.Refused > 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// TestCoDel: a request behind which none waits is not refused, however long it waits.
func TestCoDel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shed.CoDel(1, 10, 5*ms, 10*ms)
		for told := waiting(t.Context(), a); a.Stats().Offered < 20; {
			next := waiting(t.Context(), a)
			if err := <-told; err != nil {
				t.Fatal(err)
			}
			told = next
			<-time.After(50 * ms)
			a.Release(ms)
		}
	})
}

// TestControlled: while the queue was empty a short time ago the oldest request begins first and
// may wait for the interval, and else the newest, and only for the target.
func TestControlled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := shed.Controlled(1, 10, 5*ms, 50*ms)
		began := time.Now()
		<-waiting(t.Context(), a)
		old, second := waiting(t.Context(), a), waiting(t.Context(), a)
		a.Release(ms)
		if err := <-old; err != nil || len(second) > 0 {
			t.Errorf("the oldest: %v, and %d after it", err, len(second))
		}
		if err := <-second; !errors.Is(err, shed.ErrTimeout) || time.Since(began) != 50*ms {
			t.Errorf("the second: %v after %v", err, time.Since(began))
		}
		// From here on one waits all the time.
		began = time.Now()
		last := waiting(t.Context(), a)
		for range 5 {
			<-time.After(10 * ms)
			next := waiting(t.Context(), a)
			a.Release(ms)
			if err := <-last; err != nil || len(next) > 0 {
				t.Errorf("the oldest: %v, and %d after it", err, len(next))
			}
			last = next
		}
		<-time.After(ms)
		older, newest := waiting(t.Context(), a), waiting(t.Context(), a)
		a.Release(ms)
		if err := <-newest; err != nil || len(older)+len(last) > 0 {
			t.Errorf("the newest: %v, and %d, %d after it", err, len(older), len(last))
		}
		if err := <-older; !errors.Is(err, shed.ErrTimeout) || time.Since(began) != 56*ms {
			t.Errorf("the older: %v after %v", err, time.Since(began))
		}
		a.Release(ms)
		if err := <-last; err != nil {
			t.Errorf("the one that may wait for the interval: %v", err)
		}
	})
}
