package fault

import (
	"bytes"
	"fmt"
	"testing"
)

const incr = "*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n"

func TestCommands(t *testing.T) {
	for piece, want := range map[string]int64{
		"":              0,
		incr:            1,
		incr + incr:     2,
		incr[5:] + incr: 1, // the first is cut in two
		incr + incr[:9]: 1, // the last is
		"*1\r\n$5\r\nMULTI\r\n" + incr + "*1\r\n$4\r\nexec\r\n": 1,
		"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n" + incr:              1,
		"#TS:1700000000\r\n" + incr:                             1,
		"*2\r\n$3\r\nSET\r\n$4\r\n\r\n*1\r\n":                   1, // framing in a value
		"*1\r\n$9999999999\r\n":                                 0,
		"*0\r\n" + incr:                                         1,
		"no commands at all":                                    0,
	} {
		if got := commands([]byte(piece)); got != want {
			t.Errorf("%q: %d commands, want %d", piece, got, want)
		}
	}
}

// FuzzCommands: whatever is before them, whole commands are counted, and
// nothing is read beyond the end.
func FuzzCommands(f *testing.F) {
	f.Add([]byte(incr), 3)
	f.Add([]byte("$4\r\nINCR"), 1)
	f.Add([]byte("*2\r\n$1"), 2)
	f.Fuzz(func(t *testing.T, piece []byte, n int) {
		if got := commands(piece); got < 0 || got > int64(len(piece)) {
			t.Errorf("%q: %d commands", piece, got)
		}
		if n < 0 || n > 100 {
			return
		}
		var whole bytes.Buffer
		for range n {
			fmt.Fprintf(&whole, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", len(piece), piece)
		}
		if got := commands(whole.Bytes()); got != int64(n) {
			t.Errorf("%d commands of %d", got, n)
		}
	})
}
