package history_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/history"
)

// disk is a sink in memory that can stall, fill up and fail.
type disk struct {
	mu   sync.Mutex
	data bytes.Buffer
	// room is how many bytes fit; 0 means all.
	room int
	// stalled, if not nil, is waited for by every write.
	stalled  chan struct{}
	syncErr  error
	closeErr error
	synced   bool
}

func (d *disk) Write(p []byte) (int, error) {
	if d.stalled != nil {
		<-d.stalled
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room > 0 && d.data.Len()+len(p) > d.room {
		n, _ := d.data.Write(p[:d.room-d.data.Len()])
		return n, syscall.ENOSPC
	}
	return d.data.Write(p)
}

func (d *disk) Sync() error  { d.synced = true; return d.syncErr }
func (d *disk) Close() error { return d.closeErr }

// bytes returns a copy of what is on the disk.
func (d *disk) bytes() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.data.Bytes())
}

func newWriter(t *testing.T, d *disk) *history.Writer {
	t.Helper()
	w, err := history.NewWriter("disk", d, header())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestFlushWithinASecond in virtual time: a record is on the disk a second
// after its Append although its worker is idle.
func TestFlushWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		w := newWriter(t, d)
		defer w.Close()
		idle, busy := w.Shard(), w.Shard()
		want := variety(10)
		idle.Append(&want[0])
		for i := range want[1:] {
			busy.Append(&want[1+i])
			time.Sleep(time.Second)
			synctest.Wait()
			f, err := history.ReadBytes(d.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, f); !equal(got, want[:i+2]) || f.Complete() {
				t.Fatalf("after a second %d of %d records are on the disk", len(got), i+2)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if f, err := history.ReadBytes(d.bytes()); err != nil || !f.Complete() || !d.synced {
			t.Errorf("after Close: %v, synced %v", err, d.synced)
		}
	})
}

// TestWorkersKeepTheirOrder with many workers, chunks that fill and chunks
// that are flushed in part.
func TestWorkersKeepTheirOrder(t *testing.T) {
	w, path := create(t)
	const workers, each = 8, 5000
	var wg sync.WaitGroup
	for worker := range uint64(workers) {
		shard := w.Shard()
		wg.Go(func() {
			for n := range uint64(each) {
				r := ok(worker*each + n)
				shard.Append(&r)
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var next [workers]uint64
	for _, r := range read(t, open(t, path)) {
		if worker := r.Seq / each; r.Seq%each != next[worker] {
			t.Fatalf("worker %d: record %d follows %d", worker, r.Seq%each, next[worker])
		}
		next[r.Seq/each]++
	}
	for worker, n := range next {
		if n != each {
			t.Errorf("worker %d has %d records, want %d", worker, n, each)
		}
	}
}

func TestRecordLargerThanAChunk(t *testing.T) {
	want := variety(3)
	for i := range want {
		want[i].Op.Body = bytes.Repeat([]byte{byte(i + 1)}, 5*history.ChunkSize)
	}
	want = append(want, variety(6)[3:]...)
	if got := read(t, open(t, store(t, want))); !equal(got, want) {
		t.Error("large records read back differently")
	}
}

func TestRecordLargerThanAFrame(t *testing.T) {
	w, path := create(t)
	shard := w.Shard()
	huge, small := ok(0), ok(1)
	huge.Op.Body = make([]byte, history.MaxPayload)
	shard.Append(&small)
	shard.Append(&huge)
	shard.Append(&small)
	err := w.Close()
	if err == nil || !strings.Contains(err.Error(), "1 records lost: record 0 takes") {
		t.Errorf("close: %v", err)
	}
	if f := open(t, path); f.Complete() || len(read(t, f)) != 2 {
		t.Error("a history that lost a record is complete, or more than the one is lost")
	}
}

// TestFullDisk: the error is sticky, records are counted as lost, and what was
// written before stays readable.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: 3*history.ChunkSize + 100}
		w := newWriter(t, d)
		shard := w.Shard()
		records := variety(2000)
		mustBeOpen(t, w.Failed())
		for i := range records {
			shard.Append(&records[i])
		}
		<-w.Failed() // or nothing is left that could close it, which synctest tells
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(w.Err(), syscall.ENOSPC) || w.Lost() == 0 {
			t.Errorf("before Close: %v, %d lost", w.Err(), w.Lost())
		}
		if err := w.Window(history.Window{Name: "x"}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("window: %v", err)
		}
		err := w.Close()
		if !errors.Is(err, syscall.ENOSPC) || w.Lost()+w.Written() != 2000 {
			t.Errorf("close: %v, %d lost, %d written", err, w.Lost(), w.Written())
		}
		if again := w.Close(); again == nil || again.Error() != err.Error() {
			t.Errorf("closed again: %v", again)
		}
		f, err := history.ReadBytes(d.bytes())
		if err != nil || f.Complete() || f.Truncated() == 0 {
			t.Fatalf("read back: %v", err)
		}
		if got := read(t, f); uint64(len(got)) != w.Written() || !equal(got, records[:len(got)]) {
			t.Errorf("read %d records, %d were written", len(got), w.Written())
		}
	})
}

func mustBeOpen(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Error("it is closed already")
	default:
	}
}

