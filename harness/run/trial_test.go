package run

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// question is the scenario of every test here, but for its settings.
const question = `
name: ledger-test
question: Does the loop tell the truth?
system: ledger
load:
  arrival: {process: constant, rate: 3000, over: 10ms}
  max_in_flight: 8
  timeout: 10s
  drain: 20s
`

// long is a load for what ends it early, slow one with time for faults.
func long() []string { return []string{"load.arrival.over=1m", "load.arrival.rate=200"} }

func slow() []string { return []string{"load.arrival.over=150ms", "load.arrival.rate=200"} }

// bench runs designs of the ledger on stores in memory.
type bench struct {
	ledger   *ledger
	provider *provider
	watcher  *watcher
	opts     Options
	// soft and hard are the run's contexts; interrupt cancels soft.
	soft, hard context.Context
	interrupt  func()
}

// newBench makes a bench of some designs, with settings of the scenario.
func newBench(t *testing.T, set []string, designs ...design) *bench {
	t.Helper()
	st := newStore()
	b := &bench{ledger: &ledger{store: st, designs: designs}, provider: &provider{store: st},
		watcher: &watcher{}, hard: t.Context()}
	b.soft, b.interrupt = context.WithCancel(b.hard)
	t.Cleanup(b.interrupt)
	system := b.ledger.system()
	sc, res, err := scenario.Decode([]byte(question), "ledger-test.yaml", scenario.Options{
		Set: set, SystemNames: []string{system.Name},
		Systems: func(name string) (sut.System, bool) { return system, name == system.Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.opts = Options{Scenario: sc, System: system, Params: res.Params, Seed: 7, Root: t.TempDir(),
		Provider: b.provider, Spec: env.Spec{Services: []sut.Service{sut.Redis}},
		Observer: b.watcher, Now: time.Now}
	return b
}

// ended is a run that came to its end: what it returned and stored.
type ended struct {
	path    string
	summary rundir.Summary
	stored  *rundir.Run
}

// run runs and checks what holds of every run: nothing that was started is
// left, and what is stored is what was returned.
func (b *bench) run(t *testing.T) (ended, error) {
	t.Helper()
	path, summary, err := Run(b.soft, b.hard, b.opts)
	b.provider.verify(t)
	b.ledger.verify(t)
	e := ended{path: path, summary: summary}
	if path == "" {
		return e, err
	}
	var openErr error
	if e.stored, openErr = rundir.Open("", path); openErr != nil {
		t.Fatal(openErr)
	}
	return e, err
}

// finish is run for a run that must not fail, judged as if the machine had
// kept up.
func (b *bench) finish(t *testing.T) ended {
	t.Helper()
	e, err := b.run(t)
	if err != nil {
		t.Fatal(err)
	}
	e.agrees(t)
	e.rejudge(t, b.opts.System)
	return e
}

// agrees checks that the stored summary is the one that was returned.
func (e ended) agrees(t *testing.T) {
	t.Helper()
	stored, err := e.stored.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if stored.Verdict.Overall != e.summary.Verdict.Overall ||
		!slices.Equal(stored.Verdict.Reasons, e.summary.Verdict.Reasons) {
		t.Errorf("returned %+v, stored %+v", e.summary.Verdict, stored.Verdict)
	}
}

// rejudge judges the stored run as if the generator had been on time and used nothing,
// and nobody else the machine: how busy it is must not decide a test. Correctness may not
// change by it.
func (e *ended) rejudge(t *testing.T, system sut.System) {
	t.Helper()
	before := e.summary.Verdict
	e.tamper(t, system, func(trial *judge.Trial) {
		_ = os.Remove(filepath.Join(e.path, rundir.TelemetryName(trial.Variant, trial.Repeat)))
		trial.Generator = rundir.Generator{}
		if trial.Processor != nil {
			trial.Processor.Machine = nil
		}
	})
	if now := e.summary.Verdict; before.Correctness != now.Correctness {
		t.Errorf("judged %+v, then %+v", before, now)
	}
}

// tamper judges the stored run again, after a change to each of its trials.
func (e *ended) tamper(t *testing.T, system sut.System, change func(*judge.Trial)) {
	t.Helper()
	dir, err := rundir.Lock(e.path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, slot := range e.stored.Manifest.Slots {
		var trial judge.Trial
		data, err := os.ReadFile(dir.File(judge.TrialName(slot)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &trial)
		}
		if err == nil {
			change(&trial)
			data, err = json.Marshal(trial)
		}
		if err == nil {
			err = os.WriteFile(dir.File(judge.TrialName(slot)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := e.summary.Run
	e.summary, err = judge.Directory(t.Context(), dir, system, judge.End{
		Finished: run.Finished, Interrupted: run.Interrupted})
	if err != nil {
		t.Fatal(err)
	}
}

func (e ended) variant(t *testing.T, name string) rundir.Variant {
	t.Helper()
	for _, v := range e.summary.Variants {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("there is no variant %s", name)
	return rundir.Variant{}
}

// is checks a variant's verdict, and that its reasons mention some texts.
func (e ended) is(t *testing.T, name, verdict string, mentions ...string) {
	t.Helper()
	v := e.variant(t, name)
	if v.Verdict != verdict {
		t.Errorf("%s is %s, want %s: %q", name, v.Verdict, verdict, v.Reasons)
	}
	for _, text := range mentions {
		if !strings.Contains(strings.Join(v.Reasons, "\n"), text) {
			t.Errorf("%s: the reasons %q do not mention %q", name, v.Reasons, text)
		}
	}
}

// overall checks the run's verdict.
func (e ended) overall(t *testing.T, verdict string) {
	t.Helper()
	if got := e.summary.Verdict.Overall; got != verdict {
		t.Errorf("the run is %s, want %s: %q", got, verdict, e.summary.Verdict.Reasons)
	}
}

// records reads a repeat's history, which must be whole.
func (e ended) records(t *testing.T, name string, repeat int) []history.Record {
	t.Helper()
	path, err := e.stored.File(rundir.HistoryName(name, repeat))
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := history.Validate(h); err != nil || !h.Complete() {
		t.Errorf("the history of %s: %v, complete: %v", name, err, h.Complete())
	}
	records := []history.Record{}
	for rec, err := range h.All() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
	slices.SortFunc(records, func(a, b history.Record) int { return int(a.Seq) - int(b.Seq) })
	return records
}

// status is the verdict of one invariant.
func status(t *testing.T, verdicts []check.Verdict, name string) check.Verdict {
	t.Helper()
	for _, v := range verdicts {
		if v.Invariant == name {
			return v
		}
	}
	t.Fatalf("%s was not judged", name)
	return check.Verdict{}
}
