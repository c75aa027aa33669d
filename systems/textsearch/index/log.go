package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrCorrupt is of files that were not left so by a crash.
var ErrCorrupt = errors.New("the index is corrupt")

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// checksum is CRC-32C, for which processors have an instruction.
func checksum(b []byte) uint32 { return sumOn(0, b) }

// sumOn is the checksum of what a checksum is of, and more bytes.
func sumOn(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// A log is a list of frames: the length of the payload and its checksum, four bytes each, and the
// payload, which is changes as JSON. A frame is written and flushed before the next one is begun,
// so a frame that is not whole is the last one, and none of its changes was acknowledged.
const frameHead = 8

// frameOf is the frame of a value as JSON.
func frameOf(v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	return append(binary.LittleEndian.AppendUint32(b, checksum(payload)), payload...), err
}

// frame takes the first frame off a log; nil if it is not whole.
func frame(b []byte) (payload, rest []byte) {
	if len(b) < frameHead {
		return nil, nil
	}
	n, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	b = b[frameHead:]
	if n == 0 || uint64(n) > uint64(len(b)) {
		return nil, nil
	}
	if checksum(b[:n]) != sum {
		return nil, b[n:]
	}
	return b[:n], b[n:]
}

// readLog calls a function with each change of a log. A frame that is not whole ends it, but is an
// error if a whole one follows.
func readLog(b []byte, each func(change) error) error {
	for len(b) > 0 {
		payload, rest := frame(b)
		if payload == nil {
			if next, _ := frame(rest); next != nil {
				return corrupt("a log is damaged before its end")
			}
			return nil
		}
		var list []change
		if err := json.Unmarshal(payload, &list); err != nil {
			return fmt.Errorf("%w: a frame of a log: %w", ErrCorrupt, err)
		}
		for _, c := range list {
			c.gone = c.Text == nil
			if err := each(c); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}

// manifest says what an index consists of. It is replaced as a whole.
type manifest struct {
	Next     uint64   // the number of the next segment
	Flushed  uint64   // changes up to this one are in segments; logs have the later ones
	Segments []uint64 // numbers
}

const (
	manifestName = "manifest"
	manifestTemp = "manifest.new"
)

func decodeManifest(b []byte) (m manifest, err error) {
	payload, rest := frame(b)
	if payload == nil || len(rest) > 0 {
		return m, corrupt("the manifest is not whole")
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return m, fmt.Errorf("%w: reading the manifest: %w", ErrCorrupt, err)
	}
	return m, nil
}

// write replaces the manifest: a new file, flushed, renamed, and the folder flushed.
func (m *manifest) write(to files) error {
	b, err := frameOf(m)
	if err == nil {
		err = writeFile(to, manifestTemp, func(f File) error { _, err := f.Write(b); return err })
	}
	if err == nil {
		err = to.rename(manifestTemp, manifestName)
	}
	if err == nil {
		err = to.flushFolder()
	}
	if err != nil {
		return fmt.Errorf("replacing the manifest: %w", err)
	}
	return nil
}

// writeFile writes a file and flushes it.
func writeFile(to files, name string, write func(File) error) error {
	f, err := to.create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
