package views

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"stampede/harness/api"
	"stampede/harness/history"
)

func someEvent() Event {
	return Event{Heartbeat: Heartbeat{ID: 1 << 63, Video: "video-1", User: "u1", Session: "s1",
		IP: "10.0.0.1", Device: "tv", TimeMS: beginMS, WatchedMS: 15_000}, Rules: 3}
}

// eventsOf are the events of a record.
func eventsOf(record []byte) (list []Event, err error) {
	err = decodeEvents(string(record), func(int) *Event {
		list = append(list, Event{})
		return &list[len(list)-1]
	})
	return list, err
}

// TestRecords: what is written is read again, and what is cut short is not.
func TestRecords(t *testing.T) {
	want := []Event{someEvent(), {Heartbeat: Heartbeat{ID: 1}}}
	record := encodeEvents(want)
	got, err := eventsOf(record)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v became %+v", want, got)
	}
	var e Event
	view := appendView(nil, 4097, &want[0])
	if at, err := decodeView(view, &e); err != nil || at != 4097 || e != want[0] {
		t.Errorf("got %d, %+v, %v", at, e, err)
	}
	for n := range record {
		if _, err := eventsOf(record[:n]); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(record))
		}
	}
	for n := range view {
		if _, err := decodeView(view[:n], &e); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(view))
		}
	}
	if _, err := eventsOf(append(record, 0)); err == nil {
		t.Error("a byte too many is read")
	}
}

