package main

import (
	"github.com/spf13/cobra"

	"stampede/harness/events"
	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/reports/compare"
	"stampede/scenarios"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [scenario|summary|events|knee|compare]",
		Short: "Print a JSON Schema",
		Long: `Prints the JSON Schema of scenario files, of summary.json, of the events of a run,
of knee.json or of what compare --format json prints.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"scenario", "summary", "events", "knee", "compare"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := scenarios.Schema()
			switch args[0] {
			case "summary":
				text = rundir.SummarySchema()
			case "events":
				text = events.Schema()
			case "knee":
				text = knee.Schema()
			case "compare":
				text = compare.Schema()
			}
			_, err := a.stdout.Write(text)
			return err
		},
	}
}
