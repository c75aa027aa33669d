package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// labStopTimeout bounds how long a lab takes to stop.
const labStopTimeout = closeTimeout + 30*time.Second

var labName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,40}$`)

func checkLabName(name string) error {
	if !labName.MatchString(name) {
		return fmt.Errorf("--name is %q; expected at most 40 letters, digits, dots, dashes and "+
			"underscores", name)
	}
	return nil
}

// labAddress is a lab's name as an abstract Unix socket, which the kernel frees when the lab
// ends, in whatever way: no file can be left that names a dead one.
func labAddress(name string) string { return fmt.Sprintf("@stampede-lab-%d-%s", os.Getuid(), name) }

// stopCommand is what stops a lab.
func stopCommand(name string) string {
	if name == "default" {
		return "stampede lab --stop"
	}
	return "stampede lab --stop --name " + name
}

// claimLab takes a name for as long as this process lives or until it is closed.
func claimLab(name string) (net.Listener, error) {
	claim, err := net.Listen("unix", labAddress(name))
	if !errors.Is(err, syscall.EADDRINUSE) {
		return claim, err
	}
	conn, pid, err := dialLab(name)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return nil, fmt.Errorf("a lab is running already, as process %d: stop it with `%s`, or give this "+
		"one another --name", pid, stopCommand(name))
}

// dialLab connects to the lab of a name, and says which process that is. Nothing is ever said on
// the connection; it ends when the lab does.
func dialLab(name string) (net.Conn, int, error) {
	conn, err := net.Dial("unix", labAddress(name))
	if err != nil {
		return nil, 0, err
	}
	pid, err := peer(conn.(*net.UnixConn))
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("find the process of the lab: %w", err), conn.Close())
	}
	return conn, pid, nil
}

// peer is the process at the other end, which must be of the same user.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var found *unix.Ucred
	control := raw.Control(func(fd uintptr) {
		found, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch {
	case control != nil || err != nil:
		return 0, errors.Join(control, err)
	case int(found.Uid) != os.Getuid():
		return 0, fmt.Errorf("user %d has taken its name", found.Uid)
	case found.Pid <= 0:
		return 0, errors.New("it is in another PID namespace")
	}
	return int(found.Pid), nil
}

// stopLab ends a lab and waits until its process is gone.
func (a *app) stopLab(name string) error {
	conn, pid, err := dialLab(name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		fmt.Fprintln(a.stdout, "no lab is running")
		return nil
	}
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	defer conn.Close()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return withCode(exitEnvironment, fmt.Errorf("stop the lab, process %d: %w", pid, err))
	}
	if err := conn.SetReadDeadline(time.Now().Add(labStopTimeout)); err != nil {
		return withCode(exitEnvironment, err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return withCode(exitEnvironment, fmt.Errorf("the lab, process %d, has not stopped within %s",
			pid, labStopTimeout))
	}
	fmt.Fprintf(a.stdout, "stopped the lab of process %d\n", pid)
	return nil
}
