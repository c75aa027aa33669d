// Package journal keeps what a process must not forget: an append-only log of checked records, and
// next to it a file of blobs that records point into. What was acknowledged is there after a crash,
// and nothing of a record that was not written whole.
//
// A record is its length and its CRC-32C (Castagnoli), four bytes each in little endian, and its
// bytes. The log is never shortened.
package journal

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"stampede/harness/durable"
)

// ErrLocked says that another process has the journal open.
var ErrLocked = errors.New("another process has the journal")

// The files of a folder. The log is locked by who has it open.
const (
	logFile  = "journal.log"
	blobFile = "journal.blobs"
)

// Journal is an open journal. One process has it at a time.
type Journal struct {
	log, blobs *os.File

	mu     sync.Mutex // of end, closed, and the order of the queue
	end    int64      // of the blobs
	closed bool
	queue  chan *write
	done   chan struct{}
	failed error // of the writer; a journal that has failed accepts nothing
}

// write is a record on its way, with a blob.
type write struct {
	record, blob []byte
	at           int64
	result       chan error
}

// Open opens the journal of a folder and shows its records, oldest first. What follows the last
// whole record is cut off.
func Open(folder string, show func([]byte) error) (opened *Journal, err error) {
	j := &Journal{queue: make(chan *write, 4096), done: make(chan struct{})}
	defer func() {
		if err != nil {
			j.closeFiles()
		}
	}()
	if j.log, err = open(folder, logFile); err != nil {
		return nil, err
	}
	if err := durable.Flock(j.log, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	whole, err := records(j.log, show)
	if err != nil {
		return nil, err
	}
	if err = j.log.Truncate(whole); err == nil {
		_, err = j.log.Seek(whole, io.SeekStart)
	}
	if err == nil {
		j.blobs, err = open(folder, blobFile)
	}
	if err == nil {
		j.end, err = j.blobs.Seek(0, io.SeekEnd)
	}
	if err == nil {
		err = durable.Sync(folder) // names too
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	go j.write()
	return j, nil
}

func open(folder, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return f, nil
}

// Read shows the records of a journal that another process may have open.
func Read(folder string, show func([]byte) error) error {
	f, err := os.Open(filepath.Join(folder, logFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = records(f, show)
	return err
}

const (
	headBytes = 8
	// largest bounds a record: what says that it is larger is no record.
	largest = 1 << 28
)

// records shows the whole records at the beginning of a file, and says where they end.
func records(f *os.File, show func([]byte) error) (whole int64, err error) {
	in := bufio.NewReaderSize(f, 1<<20)
	var head [headBytes]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return whole, torn(err)
		}
		size := binary.LittleEndian.Uint32(head[:4])
		if size == 0 || size > largest { // zeros are what a file that was made longer has
			return whole, nil
		}
		record := make([]byte, size)
		if _, err := io.ReadFull(in, record); err != nil {
			return whole, torn(err)
		}
		if crc32.Checksum(record, castagnoli()) != binary.LittleEndian.Uint32(head[4:]) {
			return whole, nil
		}
		if err := show(record); err != nil {
			return whole, fmt.Errorf("reading the journal at %d: %w", whole, err)
		}
		whole += headBytes + int64(size)
	}
}

// torn is nil for an end, wherever it is.
func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("reading the journal: %w", err)
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func framed(record []byte) []byte {
	out := make([]byte, headBytes, headBytes+len(record))
	binary.LittleEndian.PutUint32(out, uint32(len(record)))
	binary.LittleEndian.PutUint32(out[4:], crc32.Checksum(record, castagnoli()))
	return append(out, record...)
}

// Begin puts a record in the queue, with a blob if that is not nil, which the record is made of
// where it will be. Records are written in the order of the calls. The returned function waits
// until the record is on the disk; a record that nobody waits for is written too.
func (j *Journal) Begin(
	blob []byte, record func(at int64) ([]byte, error),
) (wait func(context.Context) error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, os.ErrClosed
	}
	w := &write{blob: blob, at: j.end, result: make(chan error, 1)}
	if w.record, err = record(w.at); err != nil {
		return nil, err
	}
	j.end += int64(len(blob))
	j.queue <- w
	return func(ctx context.Context) error {
		select {
		case err := <-w.result:
			w.result <- err
			return err
		case <-ctx.Done():
			return fmt.Errorf("waiting for the journal: %w", ctx.Err())
		}
	}, nil
}

// write writes what is in the queue, all of it with one flush.
func (j *Journal) write() {
	defer close(j.done)
	for first := range j.queue {
		batch := []*write{first}
		for more := true; more; {
			select {
			case next, open := <-j.queue:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		if j.failed == nil {
			j.failed = j.writeAll(batch)
		}
		for _, w := range batch {
			w.result <- j.failed
		}
	}
}

// writeAll writes blobs before the records that point to them.
func (j *Journal) writeAll(batch []*write) error {
	var out []byte
	blobs := false
	for _, w := range batch {
		if w.blob != nil {
			blobs = true
			if _, err := j.blobs.WriteAt(w.blob, w.at); err != nil {
				return fmt.Errorf("writing the journal: %w", err)
			}
		}
		if len(w.record) > 0 {
			out = append(out, framed(w.record)...)
		}
	}
	if blobs {
		if err := j.blobs.Sync(); err != nil {
			return fmt.Errorf("flushing the journal: %w", err)
		}
	}
	if len(out) > 0 {
		_, err := j.log.Write(out)
		if err == nil {
			err = j.log.Sync()
		}
		if err != nil {
			return fmt.Errorf("writing the journal: %w", err)
		}
	}
	return nil
}

// Blob reads a blob of a folder's journal.
func Blob(folder string, at, size int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(folder, blobFile))
	if err != nil {
		return nil, fmt.Errorf("reading a blob: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	out := make([]byte, size)
	if _, err := f.ReadAt(out, at); err != nil {
		return nil, fmt.Errorf("reading a blob: %w", err)
	}
	return out, nil
}

// Close writes what is in the queue and gives the journal back.
func (j *Journal) Close() error {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.queue)
	}
	j.mu.Unlock()
	<-j.done
	j.closeFiles()
	return j.failed
}

func (j *Journal) closeFiles() {
	for _, f := range []*os.File{j.log, j.blobs} {
		if f != nil {
			_ = f.Close() // what matters is flushed
		}
	}
}
