package suttest

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
)

// sale is an evidence of which the judge knows everything but the second row's names.
type sale struct {
	records []history.Record
	audit   saleAudit
}

type saleAudit struct {
	Total int       `json:"total"`
	Rows  []saleRow `json:"rows"`
	None  []saleRow `json:"none"`
}

type saleRow struct {
	Name  string   `json:"name"`
	At    int64    `json:"at"`
	Paid  bool     `json:"paid"`
	Names []string `json:"names"`
}

func goodSale() *sale {
	return &sale{[]history.Record{
		{Op: history.Op{ID: 1, Kind: "buy"}, Outcome: history.OK},
		{Op: history.Op{ID: 2, Kind: "buy"}, Outcome: history.OK, Reply: history.Reply{Value: 1}},
		{Op: history.Op{ID: 3, Kind: "buy"}, Outcome: history.Refused},
		{Op: history.Op{ID: 4, Kind: "pay"}, Outcome: history.OK},
		{Op: history.Op{ID: 4, Kind: "pay"}, Outcome: history.OK}},
		saleAudit{2, []saleRow{{"a", 1, true, []string{"x"}}, {"b", 7 * far, false, []string{"y"}}}, nil}}
}

// TestNoticed: each corruption changes something, is noticed by who looks at it, and tells which
// invariant did.
func TestNoticed(t *testing.T) {
	changed := func(s *sale) bool { return !reflect.DeepEqual(s, goodSale()) }
	p := Proof[*sale]{
		Some: func(t *rapid.T) *sale {
			rapid.Bool().Draw(t, "anything")
			return goodSale()
		},
		Parts: func(s *sale) ([]history.Record, any) { return s.records, &s.audit },
		Judge: func(s *sale, _ TB) map[string]check.Verdict {
			v := check.Verdict{Status: check.Held}
			rows := s.audit.Rows
			unseen := len(rows) == 2 && !slices.Equal(rows[1].Names, []string{"y"})
			if changed(s) && !unseen {
				v.Status = check.Broken
			}
			return map[string]check.Verdict{"all": v, "none": {Status: check.Undecided}}
		},
		Unnoticed: map[string]string{},
	}
	records, audit := p.Parts(goodSale())
	var names []string
	for _, c := range slices.Concat(ofRecords(records), ofLists(reflect.TypeOf(audit).Elem(), nil)) {
		s := goodSale()
		if !c.do(s.records, reflect.ValueOf(&s.audit).Elem(), func(n int) int { return n - 1 }) {
			continue
		}
		if names = append(names, c.name); !changed(s) {
			t.Errorf("%s changes nothing", c.name)
		}
	}
	want := []string{"deny buy", "invent buy", "change client of buy", "change key of buy",
		"drop of rows", "double of rows", "exchange name of rows", "exchange at of rows",
		"raise at of rows", "lower at of rows", "flip paid of rows", "drop of rows.names",
		"double of rows.names"}
	if !slices.Equal(names, want) {
		t.Errorf("the corruptions are %q", names)
	}
	broken := map[string]bool{}
	p.noticed(t, broken)
	if !maps.Equal(broken, map[string]bool{"all": true}) {
		t.Errorf("they break %v", broken)
	}
	if !notices(map[string]check.Verdict{"all": {Status: check.Undecided}}, broken) {
		t.Error("an audit that cannot be read is not noticed")
	}
}
