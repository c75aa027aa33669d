package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stampede/harness/events"
	"stampede/harness/rundir"
)

// kept are the events in a run's directory.
func (e ended) kept(t *testing.T) []events.Event {
	t.Helper()
	file, err := os.Open(filepath.Join(e.path, events.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tail := events.Tail{File: file}
	found, err := tail.Next()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEventsAreKept: who follows a run's file is told what its observer is told, but
// for the load, and all that a run has in its summary.
func TestEventsAreKept(t *testing.T) {
	b := newBench(t, []string{"repeats=2", "load.warm_up=1ms"},
		design{name: "a"}, design{name: "b", do: func(_ context.Context, id uint64) error {
			if id == 3 {
				return errors.New("lost")
			}
			return nil
		}})
	e := b.finish(t)
	var progress events.Progress
	kept := e.kept(t)
	for _, event := range kept {
		progress.Add(event)
		if event.RunID != e.summary.Run.ID {
			t.Errorf("an event of the run %q", event.RunID)
		}
	}
	if p := progress.Plan; p == nil || p.Scenario != "ledger-test" || p.PID != os.Getpid() ||
		p.Directory != e.path || len(p.Slots) != 4 || p.LoadNS != 10e6 || p.WarmUpNS != 1e6 {
		t.Fatalf("the plan is %+v", progress.Plan)
	}
	if progress.Judged == nil || progress.Judged.Verdict.Overall == "" ||
		progress.Environment == nil || progress.Done() != 4 {
		t.Errorf("%+v", progress)
	}
	for i, v := range e.summary.Variants {
		l := progress.Lines[i]
		r := v.Repeats[1]
		if l.Variant != v.Name || l.Tick.Load != r.Load || !l.Finished() || l.Kind != "add" ||
			l.Main != r.Operations[0].Load {
			t.Errorf("%s: %+v, want %+v", v.Name, l, r)
		}
	}
	thinned := func(all []events.Event) []events.Type {
		types := []events.Type{}
		for _, event := range all {
			if event.Load == nil {
				types = append(types, event.Type)
			}
		}
		return types
	}
	if got, want := thinned(kept), thinned(b.watcher.events); !slices.Equal(got, want) {
		t.Errorf("kept %q\ntold %q", got, want)
	}
}

// TestEventsOfFaults: each begins and ends.
func TestEventsOfFaults(t *testing.T) {
	progress := &progress{Observer: &watcher{}, now: newBench(t, nil, design{name: "a"}).opts.Now}
	teller := progress.begin(rundir.Slot{Variant: "v", Repeat: 1, Order: 3}, 0)
	for _, inForce := range [][]string{{"a"}, {"a", "b"}, {"b"}, {}} {
		teller.faults(inForce)
	}
	got := []string{}
	for _, e := range progress.Observer.(*watcher).events {
		if f := e.Fault; f != nil {
			got = append(got, map[bool]string{true: "+", false: "-"}[f.On]+f.Fault)
			if f.Variant != "v" || f.Repeat.Repeat != 1 || f.Order != 3 {
				t.Errorf("%+v", f)
			}
		}
	}
	if strings.Join(got, " ") != "+a +b -a -b" {
		t.Error(got)
	}
}

// TestEventsOfAFailure: a run without a summary says why, and one that measured
// nothing leaves nothing.
func TestEventsOfAFailure(t *testing.T) {
	b := newBench(t, nil, design{name: "a"})
	b.watcher.entering = func(s step) {
		if s.phase != events.Judge {
			return
		}
		// Somebody removes where the judge writes to.
		folders, err := filepath.Glob(filepath.Join(b.opts.Root, "*", "*", "timeline"))
		if err != nil || len(folders) == 0 {
			t.Errorf("%q, %v", folders, err)
		}
		for _, folder := range folders {
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		}
	}
	e, err := b.run(t)
	if err == nil {
		t.Fatal("the run came to its end")
	}
	kept := e.kept(t)
	if last := kept[len(kept)-1]; last.RunFailed == nil || !strings.Contains(err.Error(),
		last.RunFailed.Error) {
		t.Errorf("the last event is %+v, the error %v", last, err)
	}
}
