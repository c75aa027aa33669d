package run

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stampede/harness/env"
	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// says checks what the observer was told.
func (b *bench) says(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if said := b.watcher.said(); !strings.Contains(said, text) {
			t.Errorf("%q is not in what was said: %s", text, said)
		}
	}
}

// failsAtOnce checks that a run fails for want of an environment, with a
// reason, and leaves nothing.
func (b *bench) failsAtOnce(t *testing.T, mentions string) {
	t.Helper()
	_, err := b.run(t)
	_, ok := errors.AsType[*EnvironmentError](err)
	if !ok || !strings.Contains(err.Error(), mentions) {
		t.Errorf("%v does not mention %q", err, mentions)
	}
	b.noRuns(t)
}

// guards counts the guards of a run.
type guards struct {
	started int
	stopped []bool
	// err is why none can be started, stopErr why it cannot be stopped.
	err, stopErr error
}

func (g *guards) start(string) (func(bool) error, error) {
	if g.err != nil {
		return nil, g.err
	}
	g.started++
	return func(keep bool) error {
		g.stopped = append(g.stopped, keep)
		return g.stopErr
	}, nil
}

func TestWithoutStoresNothingIsLeft(t *testing.T) {
	b := newBench(t, nil, design{name: "good"})
	b.provider.startErr = errBroken
	g := &guards{}
	b.opts.Guard = g.start
	b.failsAtOnce(t, "starting the stores: it is broken")
	if g.started != 1 || !slices.Equal(g.stopped, []bool{false}) {
		t.Errorf("%d guards were started, stopped %v", g.started, g.stopped)
	}

	b = newBench(t, nil, design{name: "good"})
	b.opts.Guard = (&guards{err: errBroken}).start
	b.failsAtOnce(t, "starting the guard: it is broken")
	if len(b.provider.clusters) > 0 {
		t.Error("stores were started without a guard")
	}

	b = newBench(t, nil, design{name: "good"})
	b.opts.Spec.Services = append(b.opts.Spec.Services, sut.Postgres)
	b.failsAtOnce(t, "the cluster has no postgres")
}

// TestCleanUp: what fails in a clean-up is told, and takes no verdict back.
func TestCleanUp(t *testing.T) {
	b := newBench(t, nil, design{name: "good"})
	g := &guards{}
	b.opts.Guard = g.start
	b.provider.closeErr = errBroken
	b.finish(t).is(t, "good", rundir.Pass)
	b.says(t, "stopping the stores: it is broken; stampede clean removes what is left")
	if said := b.watcher.said(); strings.Count(said, "stopping the stores") != 1 {
		t.Errorf("it is said otherwise than once: %s", said)
	}
	if !slices.Equal(g.stopped, []bool{false}) {
		t.Errorf("the guard was stopped %v", g.stopped)
	}

	for said, end := range map[string]func() error{"it is broken": fails, "panic: boom": panics} {
		b = newBench(t, nil, design{name: "good", close: end, gauge: func() (sut.Gauge, error) {
			return closer{gauge{one}, end}, nil
		}})
		b.provider.releaseErr = errBroken
		b.finish(t).is(t, "good", rundir.Pass)
		b.says(t, "cleaning up after good: closing good: "+said, "closing the gauge: "+said,
			"removing the variant's database: it is broken")
	}

	b = newBench(t, nil, design{name: "good"})
	b.provider.placeErr = errBroken
	b.finish(t).is(t, "good", rundir.Inconclusive, "making a place for good: it is broken")
}

// TestOwnFiles: a design that keeps files has an empty folder in each repeat, which goes with its
// database.
func TestOwnFiles(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var folders []string
		b := newBench(t, []string{"repeats=2"}, design{name: "good", files: func(folder string) {
			if found, err := os.ReadDir(folder); err != nil || len(found) > 0 {
				t.Errorf("%q has %v, %v", folder, found, err)
			}
			folders = append(folders, folder)
			if err := os.WriteFile(filepath.Join(folder, "log"), []byte("kept"), 0o600); err != nil {
				t.Error(err)
			}
		}})
		var kept []Place
		if keep {
			b.opts.Guard = (&guards{}).start
			b.opts.Kept = func(places []Place) { kept = places }
			b.provider.kept = true
		}
		b.finish(t).is(t, "good", rundir.Pass)
		if len(folders) != 2 || folders[0] == folders[1] || !filepath.IsAbs(folders[0]) {
			t.Errorf("the folders are %q", folders)
		}
		for i, folder := range folders {
			if _, err := os.Stat(filepath.Join(folder, "log")); keep != (err == nil) {
				t.Errorf("kept %t: %v", keep, err)
			}
			told := func(p Place) bool { return p.Folder == folder && p.Repeat == i }
			if keep && !slices.ContainsFunc(kept, told) {
				t.Errorf("nobody is told of %q: %+v", folder, kept)
			}
		}
	}
}

