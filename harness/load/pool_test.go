package load

import (
	"slices"
	"testing"
)

// Follow-ups are taken before what was queued earlier, each kind in order.
func TestFollowUpsGoFirst(t *testing.T) {
	var l lanes
	for seq, follow := range []bool{false, true, false, true, true, false} {
		l.push(&job{seq: uint64(seq), follow: follow})
	}
	var got []uint64
	for l.size() > 0 {
		var j job
		l.pop(&j)
		got = append(got, j.seq)
	}
	if want := []uint64{1, 3, 4, 0, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("taken in the order %v, want %v", got, want)
	}
}
