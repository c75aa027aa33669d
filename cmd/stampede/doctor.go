package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/env/doctor"
)

func newDoctor(a *app) *cobra.Command {
	var opts doctor.Options
	var fix, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what would be used here and what is missing; --fix installs it",
		Long: `Looks for what stampede stands on and says what each backend lacks. With --fix it
says what it is going to do and does it (Debian or Ubuntu, as root).`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.doctor(opts, fix, asJSON)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "install what is missing")
	cmd.Flags().BoolVar(&opts.Tests, "tests", false, "what the tests need is wanted too")
	cmd.Flags().BoolVar(&opts.Engine, "engine", false,
		"a docker engine, a browser and what the tests need are wanted too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func (a *app) doctor(opts doctor.Options, fix, asJSON bool) error {
	if fix {
		if err := doctor.Fix(a.interrupts.soft, opts, a.stderr, a.interrupts.beforeExit); err != nil {
			return a.failed(exitEnvironment, err)
		}
	}
	checks := doctor.Examine(a.interrupts.soft, opts)
	if asJSON {
		return writeJSON(a.stdout, checks)
	}
	rows, missing := [][]string{}, []string{}
	for _, c := range checks {
		mark := "ok"
		if !c.OK {
			mark = "missing"
			if c.Optional {
				mark = "optional"
			} else {
				missing = append(missing, c.Name)
			}
		}
		detail := c.Detail
		if !c.OK && c.Fix != "" {
			detail += " (" + c.Fix + ")"
		}
		rows = append(rows, []string{mark, c.Name, detail})
	}
	table(a.stdout, rows)
	if len(missing) > 0 {
		return withCode(exitEnvironment, fmt.Errorf("missing: %s; `stampede doctor --fix` "+
			"installs it on Debian and Ubuntu", strings.Join(missing, ", ")))
	}
	return nil
}
