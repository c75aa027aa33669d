package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/fault"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/reports/answer"
	"stampede/scenarios"
	"stampede/systems"
)

// The kinds of things that list shows which are treated in a way of their own.
const (
	scenarioKind = "scenarios"
	designKind   = "designs"
	runKind      = "runs"
)

// listKinds are all kinds in the order of list --all.
func listKinds() []string {
	return []string{scenarioKind, designKind, "invariants", "faults", runKind}
}

// listOptions say what list shows.
type listOptions struct {
	what        string // a kind, a system's name for its scenarios, or ""
	all, asJSON bool
	out         string
}

func newList(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "list [scenarios|designs|invariants|faults|runs|<system>]",
		Aliases: []string{"ls"},
		Short:   "List scenarios by system, or designs, invariants, faults, runs",
		Long: `Lists the built-in scenarios by system, each with about how long it takes at the
default profile. A system's name shows the questions of its scenarios; a kind of thing
shows all of that kind; --all shows everything.`,
		Example: `  stampede list
  stampede list flashsale
  stampede list runs`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.what = args[0]
			}
			return list(a.stdout, o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "list everything")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON document")
	cmd.Flags().StringVar(&o.out, "out", "runs", "the folder of the runs")
	return cmd
}

func list(w io.Writer, o listOptions) error {
	kinds, system, err := o.kinds()
	if err != nil {
		return usage(err)
	}
	if len(kinds) == 0 && !o.asJSON {
		return listBriefly(w)
	}
	if len(kinds) == 0 {
		kinds = []string{scenarioKind}
	}
	document := map[string]any{}
	for i, kind := range kinds {
		value, rows, err := listed(kind, system, o.out)
		if err != nil {
			return err
		}
		if o.asJSON {
			name := kind
			if kind == designKind {
				name = "variants" // as in scenarios and summaries
			}
			document[name] = value
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, strings.ToUpper(kind[:1])+kind[1:])
		if kind == runKind { // paths are copied, so they stay whole
			table(w, rows)
		} else if len(rows) > 0 {
			textTable(w, rows, len(rows[0])-1)
		}
	}
	if o.asJSON {
		return writeJSON(w, document)
	}
	return nil
}

// kinds are those to be listed, none for the overview of scenarios. A system limits the
// scenarios to its own.
func (o *listOptions) kinds() (kinds []string, system string, err error) {
	switch what := o.what; {
	case o.all && what != "":
		return nil, "", errors.New("--all lists everything; leave out " + what)
	case o.all:
		return listKinds(), "", nil
	case what == "":
		return nil, "", nil
	case slices.Contains(listKinds(), what):
		return []string{what}, "", nil
	case slices.Contains(systemNames(), what):
		return []string{scenarioKind}, what, nil
	}
	known := append(listKinds(), systemNames()...)
	return nil, "", fmt.Errorf("there is no %q to list; expected one of %s%s", o.what,
		strings.Join(known, ", "), didYouMean(o.what, known))
}

