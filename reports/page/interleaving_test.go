package page

import (
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/reports/answer"
)

// acts are two operations that overlap, one that nobody answered, and one long after.
func acts() []history.Record {
	ms := time.Millisecond
	all := []history.Record{
		{Seq: 9, Intended: 90 * ms, Start: 90 * ms, End: 91 * ms, Outcome: history.Refused},
		{Seq: 3, Intended: 8 * ms, Start: 10 * ms, End: 20 * ms, Outcome: history.OK},
		{Seq: 4, Intended: 15 * ms, Start: 15 * ms, End: 25 * ms, Outcome: history.OK},
		{Seq: 5, Intended: 18 * ms, Start: 18 * ms, End: history.Never, Outcome: history.Unknown},
	}
	for i := range all {
		all[i].Op.ID = 100 + all[i].Seq
	}
	return all
}

func TestInterleaving(t *testing.T) {
	f := interleaving("x", answer.Proof{Records: acts(), At: 25 * time.Millisecond,
		Faults: []history.Window{{Start: 0, End: 30 * time.Millisecond}}})
	svg := svgOf(t, f)
	if f.Finding != "4 operations within 82.6 ms, at most 3 at once." {
		t.Errorf("it says %q", f.Finding)
	}
	for _, want := range []string{">milliseconds after 10.00 ms<", `class="f-fault"`, ">F1<",
		`class="f0"`, `class="f4"`, `stroke-dasharray="2,2"`, `class="k-limit"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("it does not have %s", want)
		}
	}
	last := -1
	for _, seq := range []string{">103<", ">104<", ">105<", ">109<"} {
		at := strings.Index(svg, seq)
		if at < 0 {
			t.Errorf("%s is missing", seq)
		}
		if last >= 0 && at < last {
			t.Errorf("%s comes before what was sent before it", seq)
		}
		last = at
	}
}

func TestInterleavingOfMany(t *testing.T) {
	var many []history.Record
	for i := range 20 {
		at := time.Duration(i) * time.Second
		many = append(many, history.Record{Seq: uint64(i), Op: history.Op{ID: 1000 + uint64(i)},
			Start: at, End: at + 3*time.Second/2})
	}
	f := interleaving("x", answer.Proof{Records: many})
	want := "12 operations within 12.8 s, at most 2 at once; 8 more are not drawn."
	if f.Finding != want {
		t.Errorf("it says %q", f.Finding)
	}
	if n := strings.Count(svgOf(t, f), ">10") - 1; n != answer.MaxBars {
		t.Errorf("%d are drawn", n)
	}
	for i := range many {
		many[i].End = many[i].Start + time.Second/2
	}
	if interleaving("x", answer.Proof{Records: many}).Drawn() {
		t.Error("operations one after the other are drawn as interleaved")
	}
}

// TestInterleavingOfOne: what proves something alone stands among its neighbours, and if
// it has none by itself; what was never sent, and nothing, is no picture.
func TestInterleavingOfOne(t *testing.T) {
	all := acts()
	f := interleaving("x", answer.Proof{Records: all[1:2], Neighbours: all[2:]})
	if f.Finding != "Operation 103 proves it alone; beside it the 2 operations of the same "+
		"key or client that were sent nearest to it. 3 operations within 15.3 ms, at most 3 at once." {
		t.Errorf("it says %q", f.Finding)
	}
	for _, want := range []string{">→ 103<", ">104<", ">105<"} {
		if !strings.Contains(svgOf(t, f), want) {
			t.Errorf("it does not have %s", want)
		}
	}
	f = interleaving("x", answer.Proof{Records: all[:1]})
	if !strings.Contains(svgOf(t, f), ">→ 109<") ||
		f.Finding != "Operation 109 proves it alone; no other operation has its key or its client." {
		t.Errorf("it says %q", f.Finding)
	}
	all[0].Start, all[0].End = history.Never, history.Never
	for _, shown := range []answer.Proof{{}, {Records: all[:1]}} {
		if f := interleaving("x", shown); f.Drawn() {
			t.Errorf("got %q", svgOf(t, f))
		}
	}
}

// deeds are acts of two clients, with one more by the first, long after, and one by
// somebody else.
func deeds() (known, all []history.Record) {
	all = acts()
	for i := range all {
		all[i].Op.Client = []string{"ann", "bob"}[i%2]
	}
	known = all[1:3:3]
	all = append(all, history.Record{Seq: 70, Op: history.Op{Client: "ann"}, Intended: 3 * time.Second,
		Start: history.Never, End: history.Never, Outcome: history.Dropped},
		history.Record{Seq: 71, Op: history.Op{Client: "eve"}, Intended: 9 * time.Second,
			Start: 9 * time.Second, End: 9 * time.Second, Outcome: history.OK})
	return known, all
}

// TestClientTimeline: all that the clients behind a violation did, and nobody else.
func TestClientTimeline(t *testing.T) {
	known, all := deeds()
	f := clientTimeline("x", "no-oversell by naive",
		answer.Proof{Records: known, At: 25 * time.Millisecond, Deeds: all})
	if f.Finding != "5 operations of 2 clients." || len(f.More.Rows) != 5 {
		t.Errorf("it says %q, %d rows", f.Finding, len(f.More.Rows))
	}
	svg := svgOf(t, f)
	for _, want := range []string{">ann<", ">bob<", `class="k0"`, `class="k4"`, `class="k1"`,
		`class="k-ink"`, `class="k-limit"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("it does not have %s", want)
		}
	}
	if strings.Contains(svg, "eve") || strings.Contains(svg, "NaN") {
		t.Error("it has what is not theirs, or no number")
	}
	f = clientTimeline("x", "no-oversell by naive", answer.Proof{Records: known, Deeds: known})
	if f.Drawn() {
		t.Error("clients who did nothing else have a chart")
	}
	many := make([]history.Record, 100)
	for i := range many {
		many[i] = known[0]
	}
	f = clientTimeline("x", "no-oversell by naive", answer.Proof{Records: known, Deeds: many})
	if f.Finding != "40 operations of 2 clients; 60 later ones are not drawn." {
		t.Errorf("it says %q", f.Finding)
	}
}
