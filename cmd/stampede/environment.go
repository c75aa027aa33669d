package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/env/containers"
	"stampede/harness/env/external"
	"stampede/harness/env/processes"
)

// alike are the flags that mean in every command what they mean in run.
var alike = []string{"out", "profile", "set", "postgres-url", "replica-url", "redis-url",
	"kafka-brokers", "across-machines"}

// flagsFromEnvironment sets the flags that were not given from STAMPEDE_*
// variables: --backend from STAMPEDE_BACKEND and so on. The variables are for
// the flags of run, which replay, check, serve and knee share; other commands
// take only those that mean the same there.
func flagsFromEnvironment(cmd *cobra.Command) error {
	if slices.Contains([]string{"calibrate", "generate"}, cmd.Name()) {
		return nil // whose --out is another thing
	}
	all := slices.Contains([]string{"run", "replay", "check", "serve", "knee"}, cmd.Name())
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !all && !slices.Contains(alike, flag.Name) {
			return
		}
		name := variable(flag.Name)
		value := os.Getenv(name)
		if flag.Changed || value == "" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			failed = usage(fmt.Errorf("%s: %w", name, err))
		}
	})
	return failed
}

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "STAMPEDE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// launcher starts what a scenario deploys as processes or containers: this very
// program. It is nil where all is in this process.
func launcher(way string) (env.Launcher, error) {
	if way != deploy.Processes && way != deploy.Containers {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if way == deploy.Containers {
		return &containers.Launcher{Program: self}, nil
	}
	return processes.Launcher{Command: []string{self}}, nil
}

// providers are the backends, in the order in which auto prefers them.
func providers() []env.Provider {
	return []env.Provider{containers.New(), processes.New(), external.New()}
}
