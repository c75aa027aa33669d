package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"stampede/harness/rundir"
)

// version is set by the linker.
var version = "dev"

// tool says which build this is.
func tool() rundir.Tool {
	t := rundir.Tool{Name: "stampede", Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			t.Commit = s.Value
		case "vcs.modified":
			t.Dirty = s.Value == "true"
		}
	}
	return t
}

func newVersion(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := tool()
			if asJSON {
				return writeJSON(a.stdout, t)
			}
			fmt.Fprintf(a.stdout, "stampede %s (%s)\n", t.Version, t.Go)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}
