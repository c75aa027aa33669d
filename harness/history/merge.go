package history

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"
)

// sortBatch is how many records Sort holds in memory at once, about 50 MB of them.
const sortBatch = 100_000

// when is where a record stands in a history that is in order: at its start, or where it was due
// if it never started.
func (r *Record) when() time.Duration {
	if r.Start == Never {
		return r.Intended
	}
	return r.Start
}

// byTime orders the records of one history.
func byTime(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.when(), b.when()), cmp.Compare(a.Seq, b.Seq))
}

// Sort writes a closed history anew, with its records by the time of their start, those that never
// started by when they were due, and then by Seq. What does not fit into memory goes through files
// beside path (an external merge sort). Windows and samples are not taken over.
func Sort(src *File, path string) error { return sortIn(src, path, sortBatch) }

func sortIn(src *File, path string, most int) (err error) {
	var runs []*File
	defer func() {
		for _, run := range runs {
			err = errors.Join(err, run.Close(), os.Remove(run.name))
		}
	}()
	batch := make([]Record, 0, most)
	spill := func() error {
		slices.SortFunc(batch, func(a, b Record) int { return byTime(&a, &b) })
		run, err := writeRun(fmt.Sprintf("%s.%d", path, len(runs)), src.Header(), batch)
		if run != nil {
			runs = append(runs, run)
		}
		batch = batch[:0]
		return err
	}
	for rec, err := range src.All() {
		if err != nil {
			return err
		}
		if batch = append(batch, rec); len(batch) == most {
			if err := spill(); err != nil {
				return err
			}
		}
	}
	if err := spill(); err != nil {
		return err
	}
	w, err := Create(path, src.Header())
	if err != nil {
		return err
	}
	return errors.Join(merge(w, runs, func(a, b *source) int { return byTime(&a.rec, &b.rec) }, nil),
		w.Close())
}

// writeRun writes records in their order and opens them. The file is there, and is the caller's,
// if it is returned.
func writeRun(path string, hdr Header, records []Record) (*File, error) {
	w, err := Create(path, hdr)
	if err != nil {
		return nil, err
	}
	w.WaitForDisk()
	shard := w.Shard()
	for i := range records {
		shard.Append(&records[i])
	}
	if err := w.Close(); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return Open(path)
}

// Merge appends to a history the records of its parts by time, then by part, and numbers them from
// 0 in that order. Each part is as Sort leaves it. It streams, so that memory is flat, and waits
// for the disk, as a load cannot.
func Merge(w *Writer, parts []*File) error {
	next := uint64(0)
	return merge(w, parts, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.rec.when(), b.rec.when()), cmp.Compare(a.part, b.part))
	}, func(r *Record) {
		r.Seq = next
		next++
	})
}

// source is one of the files of a merge, with its next record.
type source struct {
	rec  Record
	part int
	name string
	next func() (Record, error, bool)
	stop func()
	// some says that rec is a record of the file.
	some bool
}

// advance takes the next record; it reports false at the end.
func (s *source) advance() (more bool, err error) {
	rec, err, more := s.next()
	if err != nil || !more {
		return false, err
	}
	if s.some && byTime(&s.rec, &rec) > 0 {
		return false, fmt.Errorf("history: %s is not in order: record %d, of %v, comes after one of %v",
			s.name, rec.Seq, rec.when(), s.rec.when())
	}
	s.rec, s.some = rec, true
	return true, nil
}

// merge appends the records of files to a history, the least first; change, if set, changes each
// before it is written.
func merge(
	w *Writer, files []*File, order func(a, b *source) int, change func(*Record),
) error {
	queue := &sources{order: order}
	for i, f := range files {
		if !f.Complete() {
			return fmt.Errorf("history: %s is not complete and cannot be merged", f.name)
		}
		s := &source{part: i, name: f.name}
		s.next, s.stop = iter.Pull2(f.All())
		defer s.stop()
		more, err := s.advance()
		if err != nil {
			return err
		}
		if more {
			queue.list = append(queue.list, s)
		}
	}
	heap.Init(queue)
	w.WaitForDisk()
	shard := w.Shard()
	for len(queue.list) > 0 {
		first := queue.list[0]
		rec := first.rec
		if change != nil {
			change(&rec)
		}
		if w.Err() != nil {
			return w.Err()
		}
		shard.Append(&rec)
		switch more, err := first.advance(); {
		case err != nil:
			return err
		case more:
			heap.Fix(queue, 0)
		default:
			heap.Pop(queue)
		}
	}
	return nil
}

// sources is a heap, the source with the least record first.
type sources struct {
	list  []*source
	order func(a, b *source) int
}

func (s *sources) Len() int           { return len(s.list) }
func (s *sources) Less(i, j int) bool { return s.order(s.list[i], s.list[j]) < 0 }
func (s *sources) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }
func (s *sources) Push(x any)         { s.list = append(s.list, x.(*source)) }
func (s *sources) Pop() any {
	last := len(s.list) - 1
	x := s.list[last]
	s.list = s.list[:last]
	return x
}

// Widen is a history in which each operation lasts longer by so much at both ends: what is certain
// about the order of operations whose times were read from clocks that differ by less. With a
// negative time each is shorter, down to nothing: what certainly overlapped. Due times move with
// the start where they would come after it.
func Widen(h History, by time.Duration) History { return widened{h, by} }

type widened struct {
	History
	by time.Duration
}

// All implements History.
func (w widened) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for rec, err := range w.History.All() {
			if rec.Start != Never {
				rec.Start = max(0, rec.Start-w.by)
				rec.Intended = min(rec.Intended, rec.Start)
				if rec.End != Never {
					rec.End = max(rec.Start, rec.End+w.by)
				}
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// Complete says whether the history itself is.
func (w widened) Complete() bool {
	whole, told := w.History.(interface{ Complete() bool })
	return !told || whole.Complete()
}
