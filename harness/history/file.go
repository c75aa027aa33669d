package history

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// File is a stored history. It may be read by many goroutines at once.
type File struct {
	name   string
	src    io.ReaderAt
	closer io.Closer
	header Header
	// body is where the frames after the header start, end where the last
	// whole frame ends and size where the file does.
	body, end, size int64
	windows         []Window
	windowFrames    int
	samples         []Sample
	mark            *endMark // nil if the history is not complete
}

var _ History = (*File)(nil)

// Open opens a stored history. A tail that was torn by the death of the
// writer's process is left out and told by Truncated; any other damage is an
// error that names the file and the offset, here or from All.
//
// Open reads the heads of all frames, the windows and the samples, not the
// records.
func Open(path string) (*File, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: open: %w", err)
	}
	info, err := src.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("history: open: %w", err), src.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("history: %s is not a regular file", path), src.Close())
	}
	f, err := newFile(path, src, info.Size())
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	f.closer = src
	return f, nil
}

func newFile(name string, src io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name, src: src, size: size}
	if err := f.readPrelude(); err != nil {
		return nil, err
	}
	if err := f.scan(); err != nil {
		return nil, err
	}
	return f, nil
}

// Header says which run the history belongs to.
func (f *File) Header() Header { return f.header }

// Windows returns all windows by start time.
func (f *File) Windows() []Window { return slices.Clone(f.windows) }

// Faults returns the fault windows by start time.
func (f *File) Faults() []Window { return faults(f.windows) }

// Samples returns the samples in the order in which they were taken.
func (f *File) Samples() []Sample { return slices.Clone(f.samples) }

// Complete reports whether the history was closed: if so it has every record
// of its run, if not it has those up to the last second.
func (f *File) Complete() bool { return f.mark != nil }

// Truncated is the number of bytes of a torn tail that could not be read.
func (f *File) Truncated() int64 { return f.size - f.end }

// Close closes the file. Records read from it stay valid.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// All yields every record once: see History. It streams with flat memory; a
// record's strings and bodies are copies that may be kept.
func (f *File) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r := reader{
			file: f,
			src:  bufio.NewReaderSize(io.NewSectionReader(f.src, f.body, f.end-f.body), 256<<10),
			at:   f.body,
			dec:  decoder{intern: new(interner), words: make([]string, 0, maxWords)},
		}
		if err := r.records(yield); err != nil {
			yield(Record{}, err)
		}
	}
}

// damaged makes the error of a frame at an offset.
func (f *File) damaged(offset int64, err error) error {
	return fmt.Errorf("history: %s is damaged at offset %d: %w", f.name, offset, err)
}

// readPrelude reads magic, version and header.
func (f *File) readPrelude() error {
	prelude := make([]byte, preludeSize)
	n, err := f.src.ReadAt(prelude, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("history: read %s: %w", f.name, err)
	case n < preludeSize || string(prelude[:len(magic)]) != magic:
		return fmt.Errorf("history: %s is not a history: it does not start with %q", f.name, magic)
	}
	if v := binary.LittleEndian.Uint32(prelude[len(magic):]); v < oldest || v > version {
		return fmt.Errorf("history: %s has format version %d, but this program reads versions "+
			"%d to %d: use the stampede that wrote it", f.name, v, oldest, version)
	}
	return f.readHeader()
}

func (f *File) readHeader() error {
	h, payload, err := f.frame(int64(preludeSize))
	switch {
	case errors.Is(err, errTorn):
		return f.damaged(int64(preludeSize), errors.New("the header is cut off"))
	case err != nil:
		return err
	case h.kind != headerFrame:
		return f.damaged(int64(preludeSize), fmt.Errorf("expected a header, found kind %d", h.kind))
	}
	if err := json.Unmarshal(payload, &f.header); err != nil {
		return f.damaged(int64(preludeSize), fmt.Errorf("decode the header: %w", err))
	}
	f.body = int64(preludeSize) + frameHead + h.size
	return nil
}

// errTorn says that a frame is cut off by the end of the file.
var errTorn = errors.New("the frame is cut off")

// head reads the head of the frame at an offset. The frame lies within the
// file, so that nothing larger than the file is ever allocated for it.
func (f *File) head(offset int64) (head, error) {
	if f.size-offset < frameHead {
		return head{}, errTorn
	}
	buf := make([]byte, frameHead)
	if _, err := f.src.ReadAt(buf, offset); err != nil {
		return head{}, fmt.Errorf("history: read %s at offset %d: %w", f.name, offset, err)
	}
	h, err := parseHead(buf)
	if err != nil {
		return head{}, f.damaged(offset, err)
	}
	if h.size > f.size-offset-frameHead {
		return head{}, errTorn
	}
	return h, nil
}

// frame reads the frame at an offset whole.
func (f *File) frame(offset int64) (head, []byte, error) {
	h, err := f.head(offset)
	if err != nil {
		return head{}, nil, err
	}
	payload := make([]byte, h.size)
	if _, err := f.src.ReadAt(payload, offset+frameHead); err != nil && h.size > 0 {
		return head{}, nil, fmt.Errorf("history: read %s at offset %d: %w", f.name, offset, err)
	}
	if err := h.verify(payload); err != nil {
		return head{}, nil, f.damaged(offset, err)
	}
	return h, payload, nil
}

