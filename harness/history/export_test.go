package history

import (
	"bytes"
	"io"
)

// Sizes that tests reach for.
const (
	ChunkSize    = chunkSize
	FlushEvery   = flushEvery
	BacklogLimit = backlogLimit
	MaxPayload   = maxPayload
	FrameHead    = frameHead
)

// Sink is what a Writer writes to.
type Sink = sink

// NewWriter starts a history on anything.
func NewWriter(name string, s Sink, hdr Header) (*Writer, error) { return newWriter(name, s, hdr) }

// ReadBytes opens a history in memory.
func ReadBytes(data []byte) (*File, error) {
	return newFile("memory", bytes.NewReader(data), int64(len(data)))
}

// Discard is a disk that takes everything at once.
type Discard struct{ io.Writer }

// Sync does nothing.
func (Discard) Sync() error { return nil }

// Close does nothing.
func (Discard) Close() error { return nil }

// Size is the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// WithChunk makes a history that was not closed, with one chunk before a
// window, so that the chunk is not the last frame.
func WithChunk(payload []byte) []byte {
	var out bytes.Buffer
	w, err := newWriter("memory", Discard{&out}, Header{})
	if err != nil {
		panic(err)
	}
	out.Write(seal(append(make([]byte, frameHead), payload...), chunkFrame))
	if err := w.Window(Window{Name: "last"}); err != nil {
		panic(err)
	}
	size := out.Len()
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()[:size]
}

// SortIn is Sort with so many records in memory.
func SortIn(src *File, path string, most int) error { return sortIn(src, path, most) }
