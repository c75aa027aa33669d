package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/calibrate"
	"stampede/harness/env/processes"
	"stampede/harness/plain"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/reports/words"
)

// resolved is a decoded scenario with its system.
type resolved struct {
	Scenario scenario.Scenario
	scenario.Resolved
	// fitted is how the length of the load was chosen, nil where it was given.
	fitted *rundir.Fitted
}

// resolve finds and decodes a scenario; every problem is a usage error.
func resolve(name string, opts scenario.Options) (resolved, error) {
	src, err := findScenario(name)
	if err != nil {
		return resolved{}, err
	}
	sc, res, err := scenario.Decode(src.text, src.file, withSystems(opts))
	if err != nil {
		return resolved{}, usage(err)
	}
	return resolved{Scenario: sc, Resolved: res}, nil
}

func newDescribe(a *app) *cobra.Command {
	var opts scenario.Options
	var variant string
	var machine bool
	cmd := &cobra.Command{
		Use:   "describe <scenario>",
		Short: "Show a scenario's resolved plan and where each value comes from",
		Example: `  stampede describe flash-sale-100k --profile quick
  stampede describe --machine > here.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if machine {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if machine {
				return a.describeMachine()
			}
			plan, err := resolve(args[0], opts)
			if err != nil {
				return err
			}
			if variant != "" {
				return describeVariant(a.stdout, plan, variant)
			}
			return describe(a.stdout, plan, controlled(plan.Scenario.Profile))
		},
	}
	cmd.Flags().StringVar(&opts.Profile, "profile", "", scenario.ProfilesText)
	cmd.Flags().StringArrayVar(&opts.Set, "set", nil, "override a value: path=value")
	cmd.Flags().StringVar(&variant, "design", "", "describe one `design` instead")
	cmd.Flags().BoolVar(&machine, "machine", false, "measure this machine in two seconds and "+
		"print it as simulate --machine takes it")
	return cmd
}

// describeMachine prints what a simulation needs to know of this machine: what can be measured
// without a store. The rest is assumed, and a calibration measures more.
func (a *app) describeMachine() error {
	m := sim.DefaultMachine()
	m.Cores = runtime.NumCPU()
	m.Stalls = calibrate.Stalls(a.interrupts.soft, stallSpan)
	dir, _, err := processes.DataFolder()
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	flush, err := processes.FlushTime(dir)
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	m.Postgres.Fsync = sut.Duration(flush)
	text, err := scenario.ToYAML(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "# Measured are cores, stalls and fsync (its median); the rest is "+
		"assumed.\n%s", text)
	return err
}

// describe shows a plan. With control, the baseline runs once more at the end.
func describe(w io.Writer, plan resolved, control bool) error {
	sc := plan.Scenario
	load, err := run.PlanOf(sc, 1)
	if err != nil {
		return usage(err)
	}
	sends, err := sent(plan, load)
	if err != nil {
		return usage(err)
	}
	e, err := estimate(plan, len(sc.Variants), control)
	if err != nil {
		return usage(err)
	}
	textTable(w, [][]string{{fmt.Sprintf("%s (profile %s)", sc.Name, sc.Profile)}, {sc.Question}}, 0)
	fmt.Fprintln(w)
	rows := [][]string{{"Load", load.Text}}
	if sends != "" {
		rows = append(rows, []string{"Sends", sends})
	}
	textTable(w, append(rows, [][]string{
		{"Repeats", fmt.Sprintf("%d for each of %d designs", sc.Repeats, len(sc.Variants))},
		{"Time", e.String()},
		{"Needs", strings.Join(needs(plan), ", ")},
		{"Deployed", deployment(sc)},
	}...), 1)
	rows = nil
	for _, v := range chosen(plan) {
		rows = append(rows, []string{"  " + v.Name, strings.Join(breaks(v), ", ")})
	}
	fmt.Fprintln(w, "\nDesigns, and what each is known to break")
	textTable(w, rows, 1)
	fmt.Fprintln(w, "\nInvariants, and what must be true")
	textTable(w, invariantRows(plan), 1)
	rows = nil
	for _, o := range plan.Origins {
		rows = append(rows, []string{"  " + o.Path, o.Value, o.From})
	}
	fmt.Fprintln(w, "\nValues, and where each comes from")
	textTable(w, rows, 1)
	return nil
}

// mostCounted is how many scheduled operations are made to be counted.
const mostCounted = 2_000_000

// sent counts the scheduled operations of each kind, and how many clients send those of the
// first: "104,460 buy by 100,021 clients, 1,040 stock". It is empty where their number is a
// result, or too large.
func sent(plan resolved, load run.Plan) (string, error) {
	total := math.Ceil(load.Process.Mean())
	if plan.Scenario.Load.Users > 0 || total < 1 || total > mostCounted {
		return "", nil
	}
	workload, err := plan.System.Workload(load.WorkloadSeed, plan.Params)
	if err != nil {
		return "", err
	}
	kinds := workload.Kinds()
	counts, clients := map[string]int{}, map[string]bool{}
	for i := range uint64(total) {
		op := workload.Op(i)
		counts[op.Kind]++
		if op.Kind == kinds[0] && op.Client != "" {
			clients[op.Client] = true
		}
	}
	parts := []string{}
	for i, kind := range kinds {
		if counts[kind] == 0 {
			continue
		}
		part := plain.Count(int64(counts[kind])) + " " + kind
		if i == 0 && len(clients) > 0 {
			part += " by " + plain.Count(int64(len(clients))) + " clients"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", "), nil
}

// deployment says how the variants are put to work: "processes, 2 of api".
func deployment(sc scenario.Scenario) string {
	parts := []string{sc.Deploy}
	for _, role := range words.SortedKeys(sc.Replicas) {
		parts = append(parts, fmt.Sprintf("%d of %s", sc.Replicas[role], role))
	}
	return strings.Join(parts, ", ")
}

// chosen returns the scenario's variants in its order.
func chosen(plan resolved) []sut.Variant {
	out := []sut.Variant{}
	for _, name := range plan.Scenario.Variants {
		if v, ok := plan.System.Variant(name); ok {
			out = append(out, v)
		}
	}
	return out
}

// invariantRows are the invariants that a scenario's variants are held to, each with
// its statement and the variants of which it says nothing.
func invariantRows(plan resolved) [][]string {
	rows := [][]string{}
	for _, inv := range plan.System.Invariants(plan.Params) {
		without := []string{}
		for _, v := range chosen(plan) {
			if v.NotApplicable[inv.Name()] != "" {
				without = append(without, v.Name)
			}
		}
		statement := inv.Statement()
		switch {
		case len(without) == len(plan.Scenario.Variants):
			continue
		case len(without) > 0:
			statement += " (not judged: " + strings.Join(without, ", ") + ")"
		}
		rows = append(rows, []string{"  " + inv.Name(), statement})
	}
	return rows
}

func needs(plan resolved) []string {
	out := []string{}
	for _, v := range chosen(plan) {
		for _, service := range v.Needs {
			out = words.With(out, string(service))
		}
	}
	return out
}

func describeVariant(w io.Writer, plan resolved, name string) error {
	v, ok := plan.System.Variant(name)
	if !ok {
		known := variantNames(plan.System)
		return usage(fmt.Errorf("%s has no design %q; it has %s%s", plan.System.Name, name,
			strings.Join(known, ", "), didYouMean(name, known)))
	}
	rows := [][]string{{"Idea", v.Idea}, {"Guarantees", v.Guarantees}, {"Gives up", v.GivesUp}}
	for _, b := range breaks(v) {
		rows = append(rows, []string{"Breaks", b})
	}
	for _, role := range v.Roles {
		rows = append(rows, []string{"Role", role.Name + ": " + role.Summary + crashesAt(role.Places)})
	}
	if len(v.Places) > 0 {
		rows = append(rows, []string{"Role", "api: performs operations" + crashesAt(v.Places)})
	}
	for _, inv := range words.SortedKeys(v.NotApplicable) {
		rows = append(rows, []string{"Not judged", inv + ": " + v.NotApplicable[inv]})
	}
	fmt.Fprintf(w, "%s %s\n", plan.System.Name, v.Name)
	textTable(w, rows, 1)
	return nil
}

// crashesAt names the places at which a role can be made to crash.
func crashesAt(places []string) string {
	if len(places) == 0 {
		return ""
	}
	return " (places: " + strings.Join(places, ", ") + ")"
}

func variantNames(s sut.System) []string {
	out := make([]string, len(s.Variants))
	for i, v := range s.Variants {
		out[i] = v.Name
	}
	return out
}
