package views

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"stampede/harness/history"
)

// Position is where an event lies in watch_events: a record may hold several.
type Position struct {
	Partition int32
	Offset    int64
	// Index is the event's place in its record, from 0.
	Index int
}

// maxEvents is how many events one record may hold.
const maxEvents = 1 << 12

// in is the position within its partition as one number, in their order.
func (p Position) in() int64 { return p.Offset*maxEvents + int64(p.Index) }

// positionIn is the position of which in is the number.
func positionIn(partition int32, n int64) Position {
	return Position{partition, n / maxEvents, int(n % maxEvents)}
}

// String formats the position as "partition/offset/index".
func (p Position) String() string {
	return fmt.Sprintf("%d/%d/%d", p.Partition, p.Offset, p.Index)
}

// ParsePosition reads what String writes.
func ParsePosition(text string) (Position, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Position{}, fmt.Errorf("expected a position such as 3/120/0, got %q", text)
	}
	var n [3]int64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseInt(part, 10, 64); err != nil || n[i] < 0 {
			return Position{}, fmt.Errorf("expected a position such as 3/120/0, got %q", text)
		}
	}
	if n[0] > 1<<20 || n[1] > 1<<50 || n[2] >= maxEvents {
		return Position{}, fmt.Errorf("the position %q is out of range", text)
	}
	return Position{int32(n[0]), n[1], int(n[2])}, nil
}

// The first byte of a record says what follows.
const (
	formatEvents = 1 // a number of events and the events
	formatView   = 2 // the number of a position and one event
)

var errShort = errors.New("it ends too early")

// maxField bounds a text in a record, in bytes.
const maxField = 256

// encodeEvents writes a record of watch_events.
func encodeEvents(events []Event) []byte {
	out := append(make([]byte, 0, 96*len(events)), formatEvents)
	out = binary.AppendUvarint(out, uint64(len(events)))
	for i := range events {
		out = appendEvent(out, &events[i])
	}
	return out
}

// appendView writes a record of valid_events: the event and where in
// watch_events it is from. The partition is the record's own.
func appendView(out []byte, at int64, e *Event) []byte {
	out = binary.AppendUvarint(append(out, formatView), uint64(at))
	return appendEvent(out, e)
}

func appendEvent(out []byte, e *Event) []byte {
	out = appendHeartbeat(out, &e.Heartbeat)
	return binary.AppendUvarint(out, uint64(e.Rules))
}

func appendHeartbeat(out []byte, h *Heartbeat) []byte {
	out = binary.AppendUvarint(out, h.ID)
	out = binary.AppendUvarint(out, uint64(h.TimeMS))
	out = binary.AppendUvarint(out, uint64(h.WatchedMS))
	for _, text := range [...]string{h.Video, h.User, h.Session, h.IP, h.Device} {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	return out
}

// decodeEvents reads a record of watch_events, each of its events into where room says. What
// cannot be read as a whole is an error.
func decodeEvents(record string, room func(index int) *Event) error {
	r := reading{whole: record}
	if r.byte() != formatEvents {
		return errors.New("the record of watch_events does not begin with its format")
	}
	n := r.uvarint()
	if n > maxEvents {
		return fmt.Errorf("the record of watch_events has %d events, at most %d fit", n, maxEvents)
	}
	for i := 0; i < int(n) && r.err == nil; i++ {
		r.event(room(i))
	}
	if err := r.end(); err != nil {
		return fmt.Errorf("reading a record of watch_events: %w", err)
	}
	return nil
}

// decodeView reads a record of valid_events.
func decodeView(record []byte, e *Event) (at int64, err error) {
	r := readingOf(record)
	if r.byte() != formatView {
		return 0, errors.New("the record of valid_events does not begin with its format")
	}
	at = r.number()
	r.event(e)
	if err := r.end(); err != nil {
		return 0, fmt.Errorf("reading a record of valid_events: %w", err)
	}
	return at, nil
}

// encodePlaces writes numbers of positions, in order, as differences.
func encodePlaces(list []int64) []byte {
	out, before := make([]byte, 0, 4+2*len(list)), int64(0)
	for _, n := range list {
		out = binary.AppendUvarint(out, uint64(n-before))
		before = n
	}
	return out
}

// decodePlaces reads what encodePlaces writes.
func decodePlaces(text []byte) ([]int64, error) {
	var list []int64
	r, before := readingOf(text), int64(0)
	for r.left() > 0 {
		n := r.number()
		if len(list) > 0 && n == 0 || n > 1<<62-before {
			r.fail(errors.New("positions that do not go up"))
		}
		before += n
		list = append(list, before)
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading positions: %w", r.err)
	}
	return list, nil
}

// reading consumes a record and keeps the first error. The texts that it
// returns are parts of the record.
type reading struct {
	whole string
	at    int
	err   error
}

func readingOf(record []byte) reading { return reading{whole: string(record)} }

// left is how many bytes are left.
func (r *reading) left() int { return len(r.whole) - r.at }

func (r *reading) fail(err error) {
	if r.err == nil {
		r.err, r.at = err, len(r.whole)
	}
}

func (r *reading) byte() byte {
	if r.left() == 0 {
		r.fail(errShort)
		return 0
	}
	r.at++
	return r.whole[r.at-1]
}

// uvarint is binary.Uvarint for a text.
func (r *reading) uvarint() (n uint64) {
	for shift := 0; r.at < len(r.whole) && shift < 64; shift += 7 {
		b := uint64(r.whole[r.at])
		r.at++
		if b < 0x80 && (shift < 63 || b <= 1) {
			return n | b<<shift
		}
		n |= b & 0x7f << shift
	}
	r.fail(errShort)
	return 0
}

// number is a uvarint that fits a non-negative int64.
func (r *reading) number() int64 {
	n := r.uvarint()
	if n > 1<<62 {
		r.fail(fmt.Errorf("the number %d is too large", n))
		return 0
	}
	return int64(n)
}

func (r *reading) text() string {
	n := r.uvarint()
	switch {
	case n > maxField:
		r.fail(fmt.Errorf("a text has %d bytes, at most %d are allowed", n, maxField))
		return ""
	case n > uint64(r.left()):
		r.fail(errShort)
		return ""
	}
	r.at += int(n)
	return r.whole[r.at-int(n) : r.at]
}

func (r *reading) event(e *Event) {
	r.heartbeat(&e.Heartbeat)
	e.Rules = r.number()
}

func (r *reading) heartbeat(h *Heartbeat) {
	h.ID = r.uvarint()
	h.TimeMS, h.WatchedMS = r.number(), r.number()
	for _, into := range [...]*string{&h.Video, &h.User, &h.Session, &h.IP, &h.Device} {
		*into = r.text()
	}
}

// end says what was wrong, bytes that are left over too.
func (r *reading) end() error {
	if r.err == nil && r.left() > 0 {
		r.fail(fmt.Errorf("%d bytes are left over", r.left()))
	}
	return r.err
}

// maxTimeMS is the end of the year 9999, in Unix milliseconds.
const maxTimeMS = 253_402_300_799_999

// heartbeatOf reads the heartbeat of an operation and the number of tries before it.
func heartbeatOf(op history.Op) (h Heartbeat, tries int, err error) {
	r := readingOf(op.Body)
	tries = int(r.byte())
	r.heartbeat(&h)
	if err := r.end(); err != nil {
		return h, 0, fmt.Errorf("the body of operation %d is no heartbeat: %w", op.ID, err)
	}
	return h, tries, nil
}