// listBriefly prints a line for each system, its first scenario with the estimate and how many
// more there are, in 80 columns.
func listBriefly(w io.Writer) error {
	items, err := scenarioItems("")
	if err != nil {
		return err
	}
	for _, system := range systemNames() {
		own := slices.DeleteFunc(slices.Clone(items), func(i scenarioItem) bool {
			return i.System != system
		})
		if len(own) > 0 {
			fmt.Fprintf(w, "%-14s%-29s%-7s and %d more\n", system, own[0].Name, own[0].Estimate,
				len(own)-1)
		}
	}
	_, err = fmt.Fprintln(w, asCalled("Scenarios of a system, with their questions: "+
		"`stampede list <system>`.\nDetails: `stampede describe <scenario>`. Everything: "+
		"`stampede list --all`.\nTimes are estimates for all designs.", program()))
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// listed are the things of a kind: a value for JSON, and rows for people.
func listed(kind, system, out string) (value any, rows [][]string, err error) {
	switch kind {
	case scenarioKind:
		items, err := scenarioItems(system)
		for _, item := range items {
			rows = append(rows, []string{"  " + item.Name, item.Estimate, item.Question})
		}
		return items, rows, err
	case runKind:
		entries, err := rundir.List(out)
		slices.SortFunc(entries, func(a, b rundir.Entry) int { return b.Started.Compare(a.Started) })
		for _, e := range entries {
			verdict := e.Verdict
			if e.Simulated {
				verdict += " " + answer.SimulatedWord
			}
			rows = append(rows, []string{"  " + e.Scenario, verdict, e.Path})
		}
		return entries, rows, withCode(exitEnvironment, err)
	case designKind:
		value, rows = listDesigns()
	case "faults":
		value, rows = listFaults()
	default:
		value, rows = listInvariants()
	}
	return value, rows, nil
}

type scenarioItem struct {
	Name     string   `json:"name"`
	System   string   `json:"system"`
	Question string   `json:"question"`
	Variants []string `json:"variants"`
	// Estimate is about how long it takes, for people.
	Estimate string `json:"-"`
	// EstimateNS is the same as a number.
	EstimateNS int64 `json:"estimate_ns"`
}

// scenarioItems are the built-in scenarios, those of one system if it is named.
func scenarioItems(system string) ([]scenarioItem, error) {
	items := []scenarioItem{}
	for _, name := range scenarios.All() {
		plan, err := resolve(name, scenario.Options{})
		if err != nil {
			return nil, err
		}
		if system != "" && plan.System.Name != system {
			continue
		}
		e, err := estimate(plan, len(plan.Scenario.Variants), controlled(plan.Scenario.Profile))
		if err != nil {
			return nil, err
		}
		items = append(items, scenarioItem{Name: name, System: plan.System.Name,
			Question: plan.Scenario.Question, Variants: plan.Scenario.Variants,
			Estimate: estimateText(e.most), EstimateNS: e.most.Nanoseconds()})
	}
	return items, nil
}

type variantItem struct {
	System     string   `json:"system"`
	Name       string   `json:"name"`
	Idea       string   `json:"idea"`
	Guarantees string   `json:"guarantees"`
	GivesUp    string   `json:"gives_up"`
	Breaks     []string `json:"breaks"`
}

func listDesigns() (items []variantItem, rows [][]string) {
	for _, s := range systems.All() {
		for _, v := range s.Variants {
			items = append(items, variantItem{System: s.Name, Name: v.Name, Idea: v.Idea,
				Guarantees: v.Guarantees, GivesUp: v.GivesUp, Breaks: breaks(v)})
			rows = append(rows, []string{"  " + s.Name, v.Name, v.Idea})
		}
	}
	return items, rows
}

// breaks says what a variant is known to break, and under what.
func breaks(v sut.Variant) []string {
	out := []string{}
	for _, b := range v.Breaks {
		text := b.Invariant + " under " + string(b.Under)
		if b.Shows != "" {
			text += ", " + string(b.Shows)
		}
		out = append(out, text)
	}
	return out
}

type invariantItem struct {
	System    string `json:"system"`
	Name      string `json:"name"`
	Statement string `json:"statement"`
}

func listInvariants() (items []invariantItem, rows [][]string) {
	for _, s := range systems.All() {
		for _, inv := range s.Invariants(s.Params()) {
			items = append(items, invariantItem{s.Name, inv.Name(), inv.Statement()})
			rows = append(rows, []string{"  " + s.Name, inv.Name(), inv.Statement()})
		}
	}
	return items, rows
}

type faultItem struct {
	Kind     string   `json:"kind"`
	Targets  []string `json:"targets"`
	Backends []string `json:"backends"`
	Does     string   `json:"does"`
	Proof    string   `json:"proof"`
}

func listFaults() (items []faultItem, rows [][]string) {
	all := stores()
	for _, kind := range fault.Kinds() {
		targets := kind.Targets(all)
		if kind.OnRoles() {
			targets = append(slices.Clone(targets), "a role")
		}
		items = append(items, faultItem{string(kind), targets, kind.Backends(), kind.Does(),
			kind.Proof()})
		rows = append(rows,
			[]string{"  " + string(kind), strings.Join(targets, ", ") + ", on " +
				strings.Join(kind.Backends(), ", ")},
			[]string{"", kind.Does() + " (proof: " + kind.Proof() + ")"})
	}
	return items, rows
}

// stores are the services that any variant needs, all of which faults can be
// injected into.
func stores() []string {
	names := []string{}
	for _, s := range systems.All() {
		for _, v := range s.Variants {
			for _, service := range v.Needs {
				names = append(names, string(service))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
