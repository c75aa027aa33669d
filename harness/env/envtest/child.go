package envtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"stampede/harness/childtest"
	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/processes"
	"stampede/harness/sut"
)

// asChild makes a test binary the process of a role or of an API.
const asChild = "STAMPEDE_TEST_CHILD"

// Parent executes the test binary again with a variable set, which makes it start stores,
// print what it made as JSON, which goes into made, and wait to be killed.
func Parent(t *testing.T, variable, value string, made any) *exec.Cmd {
	t.Helper()
	parent, printed := childtest.Start(t, variable, value)
	if err := json.NewDecoder(printed).Decode(made); err != nil {
		t.Fatalf("read the parent's answer: %v", err)
	}
	return parent
}

// Launcher deploys roles and APIs as processes of the test binary, whose
// TestMain must call Child.
func Launcher() env.Launcher {
	return processes.Launcher{Command: []string{os.Args[0]}, Environ: []string{asChild + "=1"}}
}

// Child ends the process with what came of it if it is one that Launcher has
// started: its arguments name one of the systems, a variant and a role. In any
// other process it does nothing.
func Child(systems ...sut.System) {
	if os.Getenv(asChild) == "" {
		return
	}
	admin.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := play(ctx, systems, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play is what stampede does with the arguments of deploy.Args.
func play(ctx context.Context, systems []sut.System, args []string) error {
	for _, s := range systems {
		for _, v := range s.Variants {
			role := args[len(args)-2]
			if slices.Equal(args, deploy.Args(s.Name, v.Name, role)) {
				return deploy.Child{System: s, Variant: v, Role: role, In: os.Stdin, Out: os.Stdout,
					Log: os.Stderr}.Run(ctx)
			}
		}
	}
	return fmt.Errorf("no system here plays %q", args)
}
