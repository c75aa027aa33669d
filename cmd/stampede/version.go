package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/rundir"
)

// The linker sets version and commit (make build).
var (
	version = "dev"
	commit  = ""
)

// tool describes this build.
func tool() rundir.Tool {
	info, _ := debug.ReadBuildInfo()
	return toolOf(version, commit, info)
}

// toolOf describes a build. What the linker set takes precedence over the version control
// data in the build information, which -buildvcs=false and builds outside of a repository
// leave out.
func toolOf(version, commit string, info *debug.BuildInfo) rundir.Tool {
	t := rundir.Tool{Name: "stampede", Version: version, Commit: commit, Go: runtime.Version(),
		Dirty: strings.HasSuffix(version, "-dirty")}
	if info == nil {
		return t
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			t.Commit = cmp.Or(t.Commit, s.Value)
		case "vcs.modified":
			t.Dirty = t.Dirty || s.Value == "true"
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
