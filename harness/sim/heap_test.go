package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHeap holds the heap against a sorted slice.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap
		var model []event
		seq := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				seq++
				e := event{at: time.Duration(rapid.IntRange(0, 20).Draw(t, "at")), seq: seq}
				h.push(e)
				model = append(model, e)
				slices.SortFunc(model, func(a, b event) int {
					if a.before(b) {
						return -1
					}
					return 1
				})
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip()
				}
				if got := h.pop(); got != model[0] {
					t.Fatalf("popped %v, want %v", got, model[0])
				}
				model = model[1:]
			},
			"remove": func(t *rapid.T) {
				if len(h) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(h)-1).Draw(t, "i")
				at := slices.Index(model, h[i])
				h.remove(i)
				model = slices.Delete(model, at, at+1)
			},
			"": func(t *rapid.T) {
				if len(h) != len(model) {
					t.Fatalf("%d events, want %d", len(h), len(model))
				}
			},
		})
	})
}

// TestQueueOfTaken holds the queue in a slice against a plain one.
func TestQueueOfTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo[int]
		var model []int
		for i := range rapid.IntRange(0, 600).Draw(t, "n") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(t, "take") == 0 {
				if got := q.take(); got != model[0] {
					t.Fatalf("took %d, want %d", got, model[0])
				}
				model = model[1:]
			} else {
				q.put(i)
				model = append(model, i)
			}
			if !slices.Equal(q.rest(), model) {
				t.Fatalf("have %v, want %v", q.rest(), model)
			}
		}
	})
}