func TestStoresThatAreKept(t *testing.T) {
	b := newBench(t, []string{"repeats=2"}, design{name: "good"})
	g := &guards{}
	b.opts.Guard = g.start
	var kept []Place
	b.opts.Kept = func(places []Place) { kept = places }
	b.provider.kept = true
	b.finish(t).is(t, "good", rundir.Pass)
	if len(kept) != 2 || kept[1].Variant != "good" || kept[1].Repeat != 1 || kept[1].RedisURL == "" {
		t.Errorf("kept %+v", kept)
	}
	if !slices.Equal(g.stopped, []bool{true}) {
		t.Errorf("the guard was stopped %v", g.stopped)
	}

	// What cannot be kept is stopped: nobody was told where it is.
	b = newBench(t, nil, design{name: "good"})
	b.opts.Guard = (&guards{stopErr: errBroken}).start
	b.opts.Kept = func([]Place) { t.Error("stores are kept without their guard's consent") }
	b.provider.unreleased = true
	_, err := b.run(t)
	if err == nil || !strings.Contains(err.Error(), "keeping the stores: it is broken") {
		t.Errorf("the error is %v", err)
	}

	// An interrupted run keeps nothing.
	b = newBench(t, nil, design{name: "good", prepare: func() error { b.interrupt(); return nil }})
	b.opts.Kept = func([]Place) { t.Error("an interrupted run keeps its stores") }
	b.provider.unreleased = true // they go with the cluster
	b.finish(t).interrupted(t)
}

// listening is the URL of something that listens, which is all that is asked
// of a target here.
func listening(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

func TestAForeignServer(t *testing.T) {
	prepared := 0
	twice := func() error {
		if prepared++; prepared > 1 {
			return errBroken
		}
		return nil
	}
	for _, test := range []struct {
		name   string
		design design
		says   string
	}{
		{"cannot be had", design{prepare: fails}, "cannot be judged: preparing target: it is broken"},
		{"is lost later", design{prepare: twice}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, []string{"repeats=2"}, test.design)
			b.opts.Target, b.opts.Without = listening(t), map[string]string{"asked": "not said"}
			if test.says != "" {
				b.failsAtOnce(t, test.says)
				return
			}
			// What was recorded of the first repeat is not thrown away.
			e := b.finish(t)
			e.is(t, judge.TargetName, rundir.Inconclusive, "preparing target: it is broken")
			if n := len(e.records(t, judge.TargetName, 0)); n != 30 {
				t.Errorf("%d operations are recorded", n)
			}
		})
	}
}

// unbreakable is a provider whose stores a fault cannot touch.
type unbreakable struct{ *provider }

func (u unbreakable) Start(ctx context.Context, spec env.Spec) (env.Cluster, error) {
	c, err := u.provider.Start(ctx, spec)
	return external{c}, err
}

type external struct{ env.Cluster }

func (e external) Component(service sut.Service) env.Component {
	return struct{ env.Component }{e.Cluster.Component(service)}
}

func TestLimitsOfTheControlGroup(t *testing.T) {
	for text, want := range map[string]float64{
		"150000 100000": 1.5, "max 100000": 0, "": 0, "1 2 3": 0, "5 0": 0,
	} {
		if got := coresOf(text); got != want {
			t.Errorf("%q: %v cores, want %v", text, got, want)
		}
	}
	e := describeHost()
	plain := fingerprint(e)
	if e.CPULimitCores++; fingerprint(e) == plain {
		t.Error("another limit of cores is the same environment")
	}
}