// scan walks the frames: it finds the end of what can be read, the windows,
// the samples and the end marker.
func (f *File) scan() error {
	offset := f.body
	for offset < f.size && f.mark == nil {
		h, err := f.head(offset)
		if errors.Is(err, errTorn) {
			break
		}
		if err != nil {
			return err
		}
		next := offset + frameHead + h.size
		if err := f.note(offset, h); err != nil {
			// The last frame may have all its bytes but not their content
			// if the machine died with the process.
			if next == f.size && errors.Is(err, errPayload) {
				break
			}
			return err
		}
		offset = next
	}
	f.end = offset
	if f.mark != nil && f.end < f.size {
		return f.damaged(f.end, errors.New("data after the end marker"))
	}
	slices.SortStableFunc(f.windows, byStart)
	return nil
}

// note takes from a frame what All does not: windows, samples and the end
// marker. The last chunk of the file is verified, because it may be torn.
func (f *File) note(offset int64, h head) error {
	switch h.kind {
	case chunkFrame:
		if offset+frameHead+h.size < f.size {
			return nil
		}
		_, _, err := f.frame(offset)
		return err
	case windowFrame:
		var win Window
		if err := f.decodeFrame(offset, &win); err != nil {
			return err
		}
		f.windows = addWindow(f.windows, win)
		f.windowFrames++
		return nil
	case sampleFrame:
		var s Sample
		if err := f.decodeFrame(offset, &s); err != nil {
			return err
		}
		f.samples = append(f.samples, s)
		return nil
	case endFrame:
		return f.noteEnd(offset)
	}
	return f.damaged(offset, fmt.Errorf("unexpected frame of kind %d", h.kind))
}

// noteEnd takes the end marker and holds the frames against it.
func (f *File) noteEnd(offset int64) error {
	var mark endMark
	if err := f.decodeFrame(offset, &mark); err != nil {
		return err
	}
	if mark.Windows != f.windowFrames || mark.Samples != len(f.samples) {
		return f.damaged(offset, fmt.Errorf("it has %d windows and %d samples, but the end marker "+
			"says %d and %d", f.windowFrames, len(f.samples), mark.Windows, mark.Samples))
	}
	f.mark = &mark
	return nil
}

// decodeFrame decodes the frame at an offset from JSON.
func (f *File) decodeFrame(offset int64, v any) error {
	_, payload, err := f.frame(offset)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return f.damaged(offset, fmt.Errorf("decode: %w", err))
	}
	return nil
}

// reader streams the records of a file.
type reader struct {
	file *File
	src  *bufio.Reader
	at   int64 // offset of the frame in hand
	head [frameHead]byte
	buf  []byte // payload of the frame in hand, reused
	dec  decoder
	seen uint64
}

// records yields the records of all chunks and returns the error that stopped
// it, nil also if yield did.
func (r *reader) records(yield func(Record, error) bool) error {
	for r.at < r.file.end {
		h, err := r.next()
		if err != nil {
			return err
		}
		if h.kind == chunkFrame {
			if more, err := r.chunk(yield); err != nil || !more {
				return err
			}
		}
		r.at += frameHead + h.size
	}
	if mark := r.file.mark; mark != nil && mark.Records != r.seen {
		return r.file.damaged(r.at, fmt.Errorf("it has %d records, but the end marker says %d",
			r.seen, mark.Records))
	}
	return nil
}

// next reads the next frame, whose size scan found to be within the file.
func (r *reader) next() (head, error) {
	if _, err := io.ReadFull(r.src, r.head[:]); err != nil {
		return head{}, fmt.Errorf("history: read %s at offset %d: %w", r.file.name, r.at, err)
	}
	h, err := parseHead(r.head[:])
	if err != nil {
		return head{}, r.file.damaged(r.at, err)
	}
	if h.size > r.file.end-r.at-frameHead {
		return head{}, r.file.damaged(r.at, errTorn)
	}
	r.buf = slices.Grow(r.buf[:0], int(h.size))[:h.size]
	if _, err := io.ReadFull(r.src, r.buf); err != nil {
		return head{}, fmt.Errorf("history: read %s at offset %d: %w", r.file.name, r.at, err)
	}
	if err := h.verify(r.buf); err != nil {
		return head{}, r.file.damaged(r.at, err)
	}
	return h, nil
}

// chunk yields the records of the chunk in hand and reports whether to go on.
func (r *reader) chunk(yield func(Record, error) bool) (more bool, err error) {
	if len(r.buf) < 4 {
		return false, r.file.damaged(r.at, errMalformed)
	}
	count := binary.LittleEndian.Uint32(r.buf)
	r.dec.reset(r.buf[4:])
	for range count {
		rec, err := r.dec.record()
		if err != nil {
			return false, r.file.damaged(r.at, err)
		}
		r.seen++
		if !yield(rec, nil) {
			return false, nil
		}
	}
	if len(r.dec.buf) > 0 {
		return false, r.file.damaged(r.at, errors.New("bytes after the last record of a chunk"))
	}
	return true, nil
}
