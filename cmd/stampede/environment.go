package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/external"
	"stampede/harness/env/processes"
)

// flagsFromEnvironment sets the flags that were not given from STAMPEDE_*
// variables: --backend from STAMPEDE_BACKEND and so on.
func flagsFromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name := "STAMPEDE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value := os.Getenv(name)
		if flag.Changed || value == "" || failed != nil {
			return
		}
		failed = cmd.Flags().Set(flag.Name, value)
	})
	return failed
}

// providers are the backends, in the order in which auto prefers them.
func providers() []env.Provider {
	return []env.Provider{containers.New(), processes.New(), external.New()}
}
