package rundir_test

import (
	"testing"
	"time"

	"stampede/harness/rundir"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestWriteAndRead(t *testing.T) {
	root := t.TempDir()
	d, err := rundir.Create(root, "shop-rush", 7, noon)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := rundir.Manifest{
		Run:   rundir.RunInfo{ID: d.ID(), Scenario: "shop-rush", System: "shop", Seed: 7},
		Slots: rundir.Interleave([]string{"a", "b"}, 2),
	}
	if err := d.WriteManifest(m); err != nil {
		t.Fatal(err)
	}
	r, err := rundir.Open(root, "shop-rush")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.State(); got != rundir.Running {
		t.Errorf("state %s while it is open for writing", got)
	}
	if r.Path != d.Path() || len(r.Manifest.Slots) != 4 || r.Manifest.Slots[2].Variant != "a" {
		t.Errorf("read back %+v", r)
	}
}
