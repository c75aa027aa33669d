package containers

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
)

// What is flushed, as for local processes: Postgres pages.
const (
	flushBytes = 8192
	flushTimes = 200
)

// flushScript writes the same blocks twice, each write flushed, and reports
// on the second time, when the blocks are allocated.
const flushScript = `set -e; f=$1/flush.tmp; for round in 1 2; do
dd if=/dev/zero of="$f" bs=` + "%d count=%d" + ` oflag=dsync conv=notrunc 2>&1; done; rm -f "$f"`

// measureFlush is the mean time of one flushed write on the store's volume,
// measured with dd in its container: other than for a local process there is
// no program of ours inside that could tell the median. It is zero where the
// image's dd cannot flush.
func (s *store) measureFlush() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandBound)
	defer cancel()
	script := fmt.Sprintf(flushScript, flushBytes, flushTimes)
	out, err := s.exec(ctx, "sh", "-c", script, "flush", s.data)
	if err != nil {
		return 0, err
	}
	total, ok := parseDD(out)
	if !ok {
		return 0, nil
	}
	return total / flushTimes, nil
}

// ddSeconds is how dd reports: "… copied, 0.0213 s, 76.9 MB/s".
var ddSeconds = regexp.MustCompile(`copied, ([0-9.e+-]+) s`)

// parseDD returns the time of the last report in dd's output.
func parseDD(out []byte) (time.Duration, bool) {
	found := ddSeconds.FindAllSubmatch(out, -1)
	if len(found) < 2 {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(string(found[len(found)-1][1]), 64)
	if err != nil || seconds <= 0 {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// exec runs a command in the container and returns what it printed.
func (s *store) exec(ctx context.Context, cmd ...string) ([]byte, error) {
	out, err := s.stream(ctx, cmd...)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	text, err := io.ReadAll(out)
	if err != nil {
		return nil, fmt.Errorf("read from the container of %s: %w", s.service, err)
	}
	return text, nil
}
