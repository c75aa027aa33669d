package env

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFollowTellsOnce of each generator that has ended, of nobody who is not of the batch, and of
// an engine that has not answered for long.
func TestFollowTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[int][]string{}
		fails := false
		b := Batch{Count: 3, Ended: func(index int, why string) {
			told[index] = append(told[index], why)
		}}
		f := Follow(b, "the engine", func(context.Context) (map[int]string, error) {
			if fails {
				return nil, errors.New("connection refused")
			}
			return map[int]string{1: "killed", 3: "another's", -1: "nobody's"}, nil
		})
		time.Sleep(10 * followEvery)
		fails = true
		time.Sleep(followBound / 2)
		if want := map[int][]string{1: {"killed"}}; !reflect.DeepEqual(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		time.Sleep(followBound)
		const want = "the engine does not answer any more: connection refused"
		if all := strings.Join(told[-1], "; "); all != want {
			t.Errorf("told of all: %s, want %s", all, want)
		}
		f.End()
		f.End()
	})
}

// TestObjectNames are names that engines take: short, and another one for each batch.
func TestObjectNames(t *testing.T) {
	one := Batch{RunID: "0a1b2c3d", Name: "a.0"}.Object()
	other := Batch{RunID: "0a1b2c3d", Name: "a.1"}.Object()
	if one == other || len(one) > 63 || !strings.HasPrefix(one, "stampede-0a1b2c3d-") {
		t.Errorf("%s and %s", one, other)
	}
}
