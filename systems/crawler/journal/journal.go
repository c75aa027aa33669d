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
	log  *os.File
	more chan struct{} // there is something to write
	done chan struct{} // nothing is written any more

	mu     sync.Mutex // of next and closed
	next   *flush
	closed bool
	failed error // of the writer; a journal that has failed writes nothing more
}

// flush is what one flush brings to the disk.
type flush struct {
	records []byte        // their frames
	over    chan struct{} // closed when they are on the disk, or err says why not
	err     error
}

func newFlush() *flush { return &flush{over: make(chan struct{})} }

// Wait waits until a record is on the disk, and all before it.
type Wait = func(context.Context) error

// Open opens the journal of a folder and shows its records, oldest first. What a crash has left of
// the last flush is cut off; the error of a journal that is damaged before is durable.ErrDamaged.
func Open(folder string, show func([]byte) error) (opened *Journal, err error) {
	j := &Journal{more: make(chan struct{}, 1), done: make(chan struct{}), next: newFlush()}
	j.log, err = os.OpenFile(filepath.Join(folder, logFile), os.O_CREATE|os.O_RDWR|os.O_APPEND,
		0o600)
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

// flushBytes are enough for one flush: a frame has less than 4 GiB.
const flushBytes = 64 << 20

// Begin puts a record in the queue; an empty one is not written. Records are written in the order
// of the calls, also those that nobody waits for.
func (j *Journal) Begin(record []byte) (Wait, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for f := j.next; len(f.records) >= flushBytes; f = j.next {
		j.mu.Unlock()
		<-f.over
		j.mu.Lock()
	}
	if j.closed {
		return nil, os.ErrClosed
	}
	f := j.next
	if len(record) > 0 {
		f.records = append(f.records, durable.Frame(record)...)
	}
	select {
	case j.more <- struct{}{}:
	default: // it is known already
	}
	return func(ctx context.Context) error {
		select {
		case <-f.over:
			return f.err
		case <-ctx.Done():
			return fmt.Errorf("waiting for the journal: %w", ctx.Err())
		}
	}, nil
}

// write writes what is in the queue, all of it with one flush.
func (j *Journal) write() {
	defer close(j.done)
	for range j.more {
		j.mu.Lock()
		f := j.next
		j.next = newFlush()
		j.mu.Unlock()
		if j.failed == nil && len(f.records) > 0 {
			_, j.failed = j.log.Write(durable.Frame(f.records))
			if j.failed == nil {
				j.failed = j.log.Sync()
			}
		}
		if f.err = j.failed; f.err != nil {
			f.err = fmt.Errorf("writing the journal: %w", j.failed)
		}
		close(f.over)
	}
}

// Close writes what is in the queue and gives the journal back.
func (j *Journal) Close() error {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.more)
	}
	j.mu.Unlock()
	<-j.done
	return errors.Join(j.failed, j.log.Close())
}
