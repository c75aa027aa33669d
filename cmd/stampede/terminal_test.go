package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// terminal interprets what is written to it, as a VT100 would: lines that wrap, CR,
// LF (with the CR that a tty driver adds), colours, and the escapes that move the
// cursor up, erase to the right and below, and hide the cursor. Anything else fails
// the test.
type terminal struct {
	t             *testing.T
	mu            sync.Mutex
	columns, rows int
	grid          [][]rune // rows from the top of what has ever been shown
	row, column   int
	top           int // the first row of the screen
	hidden        bool
	hides, writes int
	pending       string // of an escape whose end has not been written
	onWrite       func()
}

func newTerminal(t *testing.T, columns, rows int) *terminal {
	return &terminal{t: t, columns: columns, rows: rows, grid: [][]rune{nil}}
}

func (v *terminal) size() (int, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.columns, v.rows
}

// Write shows bytes.
func (v *terminal) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writes++
	input := v.pending + string(p)
	v.pending = ""
	for len(input) > 0 {
		if input[0] == '\x1b' {
			end := strings.IndexFunc(input[1:], func(r rune) bool { return r >= '@' && r != '[' })
			if end < 0 {
				v.pending = input
				return len(p), nil
			}
			v.escape(input[1 : end+2])
			input = input[end+2:]
			continue
		}
		r := []rune(input)[0]
		input = input[len(string(r)):]
		v.put(r)
	}
	if v.onWrite != nil {
		v.onWrite()
	}
	return len(p), nil
}

func (v *terminal) put(r rune) {
	switch {
	case r == '\r':
		v.column = 0
	case r == '\n':
		v.column = 0
		v.down()
	case r < ' ':
		v.t.Errorf("control character %q", r)
	default:
		wide := columnsOf(r)
		if v.column+wide > v.columns {
			v.column = 0
			v.down()
		}
		for len(v.grid[v.row]) < v.column+wide {
			v.grid[v.row] = append(v.grid[v.row], ' ')
		}
		v.grid[v.row][v.column] = r
		v.column += wide
	}
}

func (v *terminal) down() {
	v.row++
	if v.row == len(v.grid) {
		v.grid = append(v.grid, nil)
	}
	v.top = max(v.top, v.row-v.rows+1)
}

func (v *terminal) escape(code string) {
	final, argument := code[len(code)-1], strings.TrimPrefix(code[:len(code)-1], "[")
	switch {
	case code == "[?25l":
		v.hidden = true
		v.hides++
	case code == "[?25h":
		v.hidden = false
	case code == "[K":
		v.grid[v.row] = v.grid[v.row][:min(v.column, len(v.grid[v.row]))]
	case code == "[J":
		v.grid[v.row] = v.grid[v.row][:min(v.column, len(v.grid[v.row]))]
		for i := v.row + 1; i < len(v.grid); i++ {
			v.grid[i] = nil
		}
	case final == 'A':
		n, err := strconv.Atoi(argument)
		if err != nil {
			v.t.Errorf("escape %q", code)
		}
		v.row = max(v.top, v.row-n)
	case final == 'm':
	default:
		v.t.Errorf("escape %q", code)
	}
}

// resize wraps what is shown to another width, as most terminals do.
func (v *terminal) resize(columns int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var grid [][]rune
	for i, line := range v.grid {
		if i == v.row {
			v.row = len(grid)
		}
		for len(line) > columns {
			grid, line = append(grid, line[:columns:columns]), line[columns:]
		}
		grid = append(grid, line)
	}
	v.grid, v.columns = grid, columns
	v.top = max(0, v.row-v.rows+1)
}

// all is what was ever shown and is still there, line by line.
func (v *terminal) all() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := []string{}
	for _, line := range v.grid {
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// shows fails the test unless exactly that is there.
func (v *terminal) shows(want string) {
	v.t.Helper()
	want = strings.Trim(want, "\n")
	if got := v.all(); got != want {
		v.t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
}

// TestTerminal: the terminal of the tests does what it says.
func TestTerminal(t *testing.T) {
	v := newTerminal(t, 5, 3)
	fmt.Fprint(v, "abcdefg\nxyz\rX\n\x1b[?25l\x1b[2Ahi\x1b[K\n\x1b[J")
	v.shows("abcde\nhi")
	if !v.hidden || v.row != 2 {
		t.Errorf("hidden %v, row %d", v.hidden, v.row)
	}
	_, _ = io.WriteString(v, "\x1b[")
	_, _ = io.WriteString(v, "?25hz")
	if v.hidden {
		t.Error("an escape in two pieces was not understood")
	}
	v.resize(2)
	v.shows("ab\ncd\ne\nhi\nz")
}
