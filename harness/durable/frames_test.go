package durable_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"stampede/harness/durable"
)

// TestFrames: whatever a crash has left of the last frame, all before it are shown, and the end is
// where they end. A damaged frame before a whole one is an error, and so is one of reading.
func TestFrames(t *testing.T) {
	var log []byte
	var ends []int
	for _, record := range []string{"one", "two", "three"} {
		log = append(log, durable.Frame([]byte(record))...)
		ends = append(ends, len(log))
	}
	read := func(log []byte) (n int, end int64, err error) {
		end, err = durable.Frames(bytes.NewReader(log), func([]byte) error { n++; return nil })
		return n, end, err
	}
	for cut := range len(log) + 1 {
		for _, tail := range []string{"", "\xff\xff\xff\xff", strings.Repeat("\x00", 40),
			"\x03\x00\x00\x00\x00\x00\x00\x00abc"} {
			n, end, err := read(append(slices.Clone(log[:cut]), tail...))
			want, at := 0, 0
			for want < len(ends) && cut >= ends[want] {
				at = ends[want]
				want++
			}
			if err != nil || n != want || end != int64(at) {
				t.Errorf("cut at %d, then %q: %d records until %d, %v", cut, tail, n, end, err)
			}
		}
	}
	for i, want := range []error{durable.ErrDamaged, durable.ErrDamaged, nil} {
		damaged := slices.Clone(log)
		damaged[ends[i]-1] ^= 1
		if n, _, err := read(damaged); n != i || !errors.Is(err, want) {
			t.Errorf("with record %d damaged: %d records, %v", i, n, err)
		}
	}
	broken := errors.New("broken")
	if _, err := durable.Frames(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("a log that cannot be read: %v", err)
	}
	if _, err := durable.Frames(bytes.NewReader(log), func([]byte) error {
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("a record that cannot be: %v", err)
	}
}
