package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"stampede/harness/env/processes"
)

// kfakeCommand is how this program serves kfake, nil if it does not know where
// it is.
func kfakeCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil // a real broker needs none of this
	}
	return []string{self, "kfake"}
}

// newKfake is the process that takes Kafka's place where there is no Java.
func newKfake(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "kfake <folder> <port> <told>",
		Short:  "Serve kfake with its data in a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			port, err := strconv.Atoi(args[1])
			if err != nil {
				return usage(fmt.Errorf("kfake: port %q: %w", args[1], err))
			}
			return processes.ServeKfake(a.interrupts.soft, args[0], port, args[2])
		},
	}
}
