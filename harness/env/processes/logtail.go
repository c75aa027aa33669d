package processes

import (
	"errors"
	"io"
	"os"
	"strings"
)

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 64 << 10

// tailOf returns the last lines of a file.
func tailOf(path string, lines int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	data := make([]byte, min(size, tailBytes))
	n, err := file.ReadAt(data, size-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	all := strings.Split(strings.TrimRight(string(data[:n]), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}

// readFrom returns what a file has from an offset on, but no more than the
// last part of it.
func readFrom(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(offset, size-tailBytes), tailBytes))
}
