package env_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stampede/harness/env"
)

func TestSelfLives(t *testing.T) {
	self, err := env.OwnerOf("r")
	if err != nil {
		t.Fatal(err)
	}
	if self.PID != os.Getpid() || self.Started == 0 || self.RunID != "r" || self.Dead() {
		t.Errorf("%+v, dead: %v", self, self.Dead())
	}
	again := self
	again.Started++
	if !again.Dead() {
		t.Error("another process with the same pid passes for the owner")
	}
	host, container := again, again
	host.Host += "-other"
	container.Pids += "-other"
	if host.Dead() || container.Dead() {
		t.Error("a process of another host or container was declared dead")
	}
	if (env.Owner{Host: self.Host, Pids: self.Pids}).Dead() {
		t.Error("an owner without a pid was declared dead")
	}
}

func TestAnEndedProcessIsDeadBeforeItIsWaitedFor(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := env.StatOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	o, err := env.OwnerOf("r")
	if err != nil {
		t.Fatal(err)
	}
	o.PID, o.Started = cmd.Process.Pid, stat.Started
	if o.Dead() {
		t.Error("a living process was declared dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for !o.Dead() { // go test's own timeout bounds this
	}
	_ = cmd.Wait() // it was killed: always an error
	if !o.Dead() {
		t.Error("a process that is gone passes for alive")
	}
}

func TestParseStat(t *testing.T) {
	line := "17 (a) b ) c) T 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"
	got, err := env.ParseStat([]byte(line))
	if err != nil || got != (env.Stat{State: 'T', Started: 4242,
		CPU: 230 * time.Millisecond, Children: 270 * time.Millisecond}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", ")", "1 (x) S 1 2", strings.Replace(line, " T ", " TT ", 1),
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"} {
		if _, err := env.ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 5 1 1"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = env.ParseStat(data) })
}
