package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunkSize is the size at which a shard hands its chunk over, about 200
	// records. Each shard in use holds one buffer of this size.
	chunkSize = 16 << 10
	// flushEvery is how often partial chunks are written out, twice as often
	// as promised.
	flushEvery = 500 * time.Millisecond
	// drainPoll is how often it is looked whether the disk has caught up.
	drainPoll = 50 * time.Microsecond
	// backlogLimit bounds the bytes that wait for the disk.
	backlogLimit = 64 << 20
)

// ErrBehind is the error of a writer whose disk was too slow for the load.
var ErrBehind = errors.New("the disk is too slow for the history")

// Writer streams a history to a file.
//
// Each worker appends to a Shard of its own. Full chunks go to one goroutine
// that writes them; partial ones follow within a second, also those of a shard
// that has nothing to say. A chunk is handed to the kernel by write(2), which
// suffices against the death of the process, kill -9 included, but not of the
// machine: only Close waits for the disk.
//
// A writer never blocks a worker and never loses a record silently. Once more
// than 64 MiB wait for the disk, or a write has failed, records are counted as
// lost, Err and Close return the error and the file stays without end marker.
// The run must then be failed. A load in virtual time can wait instead: see
// WaitForDisk.
type Writer struct {
	path  string
	queue chan chunk
	free  chan []byte
	done  chan struct{}
	// backlog is the bytes handed over and not yet written.
	backlog atomic.Int64
	written atomic.Uint64
	lost    atomic.Uint64
	failure atomic.Pointer[error]
	failed  chan struct{} // closed when failure is set
	waits   atomic.Bool   // see WaitForDisk

	mu     sync.Mutex // guards shards and closed
	shards []*Shard
	closed bool

	fileMu  sync.Mutex // guards file, windows, samples and broken
	file    sink
	windows int
	samples int
	broken  error // of the first write that failed
}

// sink is what a Writer needs of *os.File.
type sink interface {
	io.Writer
	Sync() error
	Close() error
}

// chunk is a chunk on its way to the disk; buf has room for its head.
type chunk struct {
	buf   []byte
	count uint32
}

// Create starts a history in a new file; an existing one is an error. The
// header is on file when Create returns.
func Create(path string, hdr Header) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: create: %w", err)
	}
	w, err := newWriter(path, f, hdr)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return w, nil
}

func newWriter(path string, file sink, hdr Header) (*Writer, error) {
	frame, err := sealJSON(headerFrame, hdr)
	if err != nil {
		return nil, fmt.Errorf("history: encode the header: %w", err)
	}
	prelude := binary.LittleEndian.AppendUint32([]byte(magic), version)
	if _, err := file.Write(append(prelude, frame...)); err != nil {
		return nil, fmt.Errorf("history: write the header: %w", err)
	}
	w := &Writer{
		path: path,
		file: file,
		// Chunks in the queue are bounded by backlogLimit, and each counts
		// for chunkSize at least, so that a send never blocks.
		queue:  make(chan chunk, backlogLimit/chunkSize),
		free:   make(chan []byte, backlogLimit/chunkSize/4),
		done:   make(chan struct{}),
		failed: make(chan struct{}),
	}
	go w.run()
	return w, nil
}

// Shard returns a new shard for one worker. It panics after Close.
func (w *Writer) Shard() *Shard {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		panic("history: Shard after Close")
	}
	s := &Shard{w: w, enc: encoder{words: make([]string, 0, maxWords)}}
	w.shards = append(w.shards, s)
	return s
}

// WaitForDisk makes workers wait where the writer would lose records, because as
// many chunks as may wait for the disk do. Partial chunks then stay in memory
// until Close. It is for a load in virtual time, Sort and Merge, and is called before Shard.
func (w *Writer) WaitForDisk() { w.waits.Store(true) }

// Window writes a window at once, as a frame of its own. A window with the
// Kind, Name and Start of an earlier one replaces it, so that a fault can be
// recorded with End Never when it starts and again when it is over.
func (w *Writer) Window(win Window) error {
	frame, err := sealJSON(windowFrame, win)
	if err != nil {
		return fmt.Errorf("history: encode window %q: %w", win.Name, err)
	}
	if err := w.frame(frame, &w.windows); err != nil {
		return fmt.Errorf("history: write window %q: %w", win.Name, err)
	}
	return nil
}

// Sample writes a sample at once, as a frame of its own. One that contradicts
// itself is an error.
func (w *Writer) Sample(s Sample) error {
	frame, err := sealJSON(sampleFrame, s)
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return fmt.Errorf("history: encode the sample of %v: %w", s.From, err)
	}
	if err := w.frame(frame, &w.samples); err != nil {
		return fmt.Errorf("history: write the sample of %v: %w", s.From, err)
	}
	return nil
}

