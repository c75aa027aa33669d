package run

import (
	"testing"
	"time"
)

// TestBacklogTrend: a backlog falls if it reached new lows in the last quarter of the time, and
// would be gone soon.
func TestBacklogTrend(t *testing.T) {
	steady := make([]int64, 40)
	for i := range steady {
		steady[i] = int64(1000 - 20*i)
	}
	for name, c := range map[string]struct {
		left []int64 // once a second, from the beginning; 0 says nothing, and for -1 there was no time
		want string
	}{
		"never counted":         {nil, ""},
		"stands still":          {[]int64{9, 9, 9, 9, 9, 9, 9, 9}, ""},
		"falls":                 {[]int64{9, 8, 7, 6, 5, 4, 3, 2}, "it fell from 9 to 2"},
		"falls for long":        {steady, "it fell from 1000 to 220"},
		"counted late":          {append(make([]int64, 30), steady...), "it fell from 1000 to 220"},
		"fell, and stuck":       {[]int64{9, 8, 7, 2, 2, 2, 2, 2}, ""},
		"fell, and not counted": {[]int64{9, 8, 7, 2, 0, 0, 0, 0}, ""},
		"goes up and down":      {[]int64{9, 2, 9, 2, 9, 2, 9, 2}, ""},
		"grows":                 {[]int64{2, 3, 4, 5, 6, 7, 8, 9}, ""},
		"one of a few is done":  {[]int64{9, 9, 9, 9, 9, 9, 9, 8}, ""},
		"two of many are done":  {[]int64{99, 99, 99, 99, 99, 99, 98, 97}, ""},
		"two of a few are done": {[]int64{9, 9, 9, 9, 9, 9, 8, 7}, "it fell from 9 to 7"},
		"fell at the beginning": {[]int64{9, 8, 8, 8, 8, 8, 8, 8}, ""},
		"counted at the end":    {[]int64{0, 0, 0, 0, 0, 0, 0, 8}, ""},
		"no time to count": {[]int64{9, 8, 7, 6, 5, -1, -1, 4},
			"it was counted too rarely to say whether it falls from 9"},
		"time for two counts":   {[]int64{9, 9, -1, -1, -1, -1, 9, 9}, ""},
		"what is stuck is most": {[]int64{80, 79, 78, 77, 76, 75, 74, 73}, ""},
	} {
		var e backlogTrend
		began := time.Unix(0, 0)
		for i, n := range c.left {
			if n >= 0 {
				e.note(began.Add(time.Duration(i)*time.Second), n)
			}
		}
		if got := e.falling(began.Add(time.Duration(len(c.left)-1) * time.Second)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
