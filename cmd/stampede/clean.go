package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env/sweep"
)

func newClean(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what dead runs left: containers, processes, data folders",
		Long: `Removes the containers, processes and data folders of runs whose process is gone.
What belongs to a run that is still going on is left alone, and so are the run
directories under runs/.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := context.WithTimeout(a.interrupts.soft, 2*time.Minute)
			defer cancel()
			removed, err := sweep.All(ctx)
			for _, what := range removed {
				fmt.Fprintln(a.stdout, "removed", what)
			}
			if len(removed) == 0 {
				fmt.Fprintln(a.stdout, "nothing to remove")
			}
			return withCode(exitEnvironment, err)
		},
	}
}
