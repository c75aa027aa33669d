package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"stampede/harness/env"
	"stampede/harness/scenario"
	"stampede/reports/ui"
	"stampede/scenarios"
)

func newUI(a *app) *cobra.Command {
	var out, listen string
	var open bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that lists runs, follows them and starts new ones",
		Long: `Serves a page to this machine alone. It lists the runs in the folder, follows
running ones, including those started elsewhere, and starts a scenario, one at a time.

It prints the page's address with a token that lets your browser in. Ctrl-C ends it;
a run that it has started is interrupted then, judged and reported.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.ui(out, listen, open) },
	}
	cmd.Flags().StringVar(&out, "out", "runs", "the folder of the runs")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the address of this machine to listen "+
		"on; port 0 is a free one")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in the browser")
	return cmd
}

// ui serves the page until the user ends it.
func (a *app) ui(out, listen string, open bool) error {
	choices, err := startable()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	listener, err := ui.Listen(listen)
	if err != nil {
		return usage(err)
	}
	server := ui.New(ui.Options{Root: out, Scenarios: choices, Backends: backends(),
		Command: func(args ...string) *exec.Cmd { return exec.Command(self, args...) },
		Logf:    a.logf}, listener.Addr())
	a.interrupts.beforeExit(server.Abandon)
	fmt.Fprintln(a.stdout, server.URL())
	if open {
		if err := a.openPage(server.OnceURL()); err != nil {
			a.logf("stampede: %v", err)
		}
	}
	if err := server.Serve(a.interrupts.soft, listener); err != nil {
		return withCode(exitEnvironment, err)
	}
	// Being ended is how it ends, unless that was by force.
	if why := context.Cause(a.interrupts.soft); why != nil && !errors.Is(why, errInterrupted) {
		return why
	}
	return nil
}

// startable are the built-in scenarios, with what can be chosen for each.
func startable() (choices []ui.Scenario, err error) {
	for _, name := range scenarios.All() {
		plan, err := resolve(name, scenario.Options{})
		if err != nil {
			return nil, err
		}
		c := ui.Scenario{Name: name, Question: plan.Scenario.Question, System: plan.System.Name,
			Variants: plan.Scenario.Variants, Known: map[string]bool{},
			Profiles: []string{plan.Scenario.Profile}} // the default comes first
		for _, profile := range scenario.Profiles() {
			if profile == plan.Scenario.Profile {
				continue
			}
			if _, err := resolve(name, scenario.Options{Profile: profile}); err == nil {
				c.Profiles = append(c.Profiles, profile)
			}
		}
		for _, v := range plan.System.Variants {
			c.Known[v.Name] = len(v.Breaks) > 0
		}
		choices = append(choices, c)
	}
	return choices, nil
}

// backends are those that a page can choose: external ones if their addresses are in
// the environment, which the runs inherit.
func backends() []string {
	names := []string{"auto", env.Containers, env.Processes}
	for _, variable := range []string{"POSTGRES_URL", "REDIS_URL", "KAFKA_BROKERS"} {
		if os.Getenv("STAMPEDE_"+variable) != "" {
			return append(names, env.External)
		}
	}
	return names
}
