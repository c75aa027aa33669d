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
