package main

import (
	"github.com/spf13/cobra"

	"stampede/harness/events"
	"stampede/harness/knee"
	"stampede/harness/rundir"
	"stampede/scenarios"
)

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema [scenario|summary|events|knee]",
		Short: "Print the JSON Schema of scenario files, of summary.json, of the events of " +
			"a run or of knee.json",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"scenario", "summary", "events", "knee"},
		RunE: func(_ *cobra.Command, args []string) error {
			text := scenarios.Schema()
			switch args[0] {
			case "summary":
				text = rundir.SummarySchema()
			case "events":
				text = events.Schema()
			case "knee":
				text = knee.Schema()
			}
			_, err := a.stdout.Write(text)
			return err
		},
	}
}
