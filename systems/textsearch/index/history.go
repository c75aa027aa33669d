package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Log calls a function with every change that there ever was, in order. It must not be called while
// changes are made.
func (x *Index) Log(f func(doc, version, seq uint64, deleted bool)) error {
	names, err := x.files.list()
	if err != nil {
		return fmt.Errorf("listing logs: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, logPrefix) {
			continue
		}
		b, release, err := x.files.read(name)
		if err == nil {
			err = readLog(b, func(c change) error {
				f(c.Doc, c.Version, c.Seq, c.gone)
				return nil
			})
			err = errors.Join(err, release())
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}
