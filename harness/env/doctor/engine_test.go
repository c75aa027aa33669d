package doctor

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestEndProcessWaits: one that obeys has ended when it returns, by the signal
// it was sent, and one that does not is killed.
func TestEndProcessWaits(t *testing.T) {
	for name, c := range map[string]struct {
		trap  string
		bound time.Duration
		want  syscall.Signal
	}{
		"obeys":    {"-", time.Minute, syscall.SIGTERM},
		"is stuck": {"''", 50 * time.Millisecond, syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", "trap "+c.trap+" TERM; echo ready; exec sleep 600")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait(); close(ended) }()
			endProcess(cmd.Process, ended, c.bound)
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != c.want {
				t.Errorf("it ended with %v, want %v", status, c.want)
			}
		})
	}
}
