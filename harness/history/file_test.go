package history_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/history"
)

// stored returns the bytes of a history with some chunks, a window and a
// sample, closed.
func stored(t testing.TB, records []history.Record) []byte {
	t.Helper()
	fault := history.Window{Kind: history.FaultWindow, Name: "f", Evidence: []string{"x"}}
	w, path := create(t)
	shard := w.Shard()
	for i := range records {
		shard.Append(&records[i])
	}
	err := errors.Join(w.Window(fault), w.Sample(seen(5)), w.Close())
	data, readErr := os.ReadFile(path)
	if err = errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	return data
}

// frames returns the offsets of the frames of a stored history and its size.
func frames(data []byte) []int {
	var offsets []int
	offset := 12
	for offset < len(data) {
		offsets = append(offsets, offset)
		offset += history.FrameHead + int(binary.LittleEndian.Uint32(data[offset:]))
	}
	return append(offsets, offset)
}

// chunked returns how many records the chunks of a stored history hold that end
// at or before size. A flush may come before the first record: such a chunk is
// as good as the others and holds none.
func chunked(data []byte, offsets []int, size int) int {
	n := 0
	for i, o := range offsets[:len(offsets)-1] {
		if data[o+4] == 2 && offsets[i+1] <= size {
			n += int(binary.LittleEndian.Uint32(data[o+history.FrameHead:]))
		}
	}
	return n
}

// TestTruncatedHistory cuts a history at every place after the header: it
// reads up to its last whole chunk and says how much is lost.
func TestTruncatedHistory(t *testing.T) {
	want := variety(800)
	data := stored(t, want)
	offsets := frames(data)
	if n := chunked(data, offsets, len(data)); n != len(want) {
		t.Fatalf("the chunks hold %d records, %d were written", n, len(want))
	}
	whole := offsets[1]
	for size := offsets[1]; size < len(data); size++ {
		for _, o := range offsets {
			if o <= size {
				whole = o
			}
		}
		f, err := history.ReadBytes(data[:size])
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", size, len(data), err)
		}
		if f.Complete() || f.Truncated() != int64(size-whole) {
			t.Fatalf("cut at %d: complete %v, %d bytes lost, want %d",
				size, f.Complete(), f.Truncated(), size-whole)
		}
		if size%97 != 0 && size != whole {
			continue
		}
		got, n := read(t, f), chunked(data, offsets, size)
		if len(got) != n || !equal(got, want[:n]) {
			t.Fatalf("cut at %d: read %d records, want the first %d", size, len(got), n)
		}
	}
}

// TestTornLastChunk: all bytes of the last chunk are there, but not what was
// written. Without an end marker it is a torn tail.
func TestTornLastChunk(t *testing.T) {
	want := variety(800)
	data := stored(t, want)
	offsets := frames(data)
	last := 0 // the last chunk comes before the window and the end marker
	for i := range offsets[:len(offsets)-1] {
		if data[offsets[i]+4] == 2 {
			last = i
		}
	}
	torn := bytes.Clone(data[:offsets[last+1]])
	clear(torn[offsets[last]+history.FrameHead:])
	f, err := history.ReadBytes(torn)
	if err != nil || f.Truncated() != int64(len(torn)-offsets[last]) {
		t.Fatalf("torn tail: %v", err)
	}
	if got := read(t, f); len(got) == 0 || !equal(got, want[:len(got)]) {
		t.Errorf("read %d records that differ", len(got))
	}
}

