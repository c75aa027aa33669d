package index

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"stampede/systems/textsearch/analysis"
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
// payload: the sequence number of the first change, how many there are, and the changes. A frame is
// written and flushed before the next one is begun, so a frame that is not whole is the last one,
// and none of its changes was acknowledged.
const frameHead = 8

// appendFrame appends the frame of changes whose sequence numbers follow each other.
func appendFrame(b []byte, list []*change) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHead)...)
	b = binary.AppendUvarint(b, list[0].seq)
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, c := range list {
		b = binary.AppendUvarint(b, c.doc)
		b = binary.AppendUvarint(b, c.version)
		if c.gone {
			b = append(b, 1)
			continue
		}
		b = append(b, 0)
		for f := range analysis.Fields {
			text := c.text.Of(f)
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	payload := b[start+frameHead:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], checksum(payload))
	return b
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
func readLog(b []byte, each func(*change) error) error {
	for len(b) > 0 {
		payload, rest := frame(b)
		if payload == nil {
			if next, _ := frame(rest); next != nil {
				return corrupt("a log is damaged before its end")
			}
			return nil
		}
		list, err := changes(payload)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := each(c); err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}

// changes reads a payload.
func changes(b []byte) (list []*change, err error) {
	r := reader{b: b}
	seq, n := r.number(), r.number()
	for i := uint64(0); i < n && !r.bad; i++ {
		c := &change{doc: r.number(), entry: entry{version: r.number(), seq: seq + i}}
		if c.gone = r.number() != 0; !c.gone {
			c.text = &analysis.Text{
				Title: r.text(), Tags: r.text(), Description: r.text(), Body: r.text()}
		}
		list = append(list, c)
	}
	if r.bad || len(r.b) > 0 {
		return nil, corrupt("a frame of a log is malformed")
	}
	return list, nil
}

// reader reads numbers and texts, and remembers whether there were too few bytes.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, n = true, len(r.b)
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, n = true, uint64(len(r.b))
	}
	text := string(r.b[:n])
	r.b = r.b[n:]
	return text
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

func (m *manifest) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	return binary.LittleEndian.AppendUint32(b, checksum(b)), err
}

func decodeManifest(b []byte) (m manifest, err error) {
	if len(b) < 4 {
		return m, corrupt("the manifest is too short")
	}
	text := b[:len(b)-4]
	if checksum(text) != binary.LittleEndian.Uint32(b[len(text):]) {
		return m, corrupt("the manifest's checksum is wrong")
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: reading the manifest: %w", ErrCorrupt, err)
	}
	return m, nil
}

// write replaces the manifest: a new file, flushed, renamed, and the folder flushed.
func (m *manifest) write(to files) error {
	b, err := m.encode()
	if err == nil {
		err = writeFile(to, manifestTemp, func(f file) error { _, err := f.Write(b); return err })
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
func writeFile(to files, name string, write func(file) error) error {
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
