package rundir

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Windows is one repeat cut into windows of equal width: how long its operations took,
// and which errors they had, by when they were due. It is kept in a file of its own.
type Windows struct {
	// SchemaVersion is that of the summary.
	SchemaVersion string `json:"schema_version"`
	// WidthNS is the width of a window; windows start at 0.
	WidthNS int64         `json:"width_ns"`
	Kinds   []KindWindows `json:"kinds"`
}

// KindWindows is one operation kind.
type KindWindows struct {
	Kind    string   `json:"kind"`
	Windows []Window `json:"windows"`
	// Errors are the most frequent classes of errors, and the rest as one.
	Errors []ErrorLine `json:"errors,omitempty"`
}

// Window is the response times of what was due in one window.
type Window struct {
	// Counts has how many there were in each row, from FirstRow up; see LatencyRow.
	FirstRow int     `json:"first_row"`
	Counts   []int64 `json:"counts"`
	// Infinite counts what was dropped or never ended.
	Infinite int64 `json:"infinite,omitempty"`
}

// ErrorLine is one class of errors over time: in window At[i] there were Counts[i].
type ErrorLine struct {
	// Outcome is empty if several have been put together.
	Outcome string  `json:"outcome"`
	Class   string  `json:"class"`
	At      []int   `json:"at"`
	Counts  []int64 `json:"counts"`
}

const (
	// LatencyRows is how many rows a decade of response times has.
	LatencyRows = 8
	// lowestRow is where row 0 begins.
	lowestRow = time.Microsecond
)

// LatencyRow is the row of a finite response time. Row 0 has all below 1.33 µs, and each
// row goes 1.33 times as far as the one below it.
func LatencyRow(d time.Duration) int {
	if d <= lowestRow {
		return 0
	}
	return int(math.Log10(float64(d)/float64(lowestRow)) * LatencyRows)
}

// RowStart is where a row begins, in seconds.
func RowStart(row int) float64 {
	return lowestRow.Seconds() * math.Pow(10, float64(row)/LatencyRows)
}

// WindowsName is where the Windows go (JSON).
func WindowsName(variant string, repeat int) string {
	return fmt.Sprintf("windows/%s.%d.json", escape(variant), repeat)
}

// WriteWindows keeps a repeat's windows and returns their name.
func (d *Dir) WriteWindows(variant string, repeat int, w Windows) (name string, err error) {
	name, w.SchemaVersion = WindowsName(variant, repeat), SchemaVersion
	// A run that is judged again may be from before there were any.
	if err := os.MkdirAll(filepath.Dir(d.File(name)), 0o755); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, d.WriteJSON(name, w)
}

// Windows reads a repeat's windows by their name.
func (r *Run) Windows(name string) (Windows, error) {
	var w Windows
	data, err := r.read(name)
	if err != nil {
		return w, err
	}
	if err := decodeVersioned(filepath.Join(r.Path, name), data, &w, ourMajor); err != nil {
		return w, err
	}
	if err := w.validate(); err != nil {
		return w, fmt.Errorf("read run: %s: %w", name, err)
	}
	return w, nil
}

// validate refuses what a report could not draw.
func (w Windows) validate() error {
	rows := LatencyRow(math.MaxInt64) + 1
	if w.WidthNS <= 0 {
		return fmt.Errorf("windows are %d ns wide", w.WidthNS)
	}
	for _, k := range w.Kinds {
		for i, one := range k.Windows {
			if one.FirstRow < 0 || one.FirstRow+len(one.Counts) > rows {
				return fmt.Errorf("window %d of %s has rows %d to %d, there are %d", i, k.Kind,
					one.FirstRow, one.FirstRow+len(one.Counts)-1, rows)
			}
		}
		for _, e := range k.Errors {
			if len(e.At) != len(e.Counts) {
				return fmt.Errorf("%s of %s has %d windows and %d counts", e.Class, k.Kind,
					len(e.At), len(e.Counts))
			}
			for _, at := range e.At {
				if at < 0 || at >= len(k.Windows) {
					return fmt.Errorf("%s of %s is in window %d, there are %d", e.Class, k.Kind, at,
						len(k.Windows))
				}
			}
		}
	}
	return nil
}
