//go:build linux

package rundir_test

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// TestFullDisk writes more than fits on a small file system of its own.
func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must let tests mount a file system: %v", err)
		}
		t.Skipf("needs a file system of its own, which takes root: mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := create(t, root, "a")
	if err := d.WriteManifest(manifest(d.ID())); err != nil {
		t.Fatal(err)
	}
	err := d.WriteFile("summary.json", func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return err
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk gives %v, want that no space is left", err)
	}
	if want := "write " + d.File("summary.json") + ": no space left on device"; err != nil &&
		err.Error() != want {
		t.Errorf("the error reads %q, want %q", err, want)
	}
	mustHaveNoTemporaries(t, d.Path())
	if _, err := os.Stat(d.File("summary.json")); err == nil {
		t.Error("half a summary is left")
	}
	if err := d.WriteFile("summary.md", func(io.Writer) error { return nil }); err != nil {
		t.Errorf("after the failure there is no room for an empty file: %v", err)
	}
}
