// Package journal keeps what a process must not forget: an append-only log of checked records, and
// next to it a file of blobs that records point into. What was acknowledged is there after a crash,
// and nothing of a record that was not written whole.
//
// A record is its length and its CRC-32C (Castagnoli), four bytes each in little endian, and its
// bytes. A generation is a base, which has what things are in the beginning, and a log of what
// became of them; the next one replaces both, so that the log does not grow for ever.
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

// The files of a folder, beside the generations.
const (
	lockFile = "journal.lock"
	blobFile = "journal.blobs"
)

// Journal is an open journal. One process has it at a time.
type Journal struct {
	folder     string
	lock       *os.File
	blobs      *os.File
	log        *os.File
	generation int

	mu     sync.Mutex // of end, closed, and the order of the queue
	end    int64      // of the blobs
	closed bool
	queue  chan *write
	done   chan struct{}
	failed error // of the writer; a journal that has failed accepts nothing
}

// write is a record on its way, with a blob; or a new generation, if base is not nil.
type write struct {
	record, blob []byte
	at           int64
	base         func(put func([]byte) error) error
	result       chan error
}

// Open opens the journal of a folder and shows its records, oldest first. What follows the last
// whole record is cut off.
func Open(folder string, show func([]byte) error) (opened *Journal, err error) {
	j := &Journal{folder: folder, queue: make(chan *write, 4096), done: make(chan struct{})}
	defer func() {
		if err != nil {
			j.closeFiles()
		}
	}()
	if j.lock, err = j.open(lockFile); err != nil {
		return nil, err
	}
	if err := durable.Flock(j.lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	var whole int64
	if j.generation, whole, err = read(folder, show); err != nil {
		return nil, err
	}
	if j.log, err = j.open(logName(j.generation)); err != nil {
		return nil, err
	}
	if err = j.log.Truncate(whole); err == nil {
		_, err = j.log.Seek(whole, io.SeekStart)
	}
	if err == nil {
		j.blobs, err = j.open(blobFile)
	}
	if err == nil {
		j.end, err = j.blobs.Seek(0, io.SeekEnd)
	}
	if err == nil {
		err = durable.Sync(j.folder) // names too
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	go j.write()
	return j, nil
}

func (j *Journal) open(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(j.folder, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return f, nil
}

func logName(generation int) string  { return fmt.Sprintf("journal.%d.log", generation) }
func baseName(generation int) string { return fmt.Sprintf("journal.%d.base", generation) }

// Read shows the records of a journal that another process may have open.
func Read(folder string, show func([]byte) error) error {
	_, _, err := read(folder, show)
	return err
}

// ErrBroken says that a base is missing or not whole. It had been flushed before it got its name.
var ErrBroken = errors.New("the journal's base is not whole")

// read shows the newest generation, and says how much of its log is whole.
func read(folder string, show func([]byte) error) (generation int, whole int64, err error) {
	generation, base, log, err := openNewest(folder)
	defer func() {
		for _, f := range []*os.File{base, log} {
			if f != nil {
				_ = f.Close() // it was only read
			}
		}
	}()
	if err != nil {
		return 0, 0, err
	}
	switch {
	case base != nil:
		if whole, err = records(base, show); err != nil {
			return 0, 0, err
		}
		if info, err := base.Stat(); err != nil || info.Size() != whole {
			return 0, 0, errors.Join(ErrBroken, err)
		}
	case generation > 0:
		return 0, 0, ErrBroken
	}
	whole, err = records(log, show)
	return generation, whole, err
}

// openNewest opens the files of the newest generation, nil for one that there is not. A generation
// loses its files only after the next one has a base: if that is still not there, none was lost.
func openNewest(folder string) (generation int, base, log *os.File, err error) {
	for {
		if generation, err = newest(folder); err != nil {
			return 0, nil, nil, err
		}
		if base, err = existing(filepath.Join(folder, baseName(generation))); err == nil {
			log, err = existing(filepath.Join(folder, logName(generation)))
		}
		if now, wrong := newest(folder); wrong != nil || err != nil || now == generation {
			return generation, base, log, errors.Join(err, wrong)
		}
		_, _ = base.Close(), log.Close() // they were not read; nil is an error, too
	}
}

func newest(folder string) (generation int, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "journal.*.base"))
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name), "journal.%d.base", &n); err == nil {
			generation = max(generation, n)
		}
	}
	return generation, nil
}

// existing opens a file, nil if there is none.
func existing(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return f, nil
}

const (
	headBytes = 8
	// largest bounds a record: what says that it is larger is no record.
	largest = 1 << 28
)

// records shows the whole records at the beginning of a file, none of nil, and says where they end.
func records(f *os.File, show func([]byte) error) (whole int64, err error) {
	if f == nil {
		return 0, nil
	}
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

// Renew begins a generation with the records that base puts, in place of all before. The caller
// sees to it that none is begun meanwhile.
func (j *Journal) Renew(base func(put func([]byte) error) error) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return os.ErrClosed
	}
	w := &write{base: base, result: make(chan error, 1)}
	j.queue <- w
	j.mu.Unlock()
	return <-w.result
}

// write writes what is in the queue, all of it with one flush.
func (j *Journal) write() {
	defer close(j.done)
	for first := range j.queue {
		batch := []*write{first}
		for more := true; more && batch[len(batch)-1].base == nil; {
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
	var last *write
	blobs := false
	for _, w := range batch {
		if w.base != nil {
			last = w
			continue
		}
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
	if last == nil {
		return nil
	}
	return j.renew(last.base)
}

// renew writes a base under another name first: it is there whole, or not at all.
func (j *Journal) renew(base func(put func([]byte) error) error) error {
	next := j.generation + 1
	path := filepath.Join(j.folder, baseName(next))
	f, err := os.Create(path + ".new")
	if err != nil {
		return fmt.Errorf("writing a base: %w", err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	err = base(func(record []byte) error {
		_, err := out.Write(framed(record))
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	var log *os.File
	if err == nil {
		log, err = j.open(logName(next))
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = durable.Sync(j.folder)
	}
	if err != nil {
		return fmt.Errorf("writing a base: %w", err)
	}
	old := j.generation
	_ = j.log.Close() // all of it is flushed
	j.log, j.generation = log, next
	// Who reads the old ones at the time has them open.
	return errors.Join(os.Remove(filepath.Join(j.folder, logName(old))),
		ignoreMissing(os.Remove(filepath.Join(j.folder, baseName(old)))))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
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
	for _, f := range []*os.File{j.log, j.blobs, j.lock} {
		if f != nil {
			_ = f.Close() // what matters is flushed
		}
	}
}