// frame writes a frame that is no chunk and counts it. In virtual time it comes after the chunks
// that were handed over before, so that the same load leaves the same file.
func (w *Writer) frame(frame []byte, count *int) error {
	for w.waits.Load() && w.backlog.Load() > 0 {
		time.Sleep(drainPoll)
	}
	w.fileMu.Lock()
	defer w.fileMu.Unlock()
	if err := w.writeLocked(frame); err != nil {
		return err
	}
	*count++
	return nil
}

// Written is the number of records that were handed to the kernel.
func (w *Writer) Written() uint64 { return w.written.Load() }

// Lost is the number of records that will never be written.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Err returns the first error of the writer, if any. It stays.
func (w *Writer) Err() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Failed is closed at the writer's first error: what is recorded from then on
// is lost, so whoever makes the load should stop.
func (w *Writer) Failed() <-chan struct{} { return w.failed }

// Close writes what is left, the end marker if no record was lost, and waits
// for the disk. No worker may append any more. It returns the error of the
// writer; closing again does nothing and returns the same.
func (w *Writer) Close() error {
	if !w.closeShards() {
		<-w.done
		return w.closeErr()
	}
	close(w.queue)
	<-w.done
	w.fileMu.Lock()
	defer w.fileMu.Unlock()
	if w.Err() == nil {
		w.finish()
	}
	if err := w.file.Close(); err != nil {
		w.fail(err)
	}
	w.broken = errClosed
	return w.closeErr()
}

// errClosed is the error of a window or a sample after Close.
var errClosed = errors.New("the history is closed")

// closeShards hands the last chunks over; it reports false if it was done
// before. Afterwards nothing sends to the queue.
func (w *Writer) closeShards() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.closed = true
	for _, s := range w.shards {
		s.close()
	}
	return true
}

func (w *Writer) closeErr() error {
	err := w.Err()
	if err == nil {
		return nil
	}
	return fmt.Errorf("history: %s: %d records lost: %w", w.path, w.Lost(), err)
}

// finish writes the end marker and syncs.
func (w *Writer) finish() {
	frame, err := sealJSON(endFrame, endMark{
		Records: w.Written(), Windows: w.windows, Samples: w.samples})
	if err == nil {
		err = w.writeLocked(frame)
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		w.fail(err)
	}
}

// run writes chunks in the order of their handing over until the queue is
// closed. Partial chunks take the same queue, so that the records of a shard
// stay in order.
func (w *Writer) run() {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case c, ok := <-w.queue:
			if !ok {
				return
			}
			w.write(c)
		case <-tick.C:
			w.flushShards()
		}
	}
}

func (w *Writer) flushShards() {
	if w.waits.Load() {
		return // whoever waits holds a lock until this goroutine has written
	}
	w.mu.Lock()
	shards := w.shards // only ever appended to
	w.mu.Unlock()
	for _, s := range shards {
		s.flush()
	}
}

func (w *Writer) write(c chunk) {
	binary.LittleEndian.PutUint32(c.buf[frameHead:], c.count)
	w.fileMu.Lock()
	err := w.writeLocked(seal(c.buf, chunkFrame))
	w.fileMu.Unlock()
	if err != nil {
		w.lost.Add(uint64(c.count))
	} else {
		w.written.Add(uint64(c.count))
	}
	w.backlog.Add(-int64(cap(c.buf)))
	w.recycle(c.buf)
}

// writeLocked writes one frame. After a failed write the file may end in half
// a frame, so nothing more is written: all before it stays readable.
func (w *Writer) writeLocked(frame []byte) error {
	if w.broken != nil {
		return w.broken
	}
	if _, err := w.file.Write(frame); err != nil {
		w.broken = err
		w.fail(err)
	}
	return w.broken
}

func (w *Writer) fail(err error) {
	if w.failure.CompareAndSwap(nil, &err) {
		close(w.failed)
	}
}

// hand queues a chunk, or reports false if the backlog is full and nobody waits.
func (w *Writer) hand(c chunk) bool {
	size := int64(cap(c.buf))
	if w.backlog.Add(size) > backlogLimit && !w.waits.Load() {
		w.backlog.Add(-size)
		return false
	}
	w.queue <- c
	return true
}

// buffer returns a buffer with room for a chunk's head and size bytes.
func (w *Writer) buffer(size int) []byte {
	if chunkHead+size > chunkSize {
		return make([]byte, chunkHead, chunkHead+size)
	}
	select {
	case b := <-w.free:
		return b[:chunkHead]
	default:
		return make([]byte, chunkHead, chunkSize)
	}
}

// recycle keeps a buffer of the usual size for later.
func (w *Writer) recycle(b []byte) {
	if cap(b) != chunkSize {
		return
	}
	select {
	case w.free <- b:
	default:
	}
}
