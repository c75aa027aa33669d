package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// longestLine bounds a line, so that a wrong file is refused rather than read into
// memory for ever.
const longestLine = 16 << 20

// Tail reads the events of a run while they are being written.
type Tail struct {
	// File has the events; see FileName.
	File io.ReaderAt
	at   int64
}

// Next returns the events that were added since the last call, as far as their
// lines are whole. A line that is none is an error, which the next call passes
// over.
func (t *Tail) Next() (found []Event, err error) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := t.File.ReadAt(buffer, t.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return found, fmt.Errorf("read events: %w", err)
		}
		ended := err != nil
		whole := bytes.LastIndexByte(buffer[:n], '\n') + 1
		for line := range bytes.Lines(buffer[:whole]) {
			t.at += int64(len(line))
			e, err := Decode(line)
			if err != nil {
				return found, err
			}
			found = append(found, e)
		}
		switch {
		case ended:
			return found, nil
		case whole == 0 && len(buffer) >= longestLine:
			return found, fmt.Errorf("read events: a line is longer than %d MiB", longestLine>>20)
		case whole == 0:
			buffer = make([]byte, 2*len(buffer))
		}
	}
}
