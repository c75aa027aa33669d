package rundir

import (
	"io"
	"time"
)

// CreateWith is Create with a source of ids.
func CreateWith(root, scenario string, seed uint64, now time.Time, ids io.Reader) (*Dir, error) {
	return create(root, scenario, seed, now, ids)
}

// Escape is what makes a name one element of a path.
func Escape(name string) string { return escape(name) }

// DecodeSummary is what Run.Summary does with a file.
func DecodeSummary(data []byte) (s Summary, err error) {
	if err = decodeVersioned(SummaryFile, data, &s, ourMajor); err == nil {
		err = s.Validate()
	}
	return s, err
}
