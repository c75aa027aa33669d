package page

import (
	"strings"
	"testing"

	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

func built(letter, name string, faults ...string) answer.Standing {
	st := answer.Standing{Variant: rundir.Variant{Name: name, Needs: []string{"postgres", "kafka"},
		Servers: 2, Roles: []rundir.Role{{Name: "counter", Summary: "counts", Replicas: 3},
			{Name: "sweeper", Summary: "sweeps", Replicas: 1}}}, Letter: letter}
	var windows []history.Window
	for _, f := range faults {
		windows = append(windows, history.Window{Kind: history.FaultWindow, Fault: f,
			Evidence: []string{"it did"}})
	}
	st.Repeats = []rundir.Repeat{{Faults: windows}}
	return st
}

func TestAnatomies(t *testing.T) {
	other := built("C", "other")
	other.Roles = nil
	foreign := answer.Standing{Letter: "D"}
	list := anatomies([]answer.Standing{built("A", "one", "kill counter-2",
		"partition sweeper from postgres", "pause kafka", "stall redis", "odd"),
		built("B", "two"), other, foreign})
	if len(list) != 2 || len(list[0].Variants) != 2 || list[1].Variants[0].Name != "other" {
		t.Fatalf("%d shapes: %+v", len(list), list)
	}
	a := list[0]
	if a.Title != "What one and two consist of" || a.Finding != "The load calls the API ×2; it and "+
		"counter ×3 and sweeper reach Postgres and Kafka. F1 hit counter, F3 hit Kafka, "+
		"F2 cut sweeper off Postgres." {
		t.Errorf("%s: %q", a.Title, a.Finding)
	}
	for _, want := range []string{">load<", ">API ×2<", ">counter ×3 · F1<", ">sweeper<",
		">Postgres<", ">Kafka · F3<", ">F2<", `class="k-limit"`} {
		if !strings.Contains(svgOf(t, a), want) {
			t.Errorf("the diagram does not have %s", want)
		}
	}
	if got := list[1].Finding; got != "The load calls the API ×2, which reach Postgres and Kafka." {
		t.Errorf("it says %q", got)
	}
}

// TestOnlyWhatFiredHasHit: in whichever repeat, of whichever of the variants built alike.
func TestOnlyWhatFiredHasHit(t *testing.T) {
	first := built("A", "one", "kill counter-2", "pause kafka", "kill postgres")
	second := built("B", "two", "kill counter-2", "pause kafka", "kill postgres")
	second.Repeats = append(second.Repeats, built("B", "two", "kill counter-1", "pause kafka",
		"kill postgres").Repeats...)
	for i := range 3 {
		first.Repeats[0].Faults[i].Evidence = nil
		if second.Repeats[0].Faults[i].Evidence = nil; i == 1 {
			second.Repeats[1].Faults[i].Evidence = nil
		}
	}
	list := anatomies([]answer.Standing{first, second})
	if got := list[0].Finding; !strings.HasSuffix(got, " F1 hit counter, F3 hit Postgres. "+
		"F2 did not fire.") || strings.Contains(svgOf(t, list[0]), ">Kafka · ") {
		t.Errorf("it says %q", got)
	}
	second.Repeats = second.Repeats[:1]
	list = anatomies([]answer.Standing{first, second})
	if !strings.HasSuffix(list[0].Finding, "F1, F2 and F3 did not fire.") ||
		strings.Contains(svgOf(t, list[0]), `class="k-limit"`) {
		t.Errorf("nothing fired, and it says %q", list[0].Finding)
	}
}

// TestDiagramHasRoom: no box lies on another or beyond the edge, however many there
// are.
func TestDiagramHasRoom(t *testing.T) {
	st := built("A", "many")
	for range 9 {
		st.Roles = append(st.Roles, rundir.Role{Name: "role", Replicas: 1})
	}
	d := newDiagram([]answer.Standing{st})
	for i, b := range d.boxes {
		if b.x < 0 || b.y < 0 || b.x+boxWidth > d.width || b.y+boxHeight > d.height {
			t.Errorf("%+v is out of %v × %v", b, d.width, d.height)
		}
		for _, other := range d.boxes[i+1:] {
			if b.column == other.column && b.y < other.y+boxHeight && other.y < b.y+boxHeight {
				t.Errorf("%s and %s overlap", b.name, other.name)
			}
		}
	}
}

// TestMarksAreFolded: marks that follow each other are a range, and what has no room
// beside a name is counted.
func TestMarksAreFolded(t *testing.T) {
	for want, faults := range map[string][]int{"F1": {1}, "F1–F2": {2, 1}, "F1 F3": {1, 3},
		"F1–F3 F5 F9–F10": {1, 2, 3, 5, 9, 10}, "": nil} {
		if got := folded(faults); got != want {
			t.Errorf("%d is %q, want %q", faults, got, want)
		}
	}
	faults := []string{"kill postgres", "pause postgres", "kill postgres", "pause postgres",
		"kill postgres"}
	list := anatomies([]answer.Standing{built("A", "one", faults...)})
	if !strings.Contains(svgOf(t, list[0]), ">Postgres · F1–F5<") ||
		!strings.Contains(list[0].Finding, "F1–F5 hit Postgres.") {
		t.Errorf("it says %q", list[0].Finding)
	}
	faults = nil
	for range 8 {
		faults = append(faults, "kill postgres", "pause kafka")
	}
	list = anatomies([]answer.Standing{built("A", "one", faults...)})
	if !strings.Contains(svgOf(t, list[0]), ">Postgres · F1 +7<") {
		t.Error("too many marks for the box")
	}
}
