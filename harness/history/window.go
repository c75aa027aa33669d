package history

import (
	"cmp"
	"slices"
)

// faults returns the fault windows among windows.
func faults(windows []Window) []Window {
	var found []Window
	for _, w := range windows {
		if w.Kind == FaultWindow {
			found = append(found, w)
		}
	}
	return found
}

// addWindow appends win or replaces the window that it brings up to date.
func addWindow(windows []Window, win Window) []Window {
	same := func(w Window) bool {
		return w.Kind == win.Kind && w.Name == win.Name && w.Start == win.Start
	}
	if i := slices.IndexFunc(windows, same); i >= 0 {
		windows[i] = win
		return windows
	}
	return append(windows, win)
}

func byStart(a, b Window) int { return cmp.Compare(a.Start, b.Start) }