// TestDamagedHistory changes every byte of a closed history in turn: it is
// never read as if nothing had happened, and the error names the place. Where
// the content of the end marker is damaged, the history is not complete.
func TestDamagedHistory(t *testing.T) {
	data := stored(t, variety(100))
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x41
		f, err := history.ReadBytes(damaged)
		if err == nil {
			for _, err = range f.All() {
			}
		}
		if err == nil && f.Complete() {
			t.Fatalf("byte %d of %d was changed and nothing noticed", i, len(data))
		}
		if err == nil && i < len(data)-len(`{"records":100,"windows":1,"samples":1}`) {
			t.Fatalf("byte %d of %d was taken for a torn tail", i, len(data))
		}
		if err != nil && i >= 12 && !strings.Contains(err.Error(), "memory is damaged at offset") {
			t.Fatalf("byte %d: %v, want the file and the offset", i, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	data := stored(t, variety(10))
	newer := bytes.Clone(data)
	newer[8] = 4
	tests := []struct {
		name, want string
		data       []byte
	}{
		{"empty", "is not a history", nil},
		{"something else", `is not a history: it does not start with "STAMPEDE"`, []byte("{\"a\":1} and so on")},
		{"newer", "has format version 4, but this program reads versions 1 to 3", newer},
		{"cut in the header", "the header is cut off", data[:40]},
		{"more after the end", "data after the end marker", append(bytes.Clone(data), 0)},
		{"end marker lies", "it has 0 records, but the end marker says 10", without(data, 2)},
		{"window missing", "it has 0 windows and 1 samples, but the end marker says 1 and 1",
			without(data, 3)},
		{"sample missing", "it has 1 windows and 0 samples, but the end marker says 1 and 1",
			without(data, 5)},
		{"no header", "expected a header, found kind 3", without(data, 1)},
	}
	for _, tt := range tests {
		path := filepath.Join(t.TempDir(), "history.bin")
		if err := os.WriteFile(path, tt.data, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := history.Open(path)
		if err == nil {
			_, err = history.Validate(f)
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want the path and %q", tt.name, err, tt.want)
		}
	}
	if _, err := history.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	_, err := history.Open(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// without removes the frames of a kind.
func without(data []byte, kind byte) []byte {
	offsets := frames(data)
	out := bytes.Clone(data[:offsets[0]])
	for i, o := range offsets[:len(offsets)-1] {
		if data[o+4] != kind {
			out = append(out, data[o:offsets[i+1]]...)
		}
	}
	return out
}

func TestClosedFileCannotBeRead(t *testing.T) {
	f := open(t, store(t, variety(10)))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Validate(f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

// TestAllStopsEarly and can be started again.
func TestAllStopsEarly(t *testing.T) {
	f := open(t, store(t, variety(1000)))
	n := 0
	for range f.All() {
		if n++; n == 10 {
			break
		}
	}
	if got := len(read(t, f)); got != 1000 {
		t.Errorf("read %d records after an early stop", got)
	}
}

// TestAnyRecordReadsBack from a file and from NDJSON.
func TestAnyRecordReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 0, 30).Draw(t, "records")
		d := &disk{}
		w, err := history.NewWriter("disk", d, header())
		if err != nil {
			t.Fatal(err)
		}
		shard := w.Shard()
		for i := range records {
			shard.Append(&records[i])
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := history.ReadBytes(d.bytes())
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := history.WriteNDJSON(&text, f); err != nil {
			t.Fatal(err)
		}
		m, err := history.ReadNDJSON(&text)
		if err != nil {
			t.Fatal(err)
		}
		for name, h := range map[string]history.History{"file": f, "NDJSON": m} {
			var got []history.Record
			for r, err := range h.All() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r)
			}
			if !equal(got, records) {
				t.Fatalf("%s: read %+v, want %+v", name, got, records)
			}
		}
	})
}

// drawRecord draws any valid record whose strings are UTF-8, as JSON wants.
func drawRecord(t *rapid.T) history.Record {
	text := rapid.StringN(0, 30, 200)
	body := rapid.SliceOfN(rapid.Byte(), 0, 50)
	times := rapid.Int64Range(0, int64(history.Never)-1)
	r := history.Record{
		Seq: rapid.Uint64().Draw(t, "seq"),
		Op: history.Op{
			ID: rapid.Uint64Min(1).Draw(t, "id"), Key: text.Draw(t, "key"), Client: text.Draw(t, "client"),
			Kind: rapid.StringN(1, 10, -1).Draw(t, "kind"), Arg: rapid.Int64().Draw(t, "arg"),
			Body: body.Draw(t, "body"),
		},
		Outcome:  history.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome")),
		Err:      text.Draw(t, "err"),
		Code:     text.Draw(t, "code"),
		Intended: time.Duration(times.Draw(t, "intended")), Start: history.Never, End: history.Never,
	}
	if r.Outcome == history.Dropped {
		return r
	}
	r.Start = time.Duration(times.Draw(t, "start"))
	if r.Outcome != history.Unknown || rapid.Bool().Draw(t, "ended") {
		r.End = time.Duration(rapid.Int64Range(int64(r.Start), int64(history.Never)-1).Draw(t, "end"))
	}
	r.Reply = history.Reply{Key: text.Draw(t, "reply key"),
		Value: rapid.Int64().Draw(t, "reply value"), Body: body.Draw(t, "reply body")}
	return r
}

// FuzzFile: whatever the bytes are, reading them does not panic and allocates
// no more than the file's size calls for.
func FuzzFile(f *testing.F) {
	data := stored(f, variety(20))
	f.Add(data)
	f.Add(data[:len(data)-20])
	f.Add(without(data, 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		file, err := history.ReadBytes(data)
		if err != nil {
			return
		}
		n := 0
		for r, err := range file.All() {
			if err == nil && r.Validate() != nil {
				t.Fatalf("read a record that contradicts itself: %v", r.Validate())
			}
			n++
		}
		runtime.ReadMemStats(&after)
		// The reader's buffer, the interned strings, and the records' copies.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(2<<20+64*len(data)); got > most {
			t.Fatalf("%d bytes allocated for %d bytes and %d records", got, len(data), n)
		}
	})
}

// TestCutRecord: a chunk whose checksum holds and whose last record lacks any
// of its bytes is damaged.
func TestCutRecord(t *testing.T) {
	want := variety(5)
	data := stored(t, want)
	for i, offsets := 0, frames(data); i < len(offsets)-1; i++ {
		if data[offsets[i]+4] != 2 {
			continue
		}
		payload := data[offsets[i]+history.FrameHead : offsets[i+1]]
		for size := range payload {
			f, err := history.ReadBytes(history.WithChunk(payload[:size]))
			if err != nil {
				t.Fatal(err)
			}
			for _, err = range f.All() {
			}
			if err == nil || !strings.Contains(err.Error(), "is damaged at offset") {
				t.Errorf("%d of %d bytes: %v", size, len(payload), err)
			}
		}
	}
}

// FuzzChunk fuzzes the records of a chunk behind checksums that hold, which
// the fuzzer would not find.
func FuzzChunk(f *testing.F) {
	data := stored(f, variety(10))
	for i, offsets := 0, frames(data); i < len(offsets)-1; i++ {
		if data[offsets[i]+4] == 2 {
			f.Add(data[offsets[i]+history.FrameHead : offsets[i+1]])
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		file, err := history.ReadBytes(history.WithChunk(payload))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		for r, err := range file.All() {
			if err == nil && r.Validate() != nil {
				t.Fatalf("read a record that contradicts itself: %v", r.Validate())
			}
		}
	})
}

// TestReadingIsFlat: the memory in use does not grow with what was read.
func TestReadingIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("stores 200,000 records")
	}
	f := open(t, storeMany(t, 200_000))
	var start, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&start)
	n := 0
	for _, err := range f.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%50_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > start.HeapAlloc+2<<20 {
				t.Errorf("%d bytes more in use after %d records", now.HeapAlloc-start.HeapAlloc, n)
			}
		}
	}
	if n != 200_000 {
		t.Errorf("read %d records", n)
	}
}

// storeMany stores n different records.
func storeMany(t testing.TB, n uint64) string {
	t.Helper()
	w, path := create(t)
	shard := w.Shard()
	for seq := range n {
		r := ok(seq)
		r.Op.Client = "buyer-" + strconv.FormatUint(seq, 10)
		r.Reply.Key = "order-" + strconv.FormatUint(seq, 10)
		shard.Append(&r)
		for seq%10_000 == 0 && seq-w.Written() > 200_000 {
			time.Sleep(time.Millisecond)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// BenchmarkRead measures one record of a stored history.
func BenchmarkRead(b *testing.B) {
	const n = 200_000
	f := open(b, storeMany(b, n))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range f.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	b.SetBytes(f.Size())
}
