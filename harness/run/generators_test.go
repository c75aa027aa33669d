package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/generators"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// goroutines is an engine whose generators are goroutines of this process.
type goroutines struct {
	system sut.System
	// missing is the index of one that does not start, -1 for none.
	missing int
	// change, if set, changes the plan of one of them.
	change func(index int, p *generators.Plan)

	mu      sync.Mutex
	cancels []context.CancelFunc
	ended   sync.WaitGroup
}

func (g *goroutines) Name() string                        { return "goroutines" }
func (g *goroutines) Available(context.Context) error     { return nil }
func (g *goroutines) Show(env.Batch) (string, error)      { return "", nil }
func (g *goroutines) Metered() []env.Metered              { return nil }
func (g *goroutines) State(context.Context, int) string   { return "a goroutine" }
func (g *goroutines) find(name string) (sut.System, bool) { return g.system, name == g.system.Name }

func (g *goroutines) Start(_ context.Context, b env.Batch) (env.Placed, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range b.Count {
		ctx, cancel := context.WithCancel(context.Background())
		g.cancels = append(g.cancels, cancel)
		if i == g.missing {
			b.Ended(i, "no such image")
			continue
		}
		plan, err := generators.ReadPlan("plan.yaml", b.Plan)
		if err != nil {
			return nil, err
		}
		if g.change != nil {
			g.change(i, &plan)
		}
		g.ended.Go(func() {
			if err := Generate(ctx, Generation{Plan: plan, Index: i, System: g.find,
				Folder: filepath.Join(b.Folder, fmt.Sprint(i))}); err != nil {
				b.Ended(i, err.Error())
			}
		})
	}
	return g, nil
}

// kill ends a generator without a word of its own.
func (g *goroutines) kill(index int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancels[index]()
}

func (g *goroutines) Stop(context.Context) error {
	g.mu.Lock()
	for _, cancel := range g.cancels {
		cancel()
	}
	g.cancels = nil
	g.mu.Unlock()
	g.ended.Wait()
	return nil
}

// spread is a bench whose load so many generators offer to a server.
func spread(t *testing.T, n int, set []string, d design) (*bench, *goroutines) {
	t.Helper()
	processors := runtime.GOMAXPROCS(0) // which loads side by side in one process do not restore
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	b := newBench(t, append([]string{"load.max_in_flight=16"}, set...), d)
	b.opts.Target = listening(t)
	engine := &goroutines{system: b.opts.System, missing: -1}
	b.opts.Generators = &Generators{Count: n, Engine: engine}
	return b, engine
}

// TestGeneratorsOfferWhatOneOffers, to the nanosecond, and nothing of theirs is left.
func TestGeneratorsOfferWhatOneOffers(t *testing.T) {
	ordered := func(list []offered) []offered {
		return slices.SortedFunc(slices.Values(list), func(a, b offered) int {
			return cmp.Compare(a.id, b.id)
		})
	}
	alone, _ := spread(t, 1, slow(), design{name: "good"})
	alone.opts.Generators = nil
	want := ordered(alone.finish(t).offered(t, "target", 0))
	for _, n := range []int{1, 2, 4} {
		b, _ := spread(t, n, slow(), design{name: "good"})
		e := b.finish(t)
		e.is(t, "target", rundir.Pass)
		if got := ordered(e.offered(t, "target", 0)); !slices.Equal(got, want) {
			t.Errorf("%d generators offered %v, and one %v", n, got, want)
		}
		repeat := e.variant(t, "target").Repeats[0]
		i := slices.IndexFunc(repeat.Validity, func(v rundir.Validity) bool {
			return v.Name == rundir.Clocks && v.OK
		})
		if i < 0 || repeat.Load.OK != int64(len(want)) {
			t.Errorf("%d generators: %+v, %+v", n, repeat.Load, repeat.Validity)
		}
		left, err := os.ReadDir(filepath.Join(e.path, "generators", "target.0"))
		if err != nil || len(left) > 0 {
			t.Errorf("%d generators left %v, %v", n, left, err)
		}
	}
}

