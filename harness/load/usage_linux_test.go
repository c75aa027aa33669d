package load

import "testing"

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, stat    string
		ticks, stolen uint64
	}{
		{"usual", "cpu  100 1 20 3000 4 5 6 70 8 9\ncpu0 1 2 3\n", 3206, 70},
		{"old kernel", "cpu  100 1 20 3000 4 5 6\n", 0, 0},
		{"not a number", "cpu  100 1 20 x 4 5 6 70 8 9\n", 0, 0},
		{"something else", "intr 100 1 20 3000 4 5 6 70 8 9\n", 0, 0},
		{"empty", "", 0, 0},
	}
	for _, test := range tests {
		ticks, stolen := parseStat([]byte(test.stat))
		if ticks != test.ticks || stolen != test.stolen {
			t.Errorf("%s: got %d and %d, want %d and %d",
				test.name, ticks, stolen, test.ticks, test.stolen)
		}
	}
}
