package index

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// job is leaves that become one segment: a memory, or several segments.
type job struct {
	id   uint64
	from []leaf // as they were when it began
}

// finished is a job that is done, or has failed.
type finished struct {
	job
	to  leaf
	err error
}

func (j *job) merges() bool { return j.from[0].seg != nil }

// tidy begins what is to be done in the background, and tells those who wait if there is nothing.
func (x *Index) tidy() {
	if x.failure == nil && !x.flushing && len(x.active.rows) > 0 &&
		(x.full() || len(x.waiting) > 0) {
		x.failure = x.beginFlush()
	}
	if x.failure == nil && !x.merging {
		if from := x.due(); from != nil {
			x.merging = true
			x.begin(from)
		}
	}
	if x.failure != nil || !x.flushing && !x.merging {
		for _, w := range x.waiting {
			w <- x.failure
		}
		x.waiting = nil
	}
}

// beginFlush begins to make a segment of the active memory.
func (x *Index) beginFlush() error {
	frozen := x.leaves[len(x.leaves)-1]
	if err := x.freeze(); err != nil {
		return err
	}
	x.leaves = append(x.leaves, leaf{mem: x.active})
	x.publish()
	x.flushing = true
	if x.opt.Wrong.ListedBeforeFlush {
		x.Segments = append(x.Segments, x.Next)
		if err := x.listed(x.Next+1, x.seq, nil, PlaceListed); err != nil {
			return err
		}
		x.Next--
	}
	x.begin([]leaf{frozen})
	return nil
}

// begin begins a job.
func (x *Index) begin(from []leaf) {
	j := job{x.Next, slices.Clone(from)}
	x.Next++
	x.running.Go(func() {
		to, err := x.combine(&j)
		x.finished <- finished{j, to, err}
	})
}

// due are the segments that are to be merged: MergeAt or more that have between them and FlushAt
// the same power of MergeAt, or one of which more than half is old.
func (x *Index) due() []leaf {
	classes := map[int][]leaf{}
	for _, l := range x.leaves {
		if l.seg == nil {
			continue
		}
		if l.marked*2 > l.seg.entries {
			return []leaf{l}
		}
		class := 0
		for size := x.opt.FlushAt * x.opt.MergeAt; l.seg.entries >= size && class < 32; class++ {
			size *= x.opt.MergeAt
		}
		classes[class] = append(classes[class], l)
		if len(classes[class]) == x.opt.MergeAt {
			return classes[class]
		}
	}
	return nil
}

// source is a leaf that becomes a part of a segment.
type source struct {
	*leaf
	to []uint32 // the new numbers of entries; none for those that are left out
}

// combine writes the segment of a job: the entries that are not old, and their postings.
func (x *Index) combine(j *job) (to leaf, err error) {
	sources := make([]*source, len(j.from))
	for i := range j.from {
		l := &j.from[i]
		sources[i] = &source{l, make([]uint32, l.entries())}
	}
	rows := x.survivors(sources, j.merges())
	err = writeFile(x.files, segmentName(j.id), func(f File) error {
		out := bufio.NewWriterSize(f, 1<<18)
		b := build(out, rows)
		if j.merges() {
			if err := out.Flush(); err != nil {
				return err
			}
			x.opt.Passed(PlaceMerging)
		}
		if err := x.copyTerms(b, sources); err != nil {
			return err
		}
		return errors.Join(b.finish(), out.Flush())
	})
	if err == nil {
		err = x.files.flushFolder() // no manifest may have a name that the disk has not
	}
	if err == nil {
		x.opt.Passed(PlaceWritten)
		var s *segment
		if s, err = x.openSegment(j.id); err == nil {
			return leafOf(s), nil
		}
	}
	return to, fmt.Errorf("writing %s: %w", segmentName(j.id), err)
}

func (x *Index) openSegment(id uint64) (*segment, error) {
	file, err := x.files.read(segmentName(id))
	if err != nil {
		return nil, err
	}
	return openSegment(id, file)
}

