package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"stampede/harness/durable"
)

// ErrCorrupt is of files that were not left so by a crash.
var ErrCorrupt = errors.New("the index is corrupt")

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// sumOn is the CRC-32C of what a sum is of and more bytes. Processors have an instruction for it.
func sumOn(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// framed is a value as JSON in a frame of durable's. A log has a frame for the changes of one
// flush.
func framed(v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	return durable.Frame(payload), err
}

// decodeLog calls a function with each change of a log.
func decodeLog(b []byte, each func(change) error) error {
	_, err := durable.Frames(bytes.NewReader(b), func(payload []byte) error {
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
		return nil
	})
	if errors.Is(err, durable.ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
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
	end, err := durable.Frames(bytes.NewReader(b), func(payload []byte) error {
		return json.Unmarshal(payload, &m)
	})
	switch {
	case err != nil:
		return m, fmt.Errorf("%w: reading the manifest: %w", ErrCorrupt, err)
	case end == 0 || end < int64(len(b)):
		return m, corrupt("the manifest is not whole")
	}
	return m, nil
}

// write replaces the manifest: a new file, flushed, renamed, and the folder flushed.
func (m *manifest) write(to files) error {
	b, err := framed(m)
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
