package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/fault"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/scenarios"
	"stampede/systems"
)

// listing is one kind of thing that list shows: a heading, a value for JSON
// and rows for people.
type listing struct {
	heading string
	value   any
	rows    [][]string
}

func newList(a *app) *cobra.Command {
	var asJSON bool
	var out string
	kinds := []string{"scenarios", "variants", "invariants", "faults", "runs"}
	cmd := &cobra.Command{
		Aliases:   []string{"ls"},
		Use:       "list [scenarios|variants|invariants|faults|runs]",
		Short:     "List what there is to run, to judge and to read",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				kinds = args
			}
			return list(a.stdout, kinds, asJSON, out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.Flags().StringVar(&out, "out", "runs", "the folder of the runs")
	return cmd
}

func list(w io.Writer, kinds []string, asJSON bool, out string) error {
	document := map[string]any{}
	for i, kind := range kinds {
		l, err := listingOf(kind, out)
		if err != nil {
			return err
		}
		document[kind] = l.value
		if asJSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, l.heading)
		table(w, l.rows)
	}
	if asJSON {
		return writeJSON(w, document)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func listingOf(kind, out string) (listing, error) {
	switch kind {
	case "scenarios":
		return listScenarios()
	case "variants":
		return listVariants(), nil
	case "invariants":
		return listInvariants(), nil
	case "faults":
		return listFaults(), nil
	default:
		return listRuns(out)
	}
}

type scenarioItem struct {
	Name     string   `json:"name"`
	System   string   `json:"system"`
	Question string   `json:"question"`
	Variants []string `json:"variants"`
}

func listScenarios() (listing, error) {
	l := listing{heading: "Scenarios"}
	items := []scenarioItem{}
	for _, name := range scenarios.All() {
		plan, err := resolve(name, scenario.Options{})
		if err != nil {
			return l, err
		}
		items = append(items, scenarioItem{Name: name, System: plan.System.Name,
			Question: plan.Scenario.Question, Variants: plan.Scenario.Variants})
		l.rows = append(l.rows, []string{"  " + name, plan.Scenario.Question})
	}
	l.value = items
	return l, nil
}

type variantItem struct {
	System     string   `json:"system"`
	Name       string   `json:"name"`
	Idea       string   `json:"idea"`
	Guarantees string   `json:"guarantees"`
	GivesUp    string   `json:"gives_up"`
	Breaks     []string `json:"breaks"`
}

func listVariants() listing {
	l := listing{heading: "Variants"}
	items := []variantItem{}
	for _, s := range systems.All() {
		for _, v := range s.Variants {
			items = append(items, variantItem{System: s.Name, Name: v.Name, Idea: v.Idea,
				Guarantees: v.Guarantees, GivesUp: v.GivesUp, Breaks: breaks(v)})
			l.rows = append(l.rows, []string{"  " + s.Name, v.Name, v.Idea})
		}
	}
	l.value = items
	return l
}

// breaks says what a variant is known to break, and under what.
func breaks(v sut.Variant) []string {
	out := []string{}
	for _, b := range v.Breaks {
		out = append(out, b.Invariant+" under "+string(b.Under))
	}
	return out
}

type invariantItem struct {
	System    string `json:"system"`
	Name      string `json:"name"`
	Statement string `json:"statement"`
}

func listInvariants() listing {
	l := listing{heading: "Invariants"}
	items := []invariantItem{}
	for _, s := range systems.All() {
		for _, inv := range s.Invariants(s.Params()) {
			items = append(items, invariantItem{s.Name, inv.Name(), inv.Statement()})
			l.rows = append(l.rows, []string{"  " + s.Name, inv.Name(), inv.Statement()})
		}
	}
	l.value = items
	return l
}

type faultItem struct {
	Kind     string   `json:"kind"`
	Targets  []string `json:"targets"`
	Backends []string `json:"backends"`
	Does     string   `json:"does"`
	Proof    string   `json:"proof"`
}

func listFaults() listing {
	l := listing{heading: "Faults"}
	all := stores()
	items := []faultItem{}
	for _, kind := range fault.Kinds() {
		targets := kind.Targets(all)
		if kind.OnRoles() {
			targets = append(slices.Clone(targets), "a role")
		}
		items = append(items, faultItem{string(kind), targets, kind.Backends(), kind.Does(),
			kind.Proof()})
		l.rows = append(l.rows, []string{"  " + string(kind), strings.Join(targets, ", "),
			"on " + strings.Join(kind.Backends(), ", "),
			kind.Does() + " (proof: " + kind.Proof() + ")"})
	}
	l.value = items
	return l
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

func listRuns(out string) (listing, error) {
	l := listing{heading: "Runs"}
	entries, err := rundir.List(out)
	if err != nil {
		return l, withCode(exitEnvironment, err)
	}
	slices.SortFunc(entries, func(a, b rundir.Entry) int { return b.Started.Compare(a.Started) })
	for _, e := range entries {
		l.rows = append(l.rows, []string{"  " + e.Scenario, e.Verdict, e.Path})
	}
	l.value = entries
	return l, nil
}
