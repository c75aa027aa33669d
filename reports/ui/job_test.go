package ui

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestNobodySignalsTheDead: while something that the process has left behind still holds
// its standard error, the process itself is signalled no more.
func TestNobodySignalsTheDead(t *testing.T) {
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "exec 3<&0; cat <&3 >/dev/null & exit 5")
	cmd.Stdin = in
	j, err := startJob(cmd, "sale")
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		j.mu.Lock()
		over = j.over
		j.mu.Unlock()
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it never ends")
		}
	}
	if j.ended() {
		t.Error("its standard error is open, and it has ended")
	}
	if times, sent := j.interrupt(0); times != 0 || sent {
		t.Errorf("interrupted %d times: %v", times, sent)
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	<-j.done
	if state := j.state(); !state.Ended || state.Code != 5 {
		t.Errorf("%+v", state)
	}
}
