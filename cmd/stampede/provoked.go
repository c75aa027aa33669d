package main

import (
	"slices"

	"stampede/harness/scenario"
	"stampede/scenarios"
)

// provokedBy maps the designs of a plan that are known to be wrong to the built-in
// scenarios that provoke their errors, for the reports: what this scenario does not
// provoke can be tried there.
func provokedBy(plan resolved) map[string][]string {
	by := map[string][]string{}
	for _, name := range scenarios.All() {
		other, err := resolve(name, scenario.Options{})
		if err != nil || other.Scenario.System != plan.Scenario.System {
			continue // the built-in ones decode, which a test ensures
		}
		for _, v := range other.System.Variants {
			if !slices.Contains(plan.Scenario.Variants, v.Name) ||
				!slices.Contains(other.Scenario.Variants, v.Name) {
				continue
			}
			if len(other.Scenario.MustCatch(v)) > 0 {
				by[v.Name] = append(by[v.Name], name)
			}
		}
	}
	return by
}
