package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"stampede/harness/env/containers"
)

// engineLog is where an engine that we start writes.
const engineLog = "/var/log/stampede-dockerd.log"

// engineBound is how long an engine may take to answer once it is started.
const engineBound = 30 * time.Second

// engineEndBound is how long an engine that failed may take to end: the next
// one would find its pidfile.
const engineEndBound = 10 * time.Second

// engineFlags are tried in order: as an administrator would start it; on file
// systems that cannot be stacked; where the kernel lacks what its firewall
// rules need, which the stores' own addresses can do without.
var engineFlags = [][]string{
	nil,
	{"--storage-driver=vfs"},
	{"--storage-driver=vfs", "--iptables=false", "--ip6tables=false"},
}

// startEngine starts dockerd: by the machine's service manager, if it has
// one, else as a process that goes on when this one ends.
func startEngine(ctx context.Context, m machine, out io.Writer) error {
	if m.systemd {
		if err := command(ctx, out, "systemctl", "start", "docker"); err != nil {
			return err
		}
		return awaitEngine(ctx, nil)
	}
	var errs []error
	for _, flags := range engineFlags {
		fmt.Fprintf(out, "+ dockerd %s >%s\n", strings.Join(flags, " "), engineLog)
		err := startDockerd(ctx, flags)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("dockerd %s: %w", strings.Join(flags, " "), err))
	}
	return errors.Join(errs...)
}

// startDockerd starts one dockerd and waits until it answers. One that does
// not has ended when this returns.
func startDockerd(ctx context.Context, flags []string) error {
	log, err := os.OpenFile(engineLog, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// Not bound to ctx: it is meant to outlive this process.
	cmd := exec.Command(locate("dockerd"), flags...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmp.Or(cmd.Wait(), errors.New("exit status 0"))
		close(ended)
	}()
	err = awaitEngine(ctx, ended)
	if err == nil {
		return nil
	}
	text, unread := os.ReadFile(engineLog) // before its end is in it too
	endProcess(cmd.Process, ended, engineEndBound)
	return errors.Join(fmt.Errorf("%w; its log ends: %s", err, lastLines(text, 3)), unread)
}

// endProcess asks a process to end, waits until it has, and kills it when that
// takes longer than the bound. The channel is closed when it has ended.
func endProcess(process *os.Process, ended <-chan error, bound time.Duration) {
	_ = process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-ended:
	case <-time.After(bound):
		_ = process.Kill()
		<-ended
	}
}

// awaitEngine polls until an engine answers or its process has ended.
func awaitEngine(ctx context.Context, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := containers.EngineVersion(ctx)
		if err == nil {
			return nil
		}
		select {
		case end := <-ended:
			return fmt.Errorf("it ended at start (%w)", end)
		case <-ctx.Done():
			return fmt.Errorf("it did not answer within %v: %w", engineBound, err)
		case <-tick.C:
		}
	}
}
