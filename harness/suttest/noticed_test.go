package suttest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
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
		Absent: map[string][]string{},
	}
	records, audit := p.Parts(goodSale())
	var names []string
	for _, c := range slices.Concat(ofRecords(records), ofLists(reflect.TypeOf(audit).Elem(), nil)) {
		if strings.HasSuffix(c.name, " pay") || strings.Contains(c.name, " none") {
			const why = "the payment has two attempts, and the last list is empty"
			p.Absent[why] = append(p.Absent[why], c.name)
		}
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
}

// TestNotices: only a violation is a notice, or that nothing of the run can be read.
func TestNotices(t *testing.T) {
	unread := check.Verdict{Status: check.Undecided, Reason: "the audit cannot be read"}
	for name, c := range map[string]struct {
		other check.Verdict
		want  bool
	}{
		"broken":    {check.Verdict{Status: check.Broken}, true},
		"unread":    {unread, true},
		"held":      {check.Verdict{Status: check.Held}, false},
		"not tried": {check.Verdict{Status: check.Undecided, NotExercised: true}, false},
		"unjudged":  {check.Verdict{Status: check.Undecided, Unjudged: true}, false},
		"too late":  {check.Verdict{Status: check.Undecided, Late: 1}, false},
		"panicked":  {check.Verdict{Status: check.Undecided, Reason: "the check panicked: x"}, false},
	} {
		broken := map[string]bool{}
		got := notices(map[string]check.Verdict{"one": unread, "other": c.other}, broken)
		if got != c.want || broken["other"] != (c.other.Status == check.Broken) {
			t.Errorf("%s: %t, broken %v", name, got, broken)
		}
	}
	if notices(nil, nil) {
		t.Error("no verdict at all is a notice")
	}
}

// TestUnexpected: each corruption is done and noticed, or a reason says why not, which is
// right.
func TestUnexpected(t *testing.T) {
	p := Proof[*sale]{Unnoticed: map[string][]string{"of this": {"quiet"}},
		Absent: map[string][]string{"of that": {"absent"}}}
	for name, c := range map[string]struct {
		corruption string
		done       int
		noticed    bool
		want       string
	}{
		"noticed":           {"any", 3, true, ""},
		"not noticed":       {"any", 3, false, "no invariant noticed it in 3 runs"},
		"never done":        {"any", 0, false, "no run has anything to corrupt"},
		"quiet":             {"quiet", 3, false, ""},
		"quiet but noticed": {"quiet", 3, true, "it is noticed, although of this"},
		"quiet, never done": {"quiet", 0, false, "no run has anything to corrupt"},
		"absent":            {"absent", 0, false, ""},
		"absent but done":   {"absent", 2, true, "2 runs have something to corrupt, although of that"},
	} {
		if got := p.unexpected(c.corruption, c.done, c.noticed); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
