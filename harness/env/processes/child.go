package processes

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// child is a started process.
type child struct {
	pid int
	// done is closed when the process has ended and was waited for.
	done chan struct{}
	// err is how it ended; read it only after done.
	err error
	// used is the most CPU time that its processes were seen to have used.
	used time.Duration
}

// spawn starts a command in a process group of its own, so that Ctrl-C in a
// terminal does not reach it, and asks the kernel to send it a last signal when
// stampede dies in whatever way.
func spawn(cmd *exec.Cmd, who *syscall.Credential, last syscall.Signal) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true,
		Pdeathsig:  last,
		Credential: who,
	}
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(c.done)
		// The kernel sends the signal when the thread that forked ends, not
		// the process. This one is kept for the child's whole life and then
		// ends with its goroutine.
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// servant is the user that a store runs as: nil, which is ourselves, unless
// we are root, whom Postgres refuses to serve.
func servant(names ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s has no numeric id: %w", name, err)
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s has no numeric group: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("stores do not run as root, and there is no user %v or nobody; create "+
		"one, or run stampede as another user", names)
}

// own gives a folder or file to the user that a store runs as.
func own(path string, who *syscall.Credential) error {
	if who == nil {
		return nil
	}
	if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
		return fmt.Errorf("hand %s to user %d: %w", path, who.Uid, err)
	}
	return nil
}

// environment is all that a store's process sees of ours: the user's own
// PGPORT or LC_ALL must not change a run.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
