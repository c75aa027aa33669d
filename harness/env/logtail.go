package env

import (
	"errors"
	"io"
	"os"
	"strings"
)

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 64 << 10

// LogTail returns the last lines of a log file, or why there are none.
func LogTail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	data := make([]byte, min(size, tailBytes))
	n := 0
	if err == nil {
		n, err = file.ReadAt(data, size-int64(len(data)))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "(no log: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data[:n]), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
