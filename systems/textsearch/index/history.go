package index

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// keptPrefix begins the names of logs that are kept for Log, and that are never replayed.
const keptPrefix = "kept-"

// forget removes a file that nobody needs any more.
func (x *Index) forget(name string) error {
	if x.opt.KeepLog && strings.HasPrefix(name, logPrefix) {
		return x.files.rename(name, keptPrefix+name)
	}
	return x.files.remove(name)
}

// Log calls a function with every change that there ever was, in order, if all logs were kept. It
// must not be called while changes are made.
func (x *Index) Log(f func(doc, version, seq uint64, deleted bool)) error {
	names, err := x.files.list()
	if err != nil {
		return fmt.Errorf("listing logs: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(strings.TrimPrefix(name, keptPrefix), logPrefix)
	})
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.TrimPrefix(a, keptPrefix), strings.TrimPrefix(b, keptPrefix))
	})
	for _, name := range names {
		b, release, err := x.files.read(name)
		if errors.Is(err, fs.ErrNotExist) { // a segment was made of it meanwhile
			b, release, err = x.files.read(keptPrefix + name)
		}
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
