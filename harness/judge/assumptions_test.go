package judge

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
)

func TestEnoughOperations(t *testing.T) {
	constant := scenario.Load{Arrival: scenario.Arrival{
		Process: "constant", Rate: 100, Over: scenario.Over(10 * time.Second),
	}}
	declared := constant
	declared.MinOperations = 900
	tests := []struct {
		name string
		plan scenario.Load
		got  rundir.Load
		ok   bool
		says string
	}{
		{"a tenth of the plan", constant, rundir.Load{OK: 60, Refused: 40}, true, "at least 100"},
		{"less than a tenth", constant, rundir.Load{OK: 60, Refused: 39}, false, "99 operations"},
		{"unknown and dropped ones do not count", constant,
			rundir.Load{OK: 99, Unknown: 500, Dropped: 401}, false, "99 operations"},
		{"as declared", declared, rundir.Load{OK: 900}, true, "at least 900"},
		{"fewer than declared", declared, rundir.Load{OK: 899}, false, "at least 900"},
		{"one a user", scenario.Load{Users: 5}, rundir.Load{OK: 5}, true, "at least 5"},
		{"not every user", scenario.Load{Users: 5}, rundir.Load{OK: 4}, false, "at least 5"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := &Judge{scenario: scenario.Scenario{Load: test.plan}}
			v := j.enough(test.got)
			if v.OK != test.ok || !strings.Contains(v.Detail, test.says) {
				t.Errorf("ok is %v: %q; want %v and %q", v.OK, v.Detail, test.ok, test.says)
			}
		})
	}
}

// TestWarmUpIsEvidence: an operation of the warm-up is in no time and no rate, and still
// exercises a design.
func TestWarmUpIsEvidence(t *testing.T) {
	at := func(kind string, due time.Duration, outcome history.Outcome) history.Record {
		return history.Record{Op: history.Op{Kind: kind}, Intended: due, Start: due,
			End: due + time.Millisecond, Outcome: outcome}
	}
	phases := []history.Window{
		{Kind: history.PhaseWindow, Name: WarmUp, End: time.Second},
		{Kind: history.PhaseWindow, Name: "steady", Start: time.Second, End: 3 * time.Second},
	}
	for name, c := range map[string]struct {
		records []history.Record
		ok      bool
		says    string
	}{
		"in the warm-up": {[]history.Record{at("buy", 0, history.OK),
			at("buy", 2*time.Second, history.Refused)}, true, "1 buy operations succeeded"},
		"in both": {[]history.Record{at("buy", 0, history.OK), at("buy", 2*time.Second, history.OK)},
			true, "2 buy operations succeeded"},
		"another kind": {[]history.Record{at("stock", 0, history.OK), at("buy", 0, history.Refused)},
			false, "0 buy operations succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := measure.Summarise(history.Slice(c.records, phases...),
				measure.Options{Windows: phases})
			if err != nil {
				t.Fatal(err)
			}
			v := exercised([]string{"buy"}, res)
			if v.OK != c.ok || !strings.Contains(v.Detail, c.says) {
				t.Errorf("ok is %v: %q; want %v and %q", v.OK, v.Detail, c.ok, c.says)
			}
		})
	}
}

func TestStartedEmpty(t *testing.T) {
	tests := []struct {
		trial     Trial
		ok, asked bool
		says      string
	}{
		{Trial{Empty: Empty}, true, true, "stores were empty"},
		{Trial{Empty: NotEmpty, Found: "3 orders"}, false, true, "not empty before the load: 3 orders"},
		{Trial{Empty: NotAsked}, true, false, ""},
		{Trial{}, true, false, ""},
	}
	for _, test := range tests {
		v, asked := startedEmpty(test.trial)
		if v.OK != test.ok || asked != test.asked || !strings.Contains(v.Detail, test.says) {
			t.Errorf("%+v: %+v, asked %v", test.trial, v, asked)
		}
	}
}

// TestOwnFailures: what is stampede's own failure is an assumption that is judged, and one
// about evidence.
func TestOwnFailures(t *testing.T) {
	judged := map[string]rundir.Validity{
		historyName: evidence(wholeHistory(&history.File{}, Trial{})),
	}
	for _, v := range measure.Gate(measure.Facts{}) {
		judged[v.Name] = v
	}
	for _, name := range ownFailures {
		if v, ok := judged[name]; !ok || v.Class != rundir.Evidence {
			t.Errorf("%s is no assumption about evidence: %+v", name, v)
		}
		if !failedItself([]rundir.Validity{{Name: name}}) {
			t.Errorf("%s is not stampede's own failure", name)
		}
	}
}
