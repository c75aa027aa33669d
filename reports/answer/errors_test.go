package answer

import (
	"reflect"
	"testing"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// TestErrorTables: refusals are apart from unknown outcomes, what reads alike but for what was
// being done is one row, and a sample that repeats its class is left out.
func TestErrorTables(t *testing.T) {
	st := Standing{}
	st.Name = "batched"
	class := func(outcome, class string, count, at int64, sample string) rundir.ErrorClass {
		return rundir.ErrorClass{Outcome: outcome, Class: class, Count: count, Sample: sample,
			FirstNS: at}
	}
	st.Operations = []rundir.Operation{
		{Kind: "publish", Load: rundir.Load{Started: 90}, Errors: []rundir.ErrorClass{
			class("refused", "sold_out", 3, 5e9, "sold out: refused"),
			class("refused", "publishing: refused: no connection: dial tcp #", 7, 2e9,
				"publishing: refused: no connection: dial tcp 127.0.0.1:4660"),
			class("unknown", "timeout", 1, 1e9, "timeout after 2s")}},
		{Kind: "ack", Load: rundir.Load{Started: 10}, Errors: []rundir.ErrorClass{
			class("refused", "settling: refused: no connection: dial tcp #", 1, 1e9,
				"settling: refused: no connection: dial tcp 127.0.0.1:4661")}},
	}
	st.Repeats = []rundir.Repeat{{Operations: st.Operations}}
	tables := ErrorTables([]Standing{st})
	want := []ErrorTable{
		{Title: "Unknown outcomes", Note: "An operation of unknown outcome may have had its effect.",
			Summary: "Unknown outcomes: 1 operation of 1 design", Rows: []errorRow{{Variant: "batched",
				Class: "timeout", Sample: "timeout after 2s", Operations: "publish", Count: "1",
				Share: "1.11 %", First: "1.00 s"}}},
		{Title: "Refusals", Note: "A refusal certainly had no effect.",
			Summary: "Refusals: 11 operations of 1 design", Rows: []errorRow{
				{Variant: "batched", Class: "no connection: dial tcp #", Operations: "publish 7, ack 1",
					Count: "8", Share: "8.00 %", First: "1.00 s"},
				{Variant: "batched", Class: "sold_out", Operations: "publish", Count: "3",
					Share: "3.33 %", First: "5.00 s"}}},
	}
	if !reflect.DeepEqual(tables, want) {
		t.Errorf("got\n%+v\nwant\n%+v", tables, want)
	}
}

// TestSettings: what means off or never is said so.
func TestSettings(t *testing.T) {
	s := componentSection("kafka", rundir.Component{Settings: map[string]string{"a": "",
		"b": "9223372036854775807", "c": "everysec"}})
	for i, want := range []words.Fact{{Term: "a", Value: "off", Code: false}, {Term: "b",
		Value: "never", Code: false}, {Term: "c", Value: "everysec", Code: true}} {
		if s.Facts[i] != want {
			t.Errorf("setting %d is %+v, want %+v", i, s.Facts[i], want)
		}
	}
	e := rundir.Environment{Backend: "processes", BackendReason: "processes: postgres 15"}
	if got := backendText(e); got != "processes: postgres 15" {
		t.Errorf("the backend is %q", got)
	}
}
