package answer

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/plain"
	"stampede/reports/chart"
)

func TestChartGroupsAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "n")
		baseline := rapid.Bool().Draw(t, "baseline")
		var all []Standing
		for i := range n {
			st := Standing{Index: i, Baseline: baseline && i == 0}
			if rapid.Bool().Draw(t, "wrong") {
				st.Group = Wrong
			}
			all = append(all, st)
		}
		slices.SortStableFunc(all, func(a, b Standing) int { return cmp.Compare(a.Group, b.Group) })
		colour(all)
		seen := map[int]int{}
		var groups [][]Member
		for _, members := range ChartGroups(all) {
			if len(members) > chart.Slots {
				t.Fatalf("%d series in a chart", len(members))
			}
			if n > 0 && baseline && !members[0].Baseline {
				t.Fatal("a chart without the baseline first")
			}
			if len(groups) == 0 {
				checkProminent(t, all, members)
			}
			groups = append(groups, members)
			taken := map[int]bool{}
			for _, m := range members {
				if taken[m.Slot] {
					t.Fatalf("colour %d is taken twice", m.Slot)
				}
				taken[m.Slot] = true
				seen[m.Index]++
			}
		}
		for _, st := range all {
			if n := seen[st.Index]; n == 0 || (n > 1 && !st.Baseline) {
				t.Fatalf("design %d is drawn %d times", st.Index, n)
			}
		}
	})
}

// checkProminent: the first chart has the fastest and the slowest design that holds and the
// first two wrong ones, as far as there are any.
func checkProminent(t *rapid.T, all []Standing, members []Member) {
	var sound, unsound []int
	for _, st := range all {
		if st.Group == Wrong {
			unsound = append(unsound, st.Index)
		} else {
			sound = append(sound, st.Index)
		}
	}
	want := unsound[:min(len(unsound), wrongOnes)]
	if n := len(sound); n > 0 {
		want = append(want, sound[n-1])
		if all[0].Index == sound[0] {
			want = append(want, sound[0])
		}
	}
	for _, index := range want {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Index == index }) {
			t.Fatalf("design %d of %d is not in the first chart", index, len(all))
		}
	}
}

// A curve ends where the operations end, and is infinite where they were
// dropped.
func TestDistribution(t *testing.T) {
	h := hdrhistogram.New(1000, 60e9, 3)
	for i := range int64(80) {
		if err := h.RecordValue((i + 1) * 1e6); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	d, err := decodeHistogram(string(encoded), 100) // 20 were dropped
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Nines(); got != 2 {
		t.Errorf("100 operations support %v nines, want 2", got)
	}
	for share, want := range map[float64]float64{0: 1e-3, 0.5: 50e-3, 0.8: 80e-3} {
		if got := d.At(-math.Log10(1 - share)); math.Abs(got-want) > want/500 {
			t.Errorf("at %v: %v s, want %v", share, got, want)
		}
	}
	for _, nines := range []float64{-math.Log10(1 - 0.81), 1, 2} {
		if got := d.At(nines); !math.IsInf(got, 1) {
			t.Errorf("at %v nines: %v s, but a fifth was dropped", nines, got)
		}
	}
	var none Distribution
	if !none.Empty() || none.Nines() != 0 {
		t.Error("nothing is not empty")
	}
}

func TestHowFar(t *testing.T) {
	for ratio, want := range map[float64]string{0.5: "2.00× lower than", 3: "3.00× higher than",
		1: "about that of", 0.9991: "about that of", 1.004: "about that of"} {
		if got := howFar(ratio, 2); got != want {
			t.Errorf("%v is %q, want %q", ratio, got, want)
		}
	}
}

// TestReplies: what a reply says beside its outcome, once.
func TestReplies(t *testing.T) {
	for want, r := range map[string]history.Record{
		"assigned 992":             {Outcome: history.OK, Reply: history.Reply{Key: "992"}},
		"sold":                     {Outcome: history.OK, Reply: history.Reply{Key: "sold"}},
		"sold out":                 {Outcome: history.Refused, Err: "sold out: refused"},
		"":                         {Outcome: history.Refused, Err: "refused"},
		"timeout: context expired": {Outcome: history.Unknown, Err: "timeout: context expired"},
	} {
		if row := opRowOf(r); row.Reply != want {
			t.Errorf("%+v is %q, want %q", r, row.Reply, want)
		}
	}
	if row := opRowOf(history.Record{Op: history.Op{Key: "item-2", Arg: 256}}); row.Key != "item-2" {
		t.Errorf("the key is %q", row.Key)
	}
}

// TestPlaceOf: a run is named from the folder of the runs on, and so is a search's window.
func TestPlaceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/data/me/runs/sale/1-2-3":                     "runs/sale/1-2-3",
		"/data/me/runs/knee/sale/4-5-6/windows/sale/7": "runs/knee/sale/4-5-6/windows/sale/7",
		"/windows/sale/7":                              "windows/sale/7",
		"/sale":                                        "sale",
	} {
		if got, err := placeOf(path); err != nil || got != want {
			t.Errorf("placeOf(%s) = %s, %v, want %s", path, got, err, want)
		}
	}
	if got := plain.Word("it's/here"); got != `'it'\''s/here'` {
		t.Errorf("a word for a shell is %s", got)
	}
}