// survivors are the entries of the new segment, and the sources are told their numbers.
func (x *Index) survivors(sources []*source, merges bool) []row {
	type from struct {
		row
		source *source
		at     uint32
	}
	var all []from
	for _, s := range sources {
		for at := range uint32(s.entries()) {
			s.to[at] = none
			if !s.isOld(at) || merges && x.opt.Wrong.MergeForgetsDeletes {
				all = append(all, from{s.row(at), s, at})
			}
		}
	}
	slices.SortFunc(all, func(a, b from) int {
		return cmp.Or(cmp.Compare(a.doc, b.doc), cmp.Compare(b.Seq, a.Seq))
	})
	rows := make([]row, 0, len(all))
	for _, f := range all {
		if len(rows) == 0 || rows[len(rows)-1].doc != f.doc {
			f.source.to[f.at] = uint32(len(rows))
			rows = append(rows, f.row)
		}
	}
	return rows
}

// copyTerms copies the postings of all terms.
func (x *Index) copyTerms(b *builder, sources []*source) error {
	all := map[string]bool{}
	for _, s := range sources {
		s.terms(nil, func(term string) { all[term] = true })
	}
	var list []posting
	for _, term := range slices.Sorted(maps.Keys(all)) {
		if err := x.stop.Err(); err != nil {
			return ErrClosed
		}
		list = list[:0]
		for _, s := range sources {
			list = s.postings(term, list)
		}
		if len(list) > 0 {
			slices.SortFunc(list, func(a, b posting) int { return cmp.Compare(a.at, b.at) })
			b.term(term, list)
		}
	}
	return nil
}

// postings adds those of a term, with the new numbers of their entries.
func (s *source) postings(term string, list []posting) []posting {
	c := s.cursor(term)
	if c == nil {
		return list
	}
	for at := c.seek(0); at != none; at = c.seek(at + 1) {
		if to := s.to[at]; to != none {
			list = append(list, posting{to, c.tfs[c.i], c.line()})
		}
	}
	return list
}

// list puts a new segment into the place of what it was made of.
func (x *Index) list(f finished) {
	if x.failure == nil {
		x.failure = f.err
	}
	if f.merges() {
		x.merging = false
	} else {
		x.flushing = false
	}
	if x.failure != nil {
		return
	}
	var replaced, others []leaf
	for _, l := range x.leaves {
		if slices.ContainsFunc(f.from, func(was leaf) bool {
			return was.seg == l.seg && was.mem == l.mem
		}) {
			replaced = append(replaced, l)
		} else {
			others = append(others, l)
		}
	}
	x.carry(&f, replaced)
	at := slices.IndexFunc(others, func(l leaf) bool { return l.seg == nil })
	x.leaves = slices.Insert(others, at, f.to)
	x.failure = x.replace(&f, replaced)
	x.publish()
}

// carry marks what became old while the segment was written.
func (x *Index) carry(f *finished, now []leaf) {
	if f.merges() && x.opt.Wrong.MergeForgetsDeletes {
		return
	}
	for i, l := range now { // in the order of from
		for place := range uint32(l.entries()) {
			if !l.isOld(place) || f.from[i].isOld(place) {
				continue
			}
			r := l.row(place)
			at, is := f.to.seg.find(r.doc)
			if x.opt.Wrong.MarkedByPlace {
				at, is = place, place < uint32(f.to.seg.entries)
			} else {
				is = is && f.to.seg.entry(at).Seq == r.Seq
			}
			if is {
				f.to.mark(at)
			}
		}
	}
}

// replace lists the segment in the manifest, and removes files that nobody needs any more. Those
// who have mapped them keep what is in them.
func (x *Index) replace(f *finished, replaced []leaf) error {
	var names []string
	flushed, place := x.Flushed, PlaceListed
	if f.merges() {
		place = PlaceMerged
		for _, l := range replaced {
			names = append(names, segmentName(l.seg.id))
			x.Segments = slices.DeleteFunc(x.Segments, func(id uint64) bool { return id == l.seg.id })
		}
	} else {
		last := replaced[0].rows[len(replaced[0].rows)-1]
		flushed = max(flushed, last.Seq)
		if x.opt.Wrong.ListedBeforeFlush {
			return nil
		}
	}
	x.Segments = append(x.Segments, f.id)
	return x.listed(x.Next, flushed, names, place)
}

// listed replaces the manifest, passes a place and removes files.
func (x *Index) listed(next, flushed uint64, names []string, place string) error {
	x.Next, x.Flushed = next, flushed
	if err := x.manifest.write(x.files); err != nil {
		return err
	}
	x.opt.Passed(place)
	for _, name := range names {
		if err := x.files.remove(name); err != nil {
			return fmt.Errorf("removing a file that was replaced: %w", err)
		}
	}
	return nil
}
