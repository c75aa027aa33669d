package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/check"
	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
)

// searching is a search that is driven by a test.
type searching struct {
	app   *app
	flags kneeFlags
	lab   fakeLab
}

// fakeLab has designs that hold up to a rate.
type fakeLab struct {
	upTo    map[string]float64
	verdict knee.Verdict // above that; missed if it is empty
	fails   error        // of opening it
	failsAt float64      // the rate at which trying one fails
	stopAt  float64      // the rate at which the user interrupts
	tried   []string
	closed  int
}

func newSearching(t *testing.T, args ...string) *searching {
	t.Helper()
	files := outputs(t)
	soft, stop := context.WithCancelCause(t.Context())
	s := &searching{app: &app{stdout: files[0], stderr: files[1],
		argv:       append([]string{"knee"}, args...),
		interrupts: &interrupts{soft: soft, hard: t.Context(), stopSoft: stop}}}
	cmd := &cobra.Command{}
	s.flags.define(cmd)
	args = append(args, "--seed", "7", "--window", "2s", "--out", t.TempDir(),
		"--backend", "processes")
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	s.lab.upTo = map[string]float64{"redis_lua": 900, "for_update": 300}
	return s
}

// open is what opens a lab.
func (s *searching) open(k *kneeSearch) (tryRate, func() error, error) {
	if s.lab.fails != nil {
		return nil, nil, withCode(exitEnvironment, s.lab.fails)
	}
	return func(ctx context.Context, variant string, rate float64, seed uint64) (tried, error) {
		s.lab.tried = append(s.lab.tried, fmt.Sprintf("%s %v %d", variant, rate, seed))
		switch rate {
		case s.lab.failsAt:
			return tried{}, withCode(exitEnvironment, errors.New("the disk is full"))
		case s.lab.stopAt:
			s.app.interrupts.first(exitInterrupted, errInterrupted)
			return tried{}, ctx.Err()
		}
		t := tried{kind: "buy", environment: rundir.Environment{Backend: "processes", Cores: 2}}
		t.Window = knee.Window{Verdict: knee.Held, Count: 100, P50NS: 1e6, P99NS: 2e6,
			Run: "windows/x-1"}
		if rate > s.lab.upTo[variant] {
			t.Verdict, t.Reasons = knee.Missed, []string{"missed quick: 2 s, limit 1 s"}
			if s.lab.verdict != "" {
				t.Verdict = s.lab.verdict
			}
		}
		return t, nil
	}, func() error { s.lab.closed++; return nil }, nil
}

// run searches; it returns the exit code and what was printed.
func (s *searching) run(t *testing.T) (code int, out, errs string) {
	t.Helper()
	if err := s.app.knee("flash-sale-100k", s.flags, s.open); err != nil {
		code = exitCode(err)
	}
	return code, string(read(t, s.app.stdout.Name())), string(read(t, s.app.stderr.Name()))
}

// latest is the directory of the search and what it found.
func (s *searching) latest(t *testing.T) (dir string, found knee.Summary) {
	t.Helper()
	dir = filepath.Join(s.flags.out, "knee", "flash-sale-100k", rundir.Latest)
	if err := json.Unmarshal(read(t, filepath.Join(dir, knee.SummaryFile)), &found); err != nil {
		t.Fatal(err)
	}
	return dir, found
}

