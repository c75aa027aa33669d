package processes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stampede/harness/env"
)

// homePrefix starts the name of every folder that this package makes.
const homePrefix = "stampede-"

// ownerFile in a home says whose it is.
const ownerFile = "owner.json"

// roots lists where homes may be, the best first: a folder that the user
// named, then /var/tmp, which is on a disk, then the temporary folder, which
// on many systems is memory, where a flush costs nothing and means nothing.
func roots() []string {
	list := []string{"/var/tmp", os.TempDir()}
	if named := os.Getenv("STAMPEDE_DATA_DIR"); named != "" {
		list = []string{named}
	}
	return slices.Compact(list)
}

// inRoot tries the roots, the best first, until one takes what is done to it.
func inRoot(do func(root string) error) error {
	var failures []string
	for _, root := range roots() {
		err := passable(root)
		if err == nil {
			err = do(root)
		}
		if err == nil {
			return nil
		}
		failures = append(failures, err.Error())
	}
	return errors.New(strings.Join(failures, "; "))
}

// DataFolder is the first folder that could hold the data of a run, and the
// kind of its file system.
func DataFolder() (dir, system string, err error) {
	err = inRoot(func(root string) error {
		if err := unix.Access(root, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		dir, system = root, fileSystem(root)
		return nil
	})
	return dir, system, err
}

// home is the folder that holds the data of one cluster. It is not in the
// run's folder: that may lie under /root, where the user that Postgres runs
// as cannot go.
type home struct {
	dir      string
	watchdog *watchdog
}

// newHome makes a home in the first root that takes one, and a watchdog
// which removes it if we cannot.
func newHome(runID string) (*home, error) {
	dir, err := makeHome(runID)
	if err != nil {
		return nil, err
	}
	dog, err := startWatchdog(dir)
	if err != nil {
		return nil, removeAfter(dir, err)
	}
	return &home{dir: dir, watchdog: dog}, nil
}

// removeAfter removes dir after err stopped its making.
func removeAfter(dir string, err error) error {
	if rm := os.RemoveAll(dir); rm != nil {
		return fmt.Errorf("%w; and remove %s: %w", err, dir, rm)
	}
	return err
}

var unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func makeHome(runID string) (dir string, err error) {
	pattern := homePrefix + unsafeInName.ReplaceAllString(runID, "_") + "-*"
	err = inRoot(func(root string) (err error) {
		if dir, err = os.MkdirTemp(root, pattern); err != nil {
			return err
		}
		// Others may pass through to their own folder, but list nothing.
		if err := os.Chmod(dir, 0o711); err != nil {
			return removeAfter(dir, fmt.Errorf("open a data folder to its users: %w", err))
		}
		if err := writeOwner(dir, runID); err != nil {
			return removeAfter(dir, err)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("no place for data (set STAMPEDE_DATA_DIR): %w", err)
	}
	return dir, nil
}

// passable says whether the users that stores run as can get into a folder.
// Only root gives stores to another user than itself.
func passable(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for ; ; resolved = filepath.Dir(resolved) {
		info, err := os.Stat(resolved)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s: stores do not run as root, and other users cannot enter %s",
				dir, resolved)
		}
		if resolved == filepath.Dir(resolved) {
			return nil
		}
	}
}

func writeOwner(dir, runID string) error {
	self, err := env.OwnerOf(runID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(self)
	if err != nil {
		return fmt.Errorf("encode the owner of a data folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), data, 0o600); err != nil {
		return fmt.Errorf("sign a data folder: %w", err)
	}
	return nil
}

// close ends what still works in the home and removes it.
func (h *home) close() error {
	h.watchdog.release()
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("remove the data folder: %w", err)
	}
	return nil
}

// watchdog is a shell that waits for the end of its standard input, which is
// when we are gone, even by SIGKILL. Then it ends every process in the home,
// frozen ones included, and removes the home. The kernel's parent-death
// signal reaches our children only, and a frozen Postgres does nothing about it;
// so they are woken first, and killed two seconds later or sooner.
type watchdog struct {
	shell *child
	pipe  io.Closer
}

const watchdogScript = `cat >/dev/null
began=$(date +%s)
while [ $(($(date +%s) - began)) -lt 8 ]; do
  left=
  signal=CONT
  [ $(($(date +%s) - began)) -lt 2 ] || signal=KILL
  for p in /proc/[0-9]*; do
    case "$(readlink "$p/cwd" 2>/dev/null)" in
      "$1"/*) kill -$signal "${p#/proc/}" 2>/dev/null; left=yes ;;
    esac
  done
  [ -z "$left" ] && break
  sleep 0.1
done
rm -rf "$1"`

func startWatchdog(dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "stampede-watchdog", dir)
	cmd.Env, cmd.Dir = environment(), "/"
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the watchdog's pipe: %w", err)
	}
	defer reader.Close()
	cmd.Stdin = reader
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		writer.Close()
		return nil, fmt.Errorf("start the watchdog of a data folder: %w", err)
	}
	shell := &child{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		defer close(shell.done)
		shell.err = cmd.Wait()
	}()
	return &watchdog{shell: shell, pipe: writer}, nil
}

// watchdogBound is how long the watchdog may take to clean up.
const watchdogBound = 15 * time.Second

// release lets the watchdog clean up now and waits until it has.
func (w *watchdog) release() {
	_ = w.pipe.Close() // nothing was written to it
	select {
	case <-w.shell.done:
	case <-time.After(watchdogBound):
		_ = syscall.Kill(w.shell.pid, syscall.SIGKILL) // the caller removes the rest
	}
}

// fileSystem names the kind of file system that holds a path.
func fileSystem(path string) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return "unknown"
	}
	switch int64(stat.Type) { //nolint:unconvert // it is narrower on 32-bit machines
	case unix.TMPFS_MAGIC:
		return "tmpfs (memory: a flush costs nothing)"
	case unix.EXT4_SUPER_MAGIC:
		return "ext2/3/4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	default:
		return fmt.Sprintf("type %#x", stat.Type)
	}
}
