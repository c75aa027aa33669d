package env

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFollow: each lost generator of the batch is reported once, no other is, and none is while the
// engine does not answer.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		var mu sync.Mutex
		told := map[int][]string{}
		of := func() map[int][]string {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(told)
		}
		b := Batch{Count: 3, Ended: func(index int, why string) {
			mu.Lock()
			defer mu.Unlock()
			told[index] = append(told[index], why)
		}}
		f := Follow(b, func(context.Context) (map[int]string, error) {
			if fails.Load() {
				return nil, errors.New("connection refused")
			}
			return map[int]string{1: "killed", 3: "another's", -1: "nobody's"}, nil
		})
		time.Sleep(10 * followEvery)
		fails.Store(true)
		time.Sleep(time.Hour)
		if want := map[int][]string{1: {"killed"}}; !reflect.DeepEqual(of(), want) {
			t.Errorf("told %v, want %v", of(), want)
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
