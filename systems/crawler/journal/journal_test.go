package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stampede/harness/durable"
	"stampede/systems/crawler/journal"
)

// read lists the records of a folder.
func read(t *testing.T, folder string) (list []string) {
	t.Helper()
	err := journal.Read(folder, func(r []byte) error {
		list = append(list, string(r))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func open(t *testing.T, folder string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(folder, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func put(t *testing.T, j *journal.Journal, text string) {
	t.Helper()
	wait, err := j.Begin([]byte(text))
	if err == nil {
		err = wait(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// written is a journal of two records that was closed: its folder, its file and what is in that.
func written(t *testing.T) (folder, name string, text []byte) {
	t.Helper()
	folder = t.TempDir()
	j := open(t, folder)
	put(t, j, "one")
	put(t, j, "two")
	name = filepath.Join(folder, "journal.log")
	text, err := os.ReadFile(name)
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	return folder, name, text
}

// TestTorn: whatever the last write has left, all whole records are there, and what is written next
// follows them.
func TestTorn(t *testing.T) {
	folder, name, whole := written(t)
	for cut := range len(whole) + 1 {
		var want []string
		if cut >= 2*8+3 {
			want = append(want, "one")
		}
		if cut == len(whole) {
			want = append(want, "two")
		}
		for _, tail := range []string{"", "\xff\xff\xff\xff", strings.Repeat("\x00", 40),
			"\x03\x00\x00\x00\x00\x00\x00\x00abc"} {
			if err := os.WriteFile(name, append(slices.Clone(whole[:cut]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			j := open(t, folder)
			put(t, j, "three")
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if got := read(t, folder); !slices.Equal(got, append(slices.Clone(want), "three")) {
				t.Errorf("cut at %d, then %q: %q", cut, tail, got)
			}
		}
	}
}

// TestDamaged: a journal with a flipped bit before its end is not opened, and stays as it is.
func TestDamaged(t *testing.T) {
	folder, name, text := written(t)
	text[bytes.Index(text, []byte("one"))] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(folder, nil); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("it is opened: %v", err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, text) {
		t.Errorf("it is %q now, %v", got, err)
	}
}

// TestTogether: many writers of one process share flushes, and each record is there once.
func TestTogether(t *testing.T) {
	folder := t.TempDir()
	j := open(t, folder)
	if _, err := journal.Open(folder, nil); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	var all sync.WaitGroup
	var want []string
	for i := range 50 {
		text := fmt.Sprintf("record %02d", i)
		want = append(want, text)
		all.Go(func() { put(t, j, text) })
	}
	all.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, folder)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%d records: %q", len(got), got)
	}
}
