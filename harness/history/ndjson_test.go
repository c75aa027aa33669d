package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"stampede/harness/history"
)

func TestReadNDJSONByHand(t *testing.T) {
	m, err := history.ReadNDJSON(strings.NewReader(`
# a buy that is acknowledged, one that is lost and one that was never sent
{"id":1,"kind":"buy","key":"i","client":"ann","outcome":"ok","start_ns":"1.5ms","end_ns":2000000,"reply":{"key":"o1","value":3,"body":"{}"}}

{"id":2,"kind":"buy","start_ns":7,"intended_ns":5,"err":"timeout","code":"slow","body":"text"}
  {"seq":9,"id":3,"kind":"buy","outcome":"dropped","intended_ns":"1s","body_base64":"/w=="}
{"window":{"kind":"fault","name":"kill","start_ns":5,"end_ns":6}}
`))
	if err != nil {
		t.Fatal(err)
	}
	never := history.Never
	want := []history.Record{
		{Seq: 0, Op: history.Op{ID: 1, Kind: "buy", Key: "i", Client: "ann"}, Outcome: history.OK,
			Reply:    history.Reply{Key: "o1", Value: 3, Body: []byte("{}")},
			Intended: 1500 * time.Microsecond, Start: 1500 * time.Microsecond, End: 2 * time.Millisecond},
		{Seq: 1, Op: history.Op{ID: 2, Kind: "buy", Body: []byte("text")}, Err: "timeout", Code: "slow",
			Intended: 5, Start: 7, End: never},
		{Seq: 9, Op: history.Op{ID: 3, Kind: "buy", Body: []byte{0xff}}, Outcome: history.Dropped,
			Intended: time.Second, Start: never, End: never},
	}
	if got := read(t, m); !equal(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if f := m.Faults(); len(f) != 1 || f[0].Name != "kill" {
		t.Errorf("faults %+v", f)
	}
}

func TestReadNDJSONErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no JSON", "\nbuy", "line 2: invalid character"},
		{"unknown field", `{"id":1,"kind":"buy","started":3}`, `line 1: json: unknown field "started"`},
		{"outcome", `{"id":1,"kind":"buy","outcome":"done"}`, "expected an outcome (unknown, ok"},
		{"no id", `{"kind":"buy","outcome":"dropped"}`, "operation id is zero"},
		{"not started", `{"id":1,"kind":"buy","outcome":"ok"}`, "has no start time"},
		{"unit", `{"id":1,"kind":"buy","start_ns":"5"}`, "missing unit"},
		{"fraction", `{"id":1,"kind":"buy","start_ns":0.5}`, "cannot unmarshal"},
		{"two objects", `{"id":1,"kind":"b","outcome":"dropped"} {}`, "one JSON object a line"},
		{"two bodies", `{"id":1,"kind":"b","start_ns":1,"body":"x","body_base64":"/w=="}`, "found both"},
		{"two reply bodies", `{"id":1,"kind":"b","start_ns":1,"reply":{"body":"x","body_base64":"/w=="}}`,
			"found both"},
		{"too long", `{"id":1,"kind":"` + strings.Repeat("x", 17<<20) + `"}`, "line 1: bufio.Scanner: token too long"},
	}
	for _, tt := range tests {
		if _, err := history.ReadNDJSON(strings.NewReader(tt.text)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestWriteNDJSON(t *testing.T) {
	fault := history.Window{Kind: history.FaultWindow, Name: "kill", Start: 5, End: 6}
	phase := history.Window{Kind: history.PhaseWindow, Name: "steady", Start: 0, End: 9}
	var out bytes.Buffer
	if err := history.WriteNDJSON(&out, history.Slice(variety(4), fault, phase)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := `{"seq":0,"id":1,"kind":"buy","key":"item-1","client":"buyer-7","arg":-3,"outcome":"ok",` +
		`"reply":{"key":"order-9","value":12,"body":"{\"unit\":12}"},` +
		`"intended_ns":0,"start_ns":5,"end_ns":900}`
	if len(lines) != 6 || lines[2] != want || !strings.Contains(lines[0], "steady") {
		t.Errorf("wrote %s", out.String())
	}
	if err := history.WriteNDJSON(&failing{}, history.Slice(variety(4))); !errors.Is(err, errFull) {
		t.Errorf("to a full disk: %v", err)
	}
	if err := history.WriteNDJSON(&out, unreadable{}); !errors.Is(err, errFull) {
		t.Errorf("of an unreadable history: %v", err)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (*failing) Write([]byte) (int, error) { return 0, errFull }

// unreadable is a history that fails after one record.
type unreadable struct{}

func (unreadable) All() iter.Seq2[history.Record, error] {
	return func(yield func(history.Record, error) bool) {
		_ = yield(ok(0), nil) && yield(history.Record{}, errFull)
	}
}

func (unreadable) Faults() []history.Window  { return nil }
func (unreadable) Samples() []history.Sample { return nil }

// TestSamples: what a gauge saw, and when it saw nothing, is read back in
// order from both forms; a history of before there were samples has none.
func TestSamples(t *testing.T) {
	want := []history.Sample{seen(3), {From: 9, To: 12, Err: "timeout"}, seen(20)}
	w, path := create(t)
	for _, s := range want {
		if err := w.Sample(s); err != nil {
			t.Fatal(err)
		}
	}
	for name, wrong := range map[string]history.Sample{
		"backwards": {From: 2, To: 1, Err: "x"}, "nothing": {}, "no JSON": {Body: []byte("{")},
		"both": {Body: []byte("1"), Err: "x"},
	} {
		if err := w.Sample(wrong); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Sample(seen(30)); err == nil {
		t.Error("a sample was written after the end")
	}
	var text bytes.Buffer
	if err := history.WriteNDJSON(&text, open(t, path)); err != nil {
		t.Fatal(err)
	}
	again, err := history.ReadNDJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []history.History{open(t, path), again} {
		if got := h.Samples(); !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	if _, err := history.ReadNDJSON(strings.NewReader(`{"sample":{"from_ns":2,"to_ns":1}}`)); err == nil {
		t.Error("a sample that ends before it begins was read")
	}
}

// TestOlderHistories: files of the versions before are read; 1 has no samples and 2
// no codes.
func TestOlderHistories(t *testing.T) {
	for version := 1; version <= 2; version++ {
		data, err := os.ReadFile(fmt.Sprintf("testdata/version%d.history", version))
		if err != nil {
			t.Fatal(err)
		}
		f, err := history.ReadBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, f); !f.Complete() || !equal(got, variety(10)) ||
			len(f.Samples()) != version-1 {
			t.Errorf("version %d: read %d records and %d samples, complete: %v", version,
				len(got), len(f.Samples()), f.Complete())
		}
	}
}

func FuzzReadNDJSON(f *testing.F) {
	var out bytes.Buffer
	h := history.Slice(variety(6), history.Window{Name: "w"})
	if err := history.WriteNDJSON(&out, h); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"id":1,"kind":"b","start_ns":"1ms"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := history.ReadNDJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		var text bytes.Buffer
		if err := history.WriteNDJSON(&text, m); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		again, err := history.ReadNDJSON(&text)
		if err != nil {
			t.Fatalf("read what was written: %v", err)
		}
		if !equal(read(t, again), read(t, m)) {
			t.Fatal("records differ after writing and reading")
		}
	})
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(r []history.Record)
	}{
		{"as it is - pass", "", func([]history.Record) {}},
		{"sent when due - pass", "", func(r []history.Record) { r[0].Intended = r[0].Start }},
		{"out of order - pass", "", func(r []history.Record) { r[0], r[7] = r[7], r[0] }},
		{"duplicate - fail", "record 3 occurs twice", func(r []history.Record) { r[4].Seq = 3 }},
		{"missing - fail", "record 9 of 10 is missing", func(r []history.Record) { r[9].Seq = 10 }},
		{"far off - fail", "record 9 of 10 is missing", func(r []history.Record) { r[9].Seq = 1 << 60 }},
		{"too early - fail", "sent at 4ns, before it was due at 5ns", func(r []history.Record) {
			r[0].Intended, r[0].Start = 5, 4
		}},
		{"end before start - fail", "record 0: end is before start", func(r []history.Record) {
			r[0].End = r[0].Start - 1
		}},
	}
	for _, tt := range tests {
		records := variety(10)
		tt.change(records)
		totals, err := history.Validate(history.Slice(records))
		if tt.want == "" {
			if err != nil || totals.Scheduled != 10 || totals.Started() != 8 {
				t.Errorf("%s: %+v, %v", tt.name, totals, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := history.Validate(unreadable{}); !errors.Is(err, errFull) {
		t.Errorf("unreadable: %v", err)
	}
	if totals, err := history.Validate(history.Slice(nil)); err != nil || totals.Scheduled != 0 {
		t.Errorf("empty: %+v, %v", totals, err)
	}
}

func TestOutcomeText(t *testing.T) {
	for o := history.Unknown; o <= history.Dropped; o++ {
		text, err := json.Marshal(o)
		var back history.Outcome = 99
		if err != nil || json.Unmarshal(text, &back) != nil || back != o {
			t.Errorf("%v becomes %s, %v, and reads back as %v", o, text, err, back)
		}
	}
	if _, err := json.Marshal(history.Outcome(9)); err == nil {
		t.Error("an invalid outcome was encoded")
	}
	if history.Outcome(9).String() != "invalid" {
		t.Error("an invalid outcome has a name")
	}
}
