package history

import (
	"fmt"
	"sync"
)

// Shard is one worker's end of a Writer. Its Append must not be called
// concurrently with itself.
type Shard struct {
	w *Writer
	// mu is shared with the writer's goroutine alone, which takes partial
	// chunks; it is all but always free.
	mu     sync.Mutex
	enc    encoder // enc.buf is nil while there is no chunk
	count  uint32
	closed bool
}

// Append records r, which it does not keep. It never blocks on the disk and
// does not allocate once the writer's buffers have been made.
//
// It panics if r contradicts itself (see Record.Validate) or the writer was
// closed: both are defects of the program, and a history that contains them
// would prove nothing.
func (s *Shard) Append(r *Record) {
	if err := r.Validate(); err != nil {
		panic(fmt.Sprintf("history: record %d: %v", r.Seq, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		panic(fmt.Sprintf("history: record %d: Append after Close", r.Seq))
	}
	size := encodedBound(r)
	if size > maxPayload-chunkHead {
		s.w.lost.Add(1)
		s.w.fail(fmt.Errorf("record %d takes %d bytes, more than %d", r.Seq, size, maxPayload))
		return
	}
	s.reserve(size)
	s.enc.record(r)
	s.count++
}

// reserve makes room for size bytes, handing the chunk over if it is full.
// There is a buffer if and only if it holds a record.
func (s *Shard) reserve(size int) {
	if s.count > 0 && len(s.enc.buf)+size <= cap(s.enc.buf) {
		return
	}
	if s.count > 0 && !s.handOver() {
		s.lose()
	}
	s.enc.reset(s.w.buffer(size))
}

// handOver queues the chunk; it reports false and keeps it if the backlog is
// full.
func (s *Shard) handOver() bool {
	if !s.w.hand(chunk{buf: s.enc.buf, count: s.count}) {
		return false
	}
	s.enc.reset(nil)
	s.count = 0
	return true
}

// lose drops the chunk's records and counts them.
func (s *Shard) lose() {
	s.w.fail(ErrBehind)
	s.w.lost.Add(uint64(s.count))
	s.w.recycle(s.enc.buf)
	s.enc.reset(nil)
	s.count = 0
}

// flush hands a partial chunk over if there is one and the backlog has room:
// otherwise the chunk can wait for the next flush.
func (s *Shard) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 {
		s.handOver()
	}
}

// close hands the last chunk over and ends the shard.
func (s *Shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 && !s.handOver() {
		s.lose()
	}
	s.closed = true
	s.enc.reset(nil)
}
