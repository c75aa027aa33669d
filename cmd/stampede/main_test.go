package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this binary as the command.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stampede": main})
}

// TestScripts runs testdata/script: the command as a user meets it. Scripts
// need no store unless their name begins with "store-".
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			// The distribution's stores are found on the caller's PATH.
			e.Setenv("PATH", e.Getenv("PATH")+":"+os.Getenv("PATH"))
			return nil
		},
	})
}

// exits is the command "exits CODE ARGS...": stampede with these arguments
// must end with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	err := ts.Exec("stampede", args[1:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("running stampede: %v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("stampede exited with %d, want %s", code, args[0])
	}
}