// TestStalledDisk: workers never wait for it; what does not fit the backlog is
// counted and fails the history.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		w := newWriter(t, d)
		d.stalled = make(chan struct{})
		shard := w.Shard()
		r := ok(0)
		r.Op.Body = make([]byte, history.ChunkSize/2)
		const n = 2 * history.BacklogLimit / (history.ChunkSize / 2)
		for range n {
			shard.Append(&r)
		}
		if !errors.Is(w.Err(), history.ErrBehind) {
			t.Errorf("behind: %v", w.Err())
		}
		close(d.stalled)
		err := w.Close()
		if !errors.Is(err, history.ErrBehind) || w.Lost() < n/4 || w.Lost()+w.Written() != n {
			t.Errorf("close: %v, %d lost and %d written of %d", err, w.Lost(), w.Written(), n)
		}
	})
}

// TestWaitingForTheDisk: workers that may wait lose nothing, and the writer's end waits too.
func TestWaitingForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		w := newWriter(t, d)
		w.WaitForDisk()
		d.stalled = make(chan struct{})
		r := ok(0)
		r.Op.Body = make([]byte, history.ChunkSize/2)
		const n = 2 * history.BacklogLimit / (history.ChunkSize / 2)
		var appended atomic.Int64
		go func() {
			shard := w.Shard()
			for range n {
				shard.Append(&r)
				appended.Add(1)
			}
		}()
		synctest.Wait()
		if did := appended.Load(); did == 0 || did == n {
			t.Errorf("%d of %d were appended while the disk stalled", did, n)
		}
		time.Sleep(time.Second) // partial chunks are not due either
		close(d.stalled)
		synctest.Wait()
		if err := w.Close(); err != nil || w.Lost() != 0 || w.Written() != n {
			t.Errorf("close: %v, %d lost and %d written of %d", err, w.Lost(), w.Written(), n)
		}
	})
}

func TestCloseReportsSyncAndCloseErrors(t *testing.T) {
	for _, d := range []*disk{{syncErr: syscall.EIO}, {closeErr: syscall.EIO}} {
		if err := newWriter(t, d).Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
	}
}

func TestCreateErrors(t *testing.T) {
	if _, err := history.Create(filepath.Join(t.TempDir(), "no", "folder"), header()); err == nil {
		t.Error("created in a folder that does not exist")
	}
	_, err := history.NewWriter("full", &disk{room: 10}, header())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
}

// TestBrokenRecordsPanic: they are defects of the program that records.
func TestBrokenRecordsPanic(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(*history.Record)
	}{
		{"no id", "operation id is zero", func(r *history.Record) { r.Op.ID = 0 }},
		{"no kind", "kind is empty", func(r *history.Record) { r.Op.Kind = "" }},
		{"outcome", "outcome is none of", func(r *history.Record) { r.Outcome = 4 }},
		{"intended", "intended time is negative", func(r *history.Record) { r.Intended = -1 }},
		{"start", "start time is negative", func(r *history.Record) { r.Start = -1 }},
		{"end", "end is before start", func(r *history.Record) { r.End = r.Start - 1 }},
		{"no start", "has no start", func(r *history.Record) { r.Start = history.Never }},
		{"no end", "has no end", func(r *history.Record) { r.End = history.Never }},
		{"dropped", "has a start or an end", func(r *history.Record) { r.Outcome = history.Dropped }},
		{"dropped, started", "has a start or an end", func(r *history.Record) {
			r.Outcome, r.End = history.Dropped, history.Never
		}},
	}
	w, _ := create(t)
	shard := w.Shard()
	for _, tt := range tests {
		r := ok(5)
		tt.change(&r)
		if text := panicText(func() { shard.Append(&r) }); !strings.Contains(text, tt.want) ||
			!strings.Contains(text, "record 5") {
			t.Errorf("%s: panic %q, want %q", tt.name, text, tt.want)
		}
	}
	r := ok(0)
	shard.Append(&r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if text := panicText(func() { shard.Append(&r) }); !strings.Contains(text, "after Close") {
		t.Errorf("Append after Close: panic %q", text)
	}
	if err := w.Window(history.Window{Name: "x"}); err == nil || w.Err() != nil {
		t.Errorf("Window after Close: %v, and then %v", err, w.Err())
	}
	if text := panicText(func() { w.Shard() }); !strings.Contains(text, "after Close") {
		t.Errorf("Shard after Close: panic %q", text)
	}
}

func panicText(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

// TestAppendDoesNotAllocate once its buffers have been made.
func TestAppendDoesNotAllocate(t *testing.T) {
	w := newWriter(t, &disk{})
	defer w.Close()
	shard, r := w.Shard(), ok(0)
	if n := testing.AllocsPerRun(20_000, func() { shard.Append(&r) }); n != 0 {
		t.Errorf("%v allocations for each record", n)
	}
}
