package reports

import (
	"testing"

	"stampede/harness/rundir"
)

// TestErrorTables: refusals are apart from unknown outcomes, and a sample that repeats its
// class is left out.
func TestErrorTables(t *testing.T) {
	st := standing{}
	st.Operations = []rundir.Operation{{Kind: "buy", Errors: []rundir.ErrorClass{
		{Outcome: "refused", Class: "sold out: refused", Count: 7, Sample: "sold out: refused"},
		{Outcome: "refused", Class: "sold out", Count: 7, Sample: "sold out: refused"},
		{Outcome: "unknown", Class: "timeout", Count: 1, Sample: "timeout after 2s"}}}}
	tables := errorTables([]standing{st})
	if len(tables) != 2 || len(tables[0].Rows) != 1 || !tables[0].Samples ||
		len(tables[1].Rows) != 2 || tables[1].Samples {
		t.Fatalf("tables %+v", tables)
	}
	for _, row := range tables[1].Rows {
		if row.Class != "sold out" || row.Sample != "" {
			t.Errorf("a refusal is %+v", row)
		}
	}
}

// TestSettings: what means off or never is said so.
func TestSettings(t *testing.T) {
	s := componentSection("kafka", rundir.Component{Settings: map[string]string{"a": "",
		"b": "9223372036854775807", "c": "everysec"}})
	for i, want := range []fact{{"a", "off", false}, {"b", "never", false}, {"c", "everysec", true}} {
		if s.Facts[i] != want {
			t.Errorf("setting %d is %+v, want %+v", i, s.Facts[i], want)
		}
	}
	e := rundir.Environment{Backend: "processes", BackendReason: "processes: postgres 15"}
	if got := backendText(e); got != "processes: postgres 15" {
		t.Errorf("the backend is %q", got)
	}
}
