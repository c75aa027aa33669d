package main

import (
	"github.com/spf13/cobra"

	"stampede/harness/rundir"
	"stampede/scenarios"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:       "schema [scenario|summary]",
		Short:     "Print the JSON Schema of scenario files or of summary.json",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"scenario", "summary"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := scenarios.Schema()
			if args[0] == "summary" {
				text = rundir.SummarySchema()
			}
			_, err := a.stdout.Write(text)
			return err
		},
	}
}