func TestKneeFindsAndTells(t *testing.T) {
	s := newSearching(t, "--design", "redis_lua,for_update", "--from", "100")
	code, out, errs := s.run(t)
	dir, found := s.latest(t)
	if code != exitOK || s.lab.closed != 1 || len(found.Variants) != 2 {
		t.Fatalf("exit code %d, closed %d times, %+v\n%s", code, s.lab.closed, found, errs)
	}
	if r := found.Variants[0].Result; r.Outcome != knee.Found || r.RatePerS > 900 ||
		r.AbovePerS <= 900 {
		t.Errorf("redis_lua: %+v", r)
	}
	page, err := os.ReadFile(filepath.Join(dir, rundir.ReportFile))
	if err != nil || !strings.Contains(string(page), "holds up to") {
		t.Errorf("the page: %v", err)
	}
	for _, want := range []string{"redis_lua", "for_update", "2/2 report=", "exit=0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "missed  done") || !strings.Contains(errs, "limit 1 s") ||
		!strings.Contains(errs, "seed 7") {
		t.Errorf("progress:\n%s", errs)
	}
	// Every window has a seed of its own, the same for every variant.
	if s.lab.tried[0] != "redis_lua 100 7" || s.lab.tried[1] != "redis_lua 200 8" ||
		!slices.Contains(s.lab.tried, "for_update 100 7") {
		t.Errorf("tried %q", s.lab.tried)
	}
	for _, w := range found.Variants[0].Result.Windows[:2] {
		if w.Seed != map[float64]uint64{100: 7, 200: 8}[w.RatePerS] {
			t.Errorf("%v/s has seed %d", w.RatePerS, w.Seed)
		}
	}
	want := "stampede knee flash-sale-100k --profile default --design redis_lua,for_update " +
		"--window 2s --from 100 --max 50000 --precision 0.1 --repeats 3 --again 1 --max-windows 40 " +
		"--seed 7 --backend processes"
	if found.Search.Reproduce != want {
		t.Errorf("reproduce: %s", found.Search.Reproduce)
	}
	if runs, err := rundir.List(s.flags.out); err != nil || len(runs) > 0 {
		t.Errorf("a search is listed as a run: %+v, %v", runs, err)
	}
}

func TestKneeExitCodes(t *testing.T) {
	one := []string{"--design", "redis_lua", "--from", "100"}
	for name, c := range map[string]struct {
		args   []string
		change func(*fakeLab)
		want   int
		found  int // variants in knee.json, -1 for no directory
	}{
		"held at --max":     {append(one, "--max", "500"), func(*fakeLab) {}, exitOK, 1},
		"broke something":   {one, func(l *fakeLab) { l.verdict = knee.Broke }, exitInvariant, 1},
		"not decided above": {one, func(l *fakeLab) { l.verdict = knee.Undecided }, exitOK, 1},
		"not decided": {one, func(l *fakeLab) { l.upTo, l.verdict = nil, knee.Undecided },
			exitUndecided, 1},
		"holds nowhere": {one, func(l *fakeLab) { l.upTo = nil }, exitObjective, 1},
		"no stores": {one, func(l *fakeLab) { l.fails = errors.New("no engine") },
			exitEnvironment, -1},
		"full disk at once": {one, func(l *fakeLab) { l.failsAt = 100 }, exitEnvironment, -1},
		"full disk later":   {one, func(l *fakeLab) { l.failsAt = 400 }, exitEnvironment, 1},
		"stopped at once":   {one, func(l *fakeLab) { l.stopAt = 100 }, exitInterrupted, -1},
		"stopped later":     {one, func(l *fakeLab) { l.stopAt = 400 }, exitInterrupted, 1},
		"a known-wrong one breaks": {[]string{"--design", "naive_read_write"},
			func(l *fakeLab) { l.verdict = knee.Broke }, exitOK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearching(t, c.args...)
			c.change(&s.lab)
			code, out, errs := s.run(t)
			if code != c.want || s.lab.fails == nil && s.lab.closed != 1 {
				t.Errorf("exit code %d, want %d; closed %d times\n%s%s", code, c.want, s.lab.closed,
					out, errs)
			}
			if c.found < 0 {
				if left, _ := filepath.Glob(filepath.Join(s.flags.out, "knee", "*", "*")); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				return
			}
			dir, found := s.latest(t)
			if len(found.Variants) != c.found ||
				found.Search.Interrupted != (c.want == exitInterrupted) {
				t.Errorf("%+v", found)
			}
			if _, err := os.Stat(filepath.Join(dir, rundir.ReportFile)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKneeStopsBetweenVariants: what was found before is kept.
func TestKneeStopsBetweenVariants(t *testing.T) {
	s := newSearching(t, "--design", "for_update,redis_lua", "--from", "100", "--max", "3000")
	s.lab.stopAt = 800 // which for_update never reaches
	code, out, _ := s.run(t)
	_, found := s.latest(t)
	if code != exitInterrupted || len(found.Variants) != 2 ||
		found.Variants[0].Result.Outcome != knee.Found ||
		found.Variants[1].Result.Outcome != knee.Stopped ||
		found.Variants[1].Result.HeldOncePerS != 400 || !strings.Contains(out, "INTERRUPTED") {
		t.Errorf("exit code %d: %+v\n%s", code, found.Variants, out)
	}
}

func TestKneeAsJSON(t *testing.T) {
	s := newSearching(t, "--design", "redis_lua", "--from", "100", "--format", "json")
	code, out, errs := s.run(t)
	var found knee.Summary
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != exitOK || errs != "" {
		t.Errorf("exit code %d, %v\n%s\n%s", code, err, out, errs)
	}
}

func planOf(t *testing.T, name string, args ...string) kneePlan {
	t.Helper()
	p, err := planKnee(name, newSearching(t, args...).flags, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKneePlan: a window is the scenario at a constant rate, without what a search
// leaves out, which is said.
func TestKneePlan(t *testing.T) {
	p := planOf(t, "flash-sale-redis-stall", "--set", "params.units=77", "--from", "250",
		"--objective", "p99(response) <= 1s")
	if slices.Contains(p.variants, "redis_lua_silent_retry") || len(p.warnings) == 0 {
		t.Errorf("variants %q, warnings %q", p.variants, p.warnings)
	}
	w, err := p.at("redis_lua", 250)
	if err != nil {
		t.Fatal(err)
	}
	sc := w.Scenario
	if sc.Load.Arrival.Process != "constant" || sc.Load.Arrival.Rate != 250 ||
		sc.Load.Arrival.Over.D() != 2*time.Second || len(sc.Faults) > 0 || sc.Repeats != 1 ||
		!slices.Equal(sc.Variants, []string{"redis_lua"}) || sc.Load.MinOperations != 0 ||
		len(sc.Provokes) > 0 || !strings.Contains(string(sc.Params), `"units":77`) {
		t.Errorf("%+v", sc)
	}
	for _, slo := range sc.SLOs {
		if o, err := check.ParseObjective(slo.Objective); err != nil || o.Part.Relation != "in" {
			t.Errorf("objective %s is about a fault that is left out (%v)", slo.Objective, err)
		}
	}
	text := strings.Join(p.warnings, "\n")
	for _, want := range []string{"its fault", "known to be wrong under this load and left out"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The first rate is a quarter of the scenario's own, and in bounds.
func TestKneeStartsFromTheScenario(t *testing.T) {
	p := planOf(t, "flash-sale-100k", "--profile", "smoke")
	// 0.1 % of unknown outcomes are judged from 1,000 operations on, in 2 s.
	if p.bounds.FromPerS != 750 || p.bounds.LeastPerS != 750 {
		t.Errorf("%+v", p.bounds)
	}
	if p = planOf(t, "flash-sale-100k"); p.bounds.FromPerS != 4400 || p.bounds.LeastPerS != 750 {
		t.Errorf("%+v", p.bounds)
	}
	if p = planOf(t, "flash-sale-100k", "--max", "1000"); p.bounds.FromPerS != 1000 {
		t.Errorf("%+v", p.bounds)
	}
	if p = planOf(t, "flash-sale-100k", "--from", "3"); p.bounds.LeastPerS != 3 {
		t.Errorf("%+v", p.bounds)
	}
}

// A Poisson process stays one, at a steady rate; objectives of flags are added.
func TestKneeKeepsGapsAndAddsObjectives(t *testing.T) {
	p := planOf(t, "flash-sale-100k", "--objective", "p99(response, buy) <= 100ms",
		"--set", "load.arrival={process: poisson, rate: 400, over: 1s}", "--design", "redis_lua")
	w, err := p.at("redis_lua", 1.5)
	if err != nil {
		t.Fatal(err)
	}
	a, slos := w.Scenario.Load.Arrival, w.Scenario.SLOs
	if a.Process != "constant" || !a.Poisson || a.Rate != 1.5 || len(slos) != 3 ||
		slos[2] != (scenario.SLO{Name: "flag-1", Objective: "p99(response, buy) <= 100ms"}) {
		t.Errorf("%+v, %+v", a, slos)
	}
}
