package durable

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// ErrDamaged is of a log that no crash has left so: a whole frame follows a damaged one.
var ErrDamaged = errors.New("a log is damaged before its end")

const headBytes = 8

// Frame is the frame of a record in a log: the record's length and its CRC-32C (Castagnoli), four
// bytes each in little endian, and the record, which is not empty and has less than 4 GiB. A log
// is a list of frames, each written and flushed before the next one is begun.
func Frame(record []byte) []byte {
	b := make([]byte, 0, headBytes+len(record))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	return append(binary.LittleEndian.AppendUint32(b, checksum(record)), record...)
}

// Frames shows the records of a log, oldest first, and returns where the last whole frame ends.
// The frame after that was never flushed, as a crash leaves one, and is no error; but ErrDamaged is
// returned if it has the length that it states and a whole frame follows. A damaged length cannot
// be told from an end.
func Frames(in io.Reader, show func(record []byte) error) (end int64, err error) {
	for {
		record, err := next(in)
		if err == nil && record == nil {
			if record, err = next(in); record != nil {
				return end, ErrDamaged
			}
		}
		if record == nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return end, err
		}
		if err := show(record); err != nil {
			return end, err
		}
		end += headBytes + int64(len(record))
	}
}

// next reads the next record of a log, nil if it is damaged. io.EOF and io.ErrUnexpectedEOF are of
// an end, which is also where there are zeros: a file that was made longer has them.
func next(in io.Reader) ([]byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint32(head[:]))
	if size == 0 {
		return nil, io.EOF
	}
	record, err := io.ReadAll(io.LimitReader(in, size)) // the length may be wrong, and huge
	switch {
	case err != nil:
		return nil, err
	case int64(len(record)) < size:
		return nil, io.ErrUnexpectedEOF
	case checksum(record) != binary.LittleEndian.Uint32(head[4:]):
		return nil, nil
	}
	return record, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