// TestALostGenerator leaves no answer, and is named.
func TestALostGenerator(t *testing.T) {
	var engine *goroutines
	kill := sync.OnceFunc(func() { engine.kill(1) })
	b, engine := spread(t, 3, long(), design{name: "good",
		do: func(_ context.Context, id uint64) error {
			if id == 5 {
				kill()
			}
			return nil
		}})
	e := b.finish(t)
	e.is(t, "target", rundir.Inconclusive, "generator 2 of 3", "was lost")
	if repeat := e.variant(t, "target").Repeats[0]; len(repeat.Invariants) > 0 {
		t.Errorf("a part of a history was judged: %+v", repeat.Invariants)
	}
}

// TestInterruptedGenerators: what they offered until then is collected and judged.
func TestInterruptedGenerators(t *testing.T) {
	var b *bench
	b, _ = spread(t, 2, long(), design{name: "good", do: func(_ context.Context, id uint64) error {
		if id == 7 {
			b.interrupt()
		}
		return nil
	}})
	b.finish(t).interrupted(t)
}

// TestGeneratorsThatDoNotBegin are an error of the environment, of which nothing is left.
func TestGeneratorsThatDoNotBegin(t *testing.T) {
	for says, break_ := range map[string]func(*goroutines){
		"generator 2 of 2 was lost: no such image": func(g *goroutines) { g.missing = 1 },
		"another build of stampede": func(g *goroutines) {
			g.change = func(i int, p *generators.Plan) { p.Seed += uint64(i) }
		},
		"the token is not this run's": func(g *goroutines) {
			g.change = func(_ int, p *generators.Plan) { p.Token = "guessed" }
		},
		"has joined already": func(g *goroutines) {
			g.change = func(i int, p *generators.Plan) {}
		},
	} {
		t.Run(says, func(t *testing.T) {
			b, engine := spread(t, 2, slow(), design{name: "good"})
			if break_(engine); says == "has joined already" {
				b.opts.Generators.Engine = twice{engine}
			}
			b.failsAtOnce(t, says)
		})
	}
}

// twice starts every generator a second time, as an engine would that replaces them.
type twice struct{ *goroutines }

func (w twice) Start(ctx context.Context, b env.Batch) (env.Placed, error) {
	_, first := w.goroutines.Start(ctx, b)
	b.Folder += "-again"
	placed, second := w.goroutines.Start(ctx, b)
	return placed, errors.Join(first, second)
}

// TestAForeignPlan: what a plan cannot be is said with its place.
func TestAForeignPlan(t *testing.T) {
	good := generators.Plan{Run: "r", Generators: 2, Seed: 1, Operations: "x", Token: "t",
		Coordinator: "http://127.0.0.1:1", Scenario: "name: a\n\nsystem: ledger\n",
		TargetCA: "-----BEGIN CERTIFICATE-----\n"}
	if read, err := generators.ReadPlan("plan.yaml", good.File()); err != nil || read != good {
		t.Errorf("%+v, %v; want %+v", read, err, good)
	}
	bare := good // a file may lack its last newline
	bare.TargetCA = strings.TrimSuffix(good.TargetCA, "\n")
	if read, err := generators.ReadPlan("plan.yaml", bare.File()); err != nil || read != good {
		t.Errorf("%+v, %v; want %+v", read, err, good)
	}
	for text, want := range map[string]string{
		"run: r\ngenerators: 0\n":           "plan.yaml:2",
		"run: r\nsede: 3\n":                 "sede",
		"":                                  "plan.yaml",
		strings.Repeat("[", 300):            "plan.yaml",
		"run: r\ngenerators: 2\nseed: -1\n": "plan.yaml:3",
	} {
		if _, err := generators.ReadPlan("plan.yaml", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, _ := spread(t, 2, nil, design{name: "good"})
	for want, g := range map[string]Generation{
		"no 2": {Plan: good, Index: 2}, "the scenario of the plan": {Plan: good},
	} {
		g.Folder, g.System = t.TempDir(), (&goroutines{system: b.opts.System}).find
		if err := Generate(ctx, g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
