package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/reports/compare"
	"stampede/reports/words"
)

// replayed is a stored run that is run again.
type replayed struct {
	run         rundir.RunInfo
	tool        rundir.Tool
	environment rundir.Environment
	without     map[string]string
}

func newReplay(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "replay <run>",
		Short: "Run a stored run again: same scenario, seed, designs and order",
		Long: `Runs what a stored run ran, from its resolved scenario. The load is the same; how
operations interleave is not. A line names each difference, such as another
version of a store or of stampede.

<run> is a directory, a scenario's name for its latest run, or latest.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.replay(args[0], f)
		},
	}
	f.defineRunning(cmd)
	f.defineOutput(cmd)
	return cmd
}

func (a *app) replay(which string, f runFlags) error {
	stored, err := openRun(f.out, which)
	if err != nil {
		return usage(err)
	}
	environment, err := stored.Environment()
	if err != nil {
		return usage(err)
	}
	if environment.Simulated() {
		return usage(fmt.Errorf("%s is a simulation; this repeats it: %s", stored.Path,
			stored.Manifest.Run.Reproduce))
	}
	without, err := judge.Exemptions(stored)
	if err != nil {
		return usage(err)
	}
	m := stored.Manifest
	f.replayed = &replayed{run: m.Run, tool: m.Tool, environment: environment, without: without}
	f.seed = strconv.FormatUint(m.Run.Seed, 10)
	f.noiseFloor = slices.ContainsFunc(m.Slots, func(s rundir.Slot) bool { return s.Control })
	f.backend, f.target = environment.Backend, m.Run.Target
	if f.target != "" {
		f.backend = "auto"
	}
	return a.runAll([]string{filepath.Join(stored.Path, rundir.ScenarioFile)}, f)
}

// differences says what is not as it was, one line each; nothing if r is nil.
func (r *replayed) differences(now rundir.Summary) []string {
	if r == nil {
		return nil
	}
	lines := []string{}
	differ := func(what, then, now string) {
		if then != now {
			lines = append(lines, fmt.Sprintf("%s: %s then, %s now", what, cmp.Or(then, "nothing"),
				cmp.Or(now, "nothing")))
		}
	}
	a, b := r.environment, now.Environment
	differ("stampede", build(r.tool), build(now.Tool))
	differ("due times", r.run.ArrivalDigest, now.Run.ArrivalDigest)
	for _, m := range compare.Environments(a, b) {
		differ(m.What, m.Base, m.Candidate)
	}
	for _, name := range words.SortedKeys(b.Components) {
		differ(name+" comes from", a.Components[name].Source, b.Components[name].Source)
	}
	return lines
}

func build(t rundir.Tool) string {
	text := t.Version + " " + t.Commit
	if t.Dirty {
		text += " with uncommitted changes"
	}
	return text + " " + t.Go
}