// TestPositions: a position is read as it is written, and in orders as it does.
func TestPositions(t *testing.T) {
	at := Position{3, 120, 7}
	got, err := ParsePosition(at.String())
	if err != nil || got != at || positionIn(3, at.in()) != at {
		t.Errorf("%v became %v, %v", at, got, err)
	}
	for _, bad := range []string{"", "1/2", "1/2/3/4", "a/2/3", "-1/2/3", "1/2/4096", "9999999/1/1"} {
		if _, err := ParsePosition(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPlaces: positions are read as they are written, and others not at all.
func TestPlaces(t *testing.T) {
	for _, want := range [][]int64{nil, {0}, {7}, {0, 1, 2}, {4095, 4096, 1 << 61}} {
		if got, err := decodePlaces(encodePlaces(want)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v became %v, %v", want, got, err)
		}
	}
	for _, bad := range [][]byte{{3, 0}, {0x80}, append(encodePlaces([]int64{1 << 62}), 1)} {
		if got, err := decodePlaces(bad); err == nil {
			t.Errorf("% x is read as %v", bad, got)
		}
	}
}

// TestLog: a topic is decoded as it was, and a million events stay small.
func TestLog(t *testing.T) {
	first := Logged{Event: someEvent(), Offset: 0, Index: 3}
	second := Logged{Event: someEvent(), Offset: 9, Source: 5}
	second.User, second.ID = "u2", 7
	want := [][]Logged{{first, second}, {}, {second}}
	log, err := EncodeLog(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := log.Decode()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v became %+v, %v", want, got, err)
	}
	for name, change := range map[string]func(*Log){
		"another number of events": func(l *Log) { l.Events++ },
		"more partitions":          func(l *Log) { l.Partitions++ },
		"no partitions":            func(l *Log) { l.Partitions = -1 },
		"cut short":                func(l *Log) { l.Columns = l.Columns[:len(l.Columns)/2] },
	} {
		bad := log
		change(&bad)
		if _, err := bad.Decode(); err == nil {
			t.Errorf("%s: it is decoded", name)
		}
	}
}

// TestLogIsCompact: a hundredth of the largest run takes a hundredth of 20 MB.
func TestLogIsCompact(t *testing.T) {
	p := DefaultParams()
	load, err := System().Workload(1, p)
	if err != nil {
		t.Fatal(err)
	}
	const events = 10_000
	partitions := make([][]Logged, 100)
	for i := range uint64(events) {
		h, _, err := heartbeatOf(load.Op(i))
		if err != nil {
			t.Fatal(err)
		}
		list := &partitions[i%100]
		*list = append(*list, Logged{Event: Event{Heartbeat: h, Rules: 1}, Offset: int64(len(*list))})
	}
	log, err := EncodeLog(partitions)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(log)
	if err != nil {
		t.Fatal(err)
	}
	if each := len(text) / events; each > 40 {
		t.Errorf("an event of a session of its own takes %d bytes", each)
	}
}

// FuzzDecodeEvents: what is read is written again to the same.
func FuzzDecodeEvents(f *testing.F) {
	f.Add(encodeEvents([]Event{someEvent()}))
	f.Add([]byte{formatEvents, 0})
	f.Add([]byte{formatEvents, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, record []byte) {
		list, err := eventsOf(record)
		if err != nil {
			return
		}
		again, err := eventsOf(encodeEvents(list))
		if err != nil || !slices.Equal(list, again) {
			t.Fatalf("%+v became %+v, %v", list, again, err)
		}
	})
}

// FuzzDecodeView likewise.
func FuzzDecodeView(f *testing.F) {
	e := someEvent()
	f.Add(appendView(nil, 77, &e))
	f.Fuzz(func(t *testing.T, record []byte) {
		var e, again Event
		at, err := decodeView(record, &e)
		if err != nil {
			return
		}
		back, err := decodeView(appendView(nil, at, &e), &again)
		if err != nil || back != at || again != e {
			t.Fatalf("%d %+v became %d %+v, %v", at, e, back, again, err)
		}
	})
}

// FuzzLog: whatever a topic of an audit unpacks to, it is decoded or refused.
func FuzzLog(f *testing.F) {
	log, err := EncodeLog([][]Logged{{{Event: someEvent()}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(1, 1, log.Columns)
	f.Fuzz(func(t *testing.T, partitions, events int, columns []byte) {
		list, err := Log{partitions, events, columns}.Decode()
		if err != nil {
			return
		}
		again, err := EncodeLog(list)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := again.Decode(); err != nil || !reflect.DeepEqual(back, list) {
			t.Fatalf("%+v became %+v, %v", list, back, err)
		}
	})
}

// FuzzHeartbeatOf: the body of an operation may be anything.
func FuzzHeartbeatOf(f *testing.F) {
	f.Add(opOf(someEvent().Heartbeat, 2).Body)
	f.Fuzz(func(t *testing.T, body []byte) {
		h, tries, err := heartbeatOf(history.Op{Body: body})
		if err != nil {
			return
		}
		if again, n, err := heartbeatOf(opOf(h, tries)); err != nil || again != h || n != tries {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

// TestWatchOps: an operation that sends a heartbeat is what the table makes of one.
func TestWatchOps(t *testing.T) {
	h := someEvent().Heartbeat
	made, wrote := API().Op(KindHeartbeat, watchOf(h)), opOf(h, 0)
	if !reflect.DeepEqual(made, wrote) {
		t.Errorf("%+v is not %+v", wrote, made)
	}
	req, err := api.RequestOf[WatchRequest](API(), wrote)
	if err != nil || req.heartbeat() != h {
		t.Errorf("%+v is read as %+v, %v", h, req, err)
	}
}

// TestNamesAreCopied: a session that is remembered does not keep the texts of its poll in memory,
// also if it is entered again.
func TestNamesAreCopied(t *testing.T) {
	w := &windows{judged: map[int32]map[string]judgement{}}
	texts := "a poll with s1 and s1 again"
	for _, begin := range []int{12, 19} {
		w.remember(3, texts[begin:begin+2], judgement{partition: 3, word: wordView})
	}
	for name := range w.judged[3] {
		at := uintptr(unsafe.Pointer(unsafe.StringData(name)))
		first := uintptr(unsafe.Pointer(unsafe.StringData(texts)))
		if name != "s1" || first <= at && at < first+uintptr(len(texts)) {
			t.Errorf("%q is a part of the texts of the poll", name)
		}
	}
	if len(w.judged[3]) != 1 {
		t.Errorf("%d sessions are remembered, want 1", len(w.judged[3]))
	}
}
