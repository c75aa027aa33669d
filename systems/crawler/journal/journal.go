// Package journal keeps what a process must not forget: an append-only log of checked records. What
// was acknowledged is there after a crash, and nothing of a record that was not written whole.
//
// What one flush brings to the disk is one frame of a log (see durable.Frame), and has a frame for
// each record: a crash leaves all of it or nothing. The log is never shortened.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"stampede/harness/durable"
)

// ErrLocked says that another process has the journal open.
var ErrLocked = errors.New("another process has the journal")

// logFile is the log's name. It is locked by who has it open.
const logFile = "journal.log"

// Journal is an open journal. One process has it at a time.
type Journal struct {
	log *os.File

	mu     sync.Mutex // of closed, and the order of the queue
	closed bool
	queue  chan *write
	done   chan struct{}
	failed error // of the writer; a journal that has failed accepts nothing
}

// write is a record on its way.
type write struct {
	record []byte
	result chan error
}

// Open opens the journal of a folder and shows its records, oldest first. What a crash has left of
// the last flush is cut off; the error of a journal that is damaged before is durable.ErrDamaged.
func Open(folder string, show func([]byte) error) (opened *Journal, err error) {
	j := &Journal{queue: make(chan *write, 4096), done: make(chan struct{})}
	j.log, err = os.OpenFile(filepath.Join(folder, logFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	defer func() {
		if err != nil {
			_ = j.log.Close() // nothing was written
		}
	}()
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
		err = j.log.Sync() // a process that was killed may not have flushed what was shown
	}
	if err == nil {
		err = durable.Sync(folder) // its name too
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	go j.write()
	return j, nil
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

// records shows the whole records at the beginning of a file, and says where they end.
func records(f *os.File, show func([]byte) error) (whole int64, err error) {
	whole, err = durable.Frames(bufio.NewReaderSize(f, 1<<20), func(batch []byte) error {
		_, err := durable.Frames(bytes.NewReader(batch), show)
		return err
	})
	if err != nil {
		return whole, fmt.Errorf("reading the journal at %d: %w", whole, err)
	}
	return whole, nil
}

// Begin puts a record in the queue; an empty one is not written. Records are written in the order
// of the calls. The returned function waits until the record is on the disk, and all before it; a
// record that nobody waits for is written too.
func (j *Journal) Begin(record []byte) (wait func(context.Context) error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, os.ErrClosed
	}
	w := &write{record, make(chan error, 1)}
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

// batchBytes are enough for one flush: a frame has less than 4 GiB.
const batchBytes = 64 << 20

// write writes what is in the queue, all of it with one flush, but for what is more than enough.
func (j *Journal) write() {
	defer close(j.done)
	for first := range j.queue {
		batch := []*write{first}
		for more, size := true, len(first.record); more && size < batchBytes; {
			select {
			case next, open := <-j.queue:
				if more = open; open {
					batch, size = append(batch, next), size+len(next.record)
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

func (j *Journal) writeAll(batch []*write) error {
	var out []byte
	for _, w := range batch {
		if len(w.record) > 0 {
			out = append(out, durable.Frame(w.record)...)
		}
	}
	if len(out) == 0 {
		return nil
	}
	_, err := j.log.Write(durable.Frame(out))
	if err == nil {
		err = j.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
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
	return errors.Join(j.failed, j.log.Close())
}
