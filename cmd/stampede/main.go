// Command stampede runs load scenarios on real stores, judges what happened
// and writes a report. See the README for a quickstart.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"stampede/harness/env/admin"
	"stampede/harness/plain"
)

func main() {
	cobra.EnableCommandSorting = false // the help shows commands by how much they are needed
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// Main runs the command line and returns the exit code. Results go to
// stdout, progress and errors to stderr; an error may quote somebody else.
func Main(args []string, stdout, stderr *os.File) int {
	admin.Quiet()
	a := &app{stdout: stdout, stderr: stderr, argv: args, interrupts: catchSignals()}
	defer a.interrupts.stop()
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(a.interrupts.hard)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, plain.Lines("stampede: "+text))
	}
	return code
}
