package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
)

// recover takes up what the folder has: the segments of the manifest, and what logs have beyond
// them. Files that no manifest lists are left of a crash, and are removed.
func (x *Index) recover(ctx context.Context) error {
	if err := x.readManifest(); err != nil {
		return err
	}
	for _, id := range slices.Clone(x.Segments) {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := x.openSegment(id)
		if err != nil && x.opt.Wrong.ListedBeforeFlush {
			x.missing = append(x.missing, id)
			continue
		}
		if err != nil {
			return fmt.Errorf("opening %s: %w", segmentName(id), err)
		}
		x.leaves = append(x.leaves, leafOf(s))
	}
	x.markOld()
	x.leaves = append(x.leaves, leaf{mem: x.active})
	if err := x.replay(); err != nil {
		return err
	}
	return x.freeze()
}

func (x *Index) readManifest() error {
	file, err := x.files.read(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		x.manifest, err = decodeManifest(file.bytes)
		runtime.KeepAlive(file)
	}
	return err
}

// markOld marks the entries of segments whose documents have a newer one in another segment.
func (x *Index) markOld() {
	newest := map[uint64]uint64{}
	for _, l := range x.leaves {
		for i := range uint32(l.seg.entries) {
			newest[l.seg.doc(i)] = max(newest[l.seg.doc(i)], l.seg.entry(i).Seq)
		}
	}
	for i := range x.leaves {
		l := &x.leaves[i]
		for at := range uint32(l.seg.entries) {
			if l.seg.entry(at).Seq < newest[l.seg.doc(at)] {
				l.mark(at)
			}
		}
	}
}

// replay adds the changes that are in logs only, and makes sure that they are durable, because
// whoever was killed may not have flushed the last ones.
func (x *Index) replay() error {
	names, err := x.files.list()
	if err != nil {
		return err
	}
	x.seq = x.Flushed
	for i, name := range names {
		if strings.HasPrefix(name, logPrefix) {
			// If the next log begins with a change up to Flushed + 1, segments have all of this one.
			if i+1 == len(names) || names[i+1] > logName(x.Flushed+1) {
				err = x.replayLog(name)
			}
		} else if name != manifestName && !slices.ContainsFunc(
			x.Segments, func(id uint64) bool { return name == segmentName(id) }) {
			err = x.files.remove(name)
		}
		if err != nil {
			return fmt.Errorf("taking up %s: %w", name, err)
		}
	}
	return x.files.flushFolder()
}

// replayLog adds the changes of one log that are not in segments. Sequence numbers have no gaps.
func (x *Index) replayLog(name string) error {
	size, err := x.readLog(name, func(c change) error {
		if c.Seq > x.seq+1 {
			return corrupt(fmt.Sprintf("change %d follows %d", c.Seq, x.seq))
		}
		if c.Seq > x.seq {
			x.seq = c.Seq
			x.add(requested(c))
		}
		return nil
	})
	x.active.bytes += size
	if err == nil {
		err = x.files.flush(name)
	}
	return err
}

// readLog calls a function with each change of a log, and returns how many bytes that has.
func (x *Index) readLog(name string, each func(change) error) (size int, err error) {
	log, err := x.files.read(name)
	if err != nil {
		return 0, err
	}
	defer runtime.KeepAlive(log)
	return len(log.bytes), decodeLog(log.bytes, each)
}

// Log calls a function with every change that there ever was, in order. It must not be called while
// changes are made.
func (x *Index) Log(f func(doc, version, seq uint64, deleted bool)) error {
	names, err := x.files.list()
	if err != nil {
		return fmt.Errorf("listing logs: %w", err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, logPrefix) {
			continue
		}
		if _, err := x.readLog(name, func(c change) error {
			f(c.Doc, c.Version, c.Seq, c.gone)
			return nil
		}); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}
