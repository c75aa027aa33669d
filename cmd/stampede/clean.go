package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env"
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
			removed, problems := 0, []error{}
			for _, provider := range providers() {
				sweeper, ok := provider.(env.Sweeper)
				if !ok {
					continue
				}
				what, err := sweeper.Sweep(ctx)
				removed += len(what)
				problems = append(problems, err)
				for _, w := range what {
					fmt.Fprintln(a.stdout, "removed", w)
				}
			}
			if removed == 0 {
				fmt.Fprintln(a.stdout, "nothing to remove")
			}
			return withCode(exitEnvironment, errors.Join(problems...))
		},
	}
}
