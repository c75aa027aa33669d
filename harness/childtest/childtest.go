// Package childtest starts a test's own binary again, as a child process that can be killed.
package childtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

// Start starts the test binary with a variable set, by which its TestMain knows that it is the
// child, and returns what the child prints. The child's standard input stays open for as long as
// the test's process lives. When the test ends the child is killed.
func Start(t testing.TB, variable, value string) (child *exec.Cmd, printed io.Reader) {
	t.Helper()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), variable+"="+value)
	child.Stderr = os.Stderr
	_, noInput := child.StdinPipe()
	printed, noOutput := child.StdoutPipe()
	if err := errors.Join(noInput, noOutput, child.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed: always an error
	})
	return child, printed
}
