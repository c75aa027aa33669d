package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/kubernetes"
	"stampede/harness/env/processes"
	"stampede/harness/generators"
	"stampede/harness/run"
	"stampede/harness/scenario"
)

func newGenerate(a *app) *cobra.Command {
	var plan, index, out string
	cmd := &cobra.Command{
		Use:   "generate --plan <file>",
		Short: "Offer one part of a load, as the run that made the plan says",
		Long: `Sends one generator's part of the load of "stampede run --generators", when that run
says so, and hands over what it recorded. An engine starts it, on machines of its own; see
docs/beyond-one-machine.md.

The index counts from 0. Without --index it is JOB_COMPLETION_INDEX (a Kubernetes Job) or one
less than STAMPEDE_TASK_SLOT (Docker Swarm, which counts from 1).`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.generate(plan, index, out) },
	}
	fl := cmd.Flags()
	fl.StringVar(&plan, "plan", "", "the `file` with the plan")
	fl.StringVar(&index, "index", "", "which generator this is, counted from 0")
	fl.StringVar(&out, "out", "", "the folder for what is recorded, until it was handed over; by "+
		"default a new one")
	return cmd
}

func (a *app) generate(file, given, out string) (err error) {
	index, err := indexOf(given, os.Getenv)
	if err != nil {
		return usage(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usage(fmt.Errorf("--plan: expected the file of a plan: %w", err))
	}
	plan, err := generators.ReadPlan(file, text)
	if err != nil {
		return usage(err)
	}
	if out == "" {
		if out, err = os.MkdirTemp("", "stampede-generator-"); err != nil {
			return withCode(exitEnvironment, fmt.Errorf("making a folder: %w", err))
		}
		defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	}
	tuneRuntime()
	err = run.Generate(a.interrupts.soft, run.Generation{Plan: plan, Index: index, Folder: out,
		System: findSystem})
	if err != nil {
		return a.failed(exitEnvironment, err)
	}
	fmt.Fprintf(a.stderr, "generator %d of %d has handed over what it recorded\n", index+1,
		plan.Generators)
	return nil
}

// indexOf is which generator this is: as the flag says or, without one, as an engine does.
func indexOf(given string, getenv func(string) string) (int, error) {
	for _, said := range []struct {
		by, text string
		from     int
	}{
		{"--index", given, 0}, {"JOB_COMPLETION_INDEX", getenv("JOB_COMPLETION_INDEX"), 0},
		{"STAMPEDE_TASK_SLOT", getenv("STAMPEDE_TASK_SLOT"), 1},
	} {
		if said.text == "" {
			continue
		}
		n, err := strconv.Atoi(said.text)
		if err != nil || n < said.from {
			return 0, fmt.Errorf("%s is %q; expected a whole number of %d or more", said.by, said.text,
				said.from)
		}
		return n - said.from, nil
	}
	return 0, errors.New("which generator is this? --index says it, counted from 0")
}

// generatorFlags say who offers the load of a run.
type generatorFlags struct {
	count                    int
	engine, image, advertise string
	// place is where pods are.
	place kubernetes.Place
}

// engines are what places generators.
func engines() []string {
	return []string{generators.Local{}.Name(), containers.Swarm{}.Name(), kubernetes.Engine{}.Name()}
}

// elsewhere says that they are placed on other machines.
func (g *generatorFlags) elsewhere() bool {
	return g.used() && g.engine != generators.Local{}.Name()
}

// inPods says that they are placed on a Kubernetes.
func (g *generatorFlags) inPods() bool { return g.used() && g.engine == kubernetes.Engine{}.Name() }

func (g *generatorFlags) used() bool { return g.count > 0 }

// checkGenerators refuses flags of generators that contradict each other.
func (f *runFlags) checkGenerators() error {
	g := &f.generatorFlags
	switch {
	case f.changed("generators") && g.count < 1:
		return errors.New("--generators must be more than zero")
	case !g.used():
		for _, name := range []string{"engine", "generator-image", "advertise", "namespace"} {
			if typedFlag(f.changed, name) {
				return fmt.Errorf("--%s is for --generators", name)
			}
		}
		return nil
	case !slices.Contains(engines(), g.engine):
		return fmt.Errorf("--engine is %q; expected %s%s", g.engine, strings.Join(engines(), ", "),
			didYouMean(g.engine, engines()))
	case !f.elsewhere() && typedFlag(f.changed, "generator-image"):
		return errors.New("--generator-image is for --engine swarm or kubernetes")
	case !f.inPods() && typedFlag(f.changed, "namespace"):
		return errors.New("--namespace is for --engine kubernetes")
	case f.elsewhere() && f.advertise == "":
		return fmt.Errorf("--engine %s needs --advertise, an address of this machine that the nodes "+
			"reach", f.engine)
	case f.advertise != "" && net.ParseIP(f.advertise) == nil:
		return fmt.Errorf("--advertise is %q; expected an IP address of this machine", f.advertise)
	case f.elsewhere() && onlyHere(f.advertise):
		return fmt.Errorf("--advertise is %s, which is each node's own; expected an address of this "+
			"machine that the nodes reach", f.advertise)
	case f.sideBySide:
		return errors.New("--side-by-side: several generators offer the load of one design at a time")
	}
	return nil
}

// checkSplit refuses a load that several generators cannot offer.
func (f *runFlags) checkSplit(p resolved) error {
	sc := p.Scenario
	switch {
	case !f.used():
		return nil
	case p.System.Target == nil || p.System.Handler == nil:
		return usage(fmt.Errorf("--generators: %s has no HTTP API, at which they could meet",
			p.System.Name))
	case sc.SideBySide:
		return usage(fmt.Errorf("--generators: the designs of %s run side by side; --side-by-side=false "+
			"runs them one after the other", sc.Name))
	case sc.Load.Users > 0:
		return usage(fmt.Errorf("--generators: %s has closed-loop users, and so no schedule to split",
			sc.Name))
	case sc.Load.MaxInFlight < f.count:
		return usage(fmt.Errorf("--generators: load.max_in_flight is %d, less than one for each of %d",
			sc.Load.MaxInFlight, f.count))
	}
	return nil
}

// served lets the API be served where the load comes from other processes.
func (f *runFlags) served(set []string, sc scenario.Scenario) ([]string, bool) {
	if !f.used() || f.target != "" || sc.Deploy != deploy.InProcess {
		return set, false
	}
	return append([]string{"deploy=" + deploy.Processes}, set...), true
}

// placer is who places the generators, nil if this process offers the load.
func (f *runFlags) placer() (*run.Generators, error) {
	if !f.used() {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	// Those of one machine share its memory, and its cores: idle threads of one would look for work
	// at the cost of the others.
	share := []string{"GOMAXPROCS=" + strconv.Itoa(max(1, runtime.GOMAXPROCS(0)/f.count)), "GOGC=off",
		"GOMEMLIMIT=" + strconv.FormatInt(heapLimit(f.count), 10)}
	var engine env.Engine = generators.Local{Launcher: processes.Launcher{Command: []string{self},
		Environ: share}}
	switch f.engine {
	case containers.Swarm{}.Name():
		engine = containers.Swarm{Image: f.image}
	case kubernetes.Engine{}.Name():
		engine = kubernetes.Engine{Image: f.image, Place: f.place}
	}
	return &run.Generators{Count: f.count, Engine: engine, Host: f.advertise,
		TargetCA: string(f.given.authorityText)}, nil
}

// findPlacer is the placer of a run, which can do it. Where that is a Kubernetes, what dead runs
// left in the place, which is returned, goes first.
func (a *app) findPlacer(ctx context.Context, f runFlags) (
	g *run.Generators, place *kubernetes.Place, err error,
) {
	if f.inPods() { // from here on one place, whatever the configuration says later
		if f.place, err = f.place.Resolve(); err != nil {
			return nil, nil, err
		}
	}
	if g, err = f.placer(); err != nil || g == nil {
		return nil, nil, err
	}
	if err := g.Engine.Available(ctx); err != nil {
		return nil, nil, err
	}
	if f.inPods() {
		removed, _, err := f.place.Sweep(ctx, false)
		for _, what := range removed {
			a.logf("removed %s, which a dead run had left", what)
		}
		if err != nil {
			a.logf("cleaning up after dead runs: %v", err)
		}
		return g, &f.place, nil
	}
	return g, nil, nil
}

// showGenerators shows what an engine would be given.
func (f *runFlags) showGenerators(w io.Writer, plan resolved) error {
	g, err := f.placer()
	if err != nil || g == nil {
		return err
	}
	load, err := run.PlanOf(plan.Scenario, 1) // the seed changes little
	if err != nil {
		return usage(err)
	}
	shown, err := g.Engine.Show(env.Batch{RunID: "00000000", Name: "design.0", Count: g.Count,
		Within: run.Within(load.Over, plan.Scenario.Load)})
	fmt.Fprintf(w, "\nGenerators, for each repeat of a design\n%s", shown)
	return err
}
