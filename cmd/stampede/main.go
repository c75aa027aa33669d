// Command stampede runs load scenarios on real stores, judges what happened
// and writes a report. See the README for a quickstart.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

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
		fmt.Fprintln(stderr, plain.Lines("stampede: "+asCalled(text, program())))
	}
	return code
}

// program is what to type to call this program again.
func program() string { return programOf(os.Args[0], exec.LookPath) }

// programOf is what was typed to call a program, unless look finds the same one as stampede.
func programOf(called string, look func(name string) (string, error)) string {
	found, err := look("stampede")
	if !strings.Contains(called, "/") || err == nil && sameFile(found, called) {
		return "stampede"
	}
	return plain.Word(called)
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// asCalled names a program in the commands that a text quotes, `stampede list`.
func asCalled(text, program string) string {
	return strings.ReplaceAll(text, "`stampede ", "`"+program+" ")
}
