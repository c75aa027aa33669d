package likes

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/api"
	"stampede/harness/suttest"
)

// TestRoundTrips: what is packed comes back.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := Packed(rapid.SliceOf(rapid.Uint64()).Draw(t, "numbers"))
		slices.Sort(list)
		again(t, list, &Packed{})
		again(t, PackedEvents(rapid.SliceOf(rapid.Custom(drawEvent)).Draw(t, "events")), &PackedEvents{})
	})
	if _, err := json.Marshal(Packed{2, 1}); err == nil {
		t.Error("a list that does not ascend was packed")
	}
}

func drawEvent(t *rapid.T) Event {
	id := rapid.Uint64Range(1, math.MaxInt64)
	return Event{OpID: id.Draw(t, "op"), Video: id.Draw(t, "video"), User: id.Draw(t, "user"),
		Liked: rapid.Bool().Draw(t, "liked"), Version: int64(id.Draw(t, "version"))}
}

// FuzzPacked: no input makes a decoder panic, and what it accepts it also writes.
func FuzzPacked(f *testing.F) {
	f.Add([]byte(`"AQID"`))
	f.Add([]byte(`"////////////"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var numbers Packed
		if json.Unmarshal(text, &numbers) == nil && numbers != nil {
			again(t, numbers, &Packed{})
		}
		var events PackedEvents
		if json.Unmarshal(text, &events) == nil && events != nil {
			again(t, events, &PackedEvents{})
		}
	})
}

// again writes what was read and reads it once more.
func again[T any](t suttest.TB, value T, into *T) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	if err := json.Unmarshal(text, into); err != nil || !reflect.DeepEqual(value, *into) {
		t.Fatalf("%v became %v, %v", value, *into, err)
	}
}

// FuzzAudit: no audit makes the decoder panic.
func FuzzAudit(f *testing.F) {
	f.Add([]byte(`{"contract":{"ack":"log","regions":1},"videos":[],"logged":"AQ=="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := api.DecodeAudit[Audit](text)
		if err != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := api.DecodeAudit[Audit](again); err != nil || len(b.Videos) != len(a.Videos) {
			t.Fatalf("%+v became %+v, %v", a, b, err)
		}
	})
}

// FuzzEvent: no record makes the worker panic, and an event survives the log.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"op":1,"video":1,"user":1,"liked":true,"version":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := parseEvent(value)
		if err != nil {
			return
		}
		r, err := (&eventLog{}).record(e)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseEvent(r.Value); err != nil || back != e {
			t.Fatalf("%+v became %+v, %v", e, back, err)
		}
	})
}

// FuzzMember: no field of Redis makes the reader panic.
func FuzzMember(f *testing.F) {
	f.Add("42", "4294967297 256")
	f.Add("42", "-4294967297 256")
	f.Fuzz(func(t *testing.T, user, text string) {
		p, err := parseMember(user, text)
		if err == nil && (p.version <= 0 || p.user == 0 && strings.Trim(user, "0") != "") {
			t.Fatalf("%q %q became %+v", user, text, p)
		}
	})
}

// TestDecodeAuditRefuses names the field that is wrong.
func TestDecodeAuditRefuses(t *testing.T) {
	const (
		contract = `"contract":{"ack":"log","regions":1}`
		row      = `"shards":1,"counts":[0],"members":"","ledger":"","viewers":0}]}`
		two      = `"shards":1,"counts":[0,0],"members":"","ledger":"","viewers":0}]}`
		records  = `"committed":0,"first":0,"records":""}]}`
	)
	for text, want := range map[string]string{
		`{"contract":{"ack":"log","regions":17}}`:                        "contract.regions",
		`{` + contract + `}`:                                             "logged",
		`{` + contract + `,"logged":"?"}`:                                "unpacking numbers",
		`{` + contract + `,"logged":"gA=="}`:                             "cut short",
		`{` + contract + `,"logged":"","log":[{"records":"AQEBAgE="}]}`:  "liked 2",
		`{` + contract + `,"logged":"","videos":[{"video_id":1}]}`:       "videos[0].shards: it is missing",
		`{` + contract + `,"logged":"","videos":[{"video_id":2,` + row:   "videos[0].video_id: expected 1",
		`{` + contract + `,"logged":"","videos":[{"video_id":1,` + two:   "videos[0].counts: expected one",
		`{` + contract + `,"logged":"","log":[{"partition":1,` + records: "log[0]: expected partition 0",
	} {
		if _, err := api.DecodeAudit[Audit](json.RawMessage(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
