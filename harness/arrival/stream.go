package arrival

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"time"
)

// streamName is the PCG's second word, so that arrival gaps share no numbers
// with other users of the same seed.
const streamName = 0x6172726976616c // "arrival"

// slack keeps the rounding of an integral, such as 10.000000001 for 10, from
// adding an operation at the very end.
const slack = 1e-9

// Stream hands out due times one by one. It is not safe for concurrent use.
type Stream struct {
	process Process
	random  *rand.Rand
	total   float64       // operations by the end of the process
	index   int           // of the next operation
	reached float64       // Poisson: the integral at the last operation
	left    float64       // Poisson burst: the share still to come
	last    time.Duration // the last due time
}

// Start returns a stream of the due times of a seed, from the first. Equal
// seeds give equal times. The memory is constant, whatever the number.
func (p Process) Start(seed uint64) *Stream {
	return &Stream{
		process: p,
		random:  rand.New(rand.NewPCG(seed, streamName)),
		total:   p.Mean() - float64(p.first),
		left:    1,
	}
}

// Next returns the next due time as an offset from the start of the process,
// never less than the last one; ok is false after the end.
func (s *Stream) Next() (due time.Duration, ok bool) {
	if fixed, is := s.process.shape.(*trace); is {
		if s.index >= s.process.exact {
			return 0, false
		}
		s.index++
		return fixed.at(s.index - 1), true
	}
	if s.index < s.process.first {
		s.index++
		return 0, true
	}
	reach, ok := s.reach()
	if !ok {
		return 0, false
	}
	s.index++
	at := time.Duration(math.Round(s.process.shape.inverse(reach) * float64(time.Second)))
	s.last = max(s.last, min(at, s.process.Over()-1))
	return s.last, true
}

// reach is the value of the integral at which the next operation is due.
func (s *Stream) reach() (float64, bool) {
	switch {
	case s.process.exact > 0 && s.index >= s.process.exact:
		return 0, false
	case s.process.exact > 0 && s.process.poisson:
		return s.ordered(), true
	case s.process.poisson:
		s.reached -= math.Log(1 - s.random.Float64())
		return s.reached, s.reached < s.total
	}
	reach := float64(s.index - s.process.first)
	return reach, reach < s.total*(1-slack)
}

// ordered draws the next of a known number of uniform values in ascending
// order: the smallest of k uniform values leaves a share V^(1/k) above it.
func (s *Stream) ordered() float64 {
	more := float64(s.process.exact - s.index)
	s.left *= math.Pow(1-s.random.Float64(), 1/more)
	return s.total * (1 - s.left)
}

// Digest is the hex SHA-256 of the due times of a seed, each as a
// little-endian int64 of nanoseconds: equal digests prove equal load.
func (p Process) Digest(seed uint64) string {
	hash := sha256.New()
	var word [8]byte
	for due := range p.Times(seed) {
		binary.LittleEndian.PutUint64(word[:], uint64(due))
		hash.Write(word[:])
	}
	return hex.EncodeToString(hash.Sum(nil))
}
