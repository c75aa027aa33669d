package views

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"stampede/harness/api"
	"stampede/harness/check"
)

// truth is a decoded audit with the indexes that judges need.
type truth struct {
	Audit
	watch, valid [][]Logged
	// accepted are the views of valid_events, each once, by where they are
	// from; again counts those that were forwarded more than once.
	accepted map[place]*Logged
	again    int64
	progress map[ProgressAudit]int64 // Next is zero in the key
	// some are the first events of each video.
	some map[string][]uint64
}

// readTruth decodes an audit. What it lacks without which nothing can be judged is an error.
func readTruth(raw json.RawMessage) (t truth, err error) {
	if t.Audit, err = api.DecodeAudit[Audit](raw); err != nil {
		return t, err
	}
	slices.SortFunc(t.Generations, byNumber)
	if t.watch, err = t.Watch.Decode(); err != nil {
		return t, err
	}
	if t.valid, err = t.Valid.Decode(); err != nil {
		return t, err
	}
	t.accepted, t.progress = make(map[place]*Logged), make(map[ProgressAudit]int64)
	for p, list := range t.valid {
		for v, again := range counted(list) {
			if again {
				t.again++
			} else {
				t.accepted[place{int32(p), v.Source}] = v
			}
		}
	}
	t.some = make(map[string][]uint64)
	for _, list := range t.watch {
		for i := range list {
			if some := t.some[list[i].Video]; len(some) < check.MaxProof {
				t.some[list[i].Video] = append(some, list[i].ID)
			}
		}
	}
	for _, s := range t.Progress {
		next := s.Next
		s.Next = 0
		t.progress[s] = next
	}
	return t, t.complete()
}

// counted yields the views of a partition, and of each whether one with its position or a
// later one came before: then it is not counted.
func counted(list []Logged) iter.Seq2[*Logged, bool] {
	return func(yield func(*Logged, bool) bool) {
		last := int64(-1)
		for i := range list {
			v := &list[i]
			again := v.Source <= last
			last = max(last, v.Source)
			if !yield(v, again) {
				return
			}
		}
	}
}

// complete says what an audit lacks without which nothing can be judged.
func (t *truth) complete() error {
	switch {
	case len(t.watch) == 0 || len(t.valid) != len(t.watch):
		return fmt.Errorf("%s has %d partitions, %s has %d", topicWatch, len(t.watch), topicValid,
			len(t.valid))
	case len(t.Rules) == 0 || len(t.Generations) == 0:
		return errors.New("it has no rules or no generations")
	case t.Drops == nil || t.Counts == nil || t.Totals == nil:
		return errors.New("it has no drops, no counts or no totals")
	}
	return nil
}

// next is how far a stage has come in a partition.
func (t *truth) next(stage string, generation int64, partition int) int64 {
	return t.progress[ProgressAudit{Stage: stage, Generation: generation,
		Partition: int32(partition)}]
}

// logged is the event at a place of watch_events, nil if there is none.
func (t *truth) logged(at place) *Logged {
	if at.partition < 0 || int(at.partition) >= len(t.watch) {
		return nil
	}
	list := t.watch[at.partition]
	i := sort.Search(len(list), func(i int) bool { return list[i].In() >= at.in })
	if i == len(list) || list[i].In() != at.in {
		return nil
	}
	return &list[i]
}

// windowKey is a window of a video's counts.
type windowKey struct {
	video string
	start int64
}

// tally is what a window has by the log, with some of the events, and what is stored of it.
type tally struct {
	windowKey
	views, stored int64
	ops           []uint64
}

// recount adds up, from valid_events, what a generation should have stored by
// now: the batch recount.
func (t *truth) recount(generation int64) map[windowKey]*tally {
	sums := make(map[windowKey]*tally)
	for p, list := range t.valid {
		next := t.next(stageCounter, generation, p)
		for v, again := range counted(list) {
			if v.Offset >= next {
				break
			}
			if again {
				continue
			}
			k := windowKey{v.Video, v.TimeMS - v.TimeMS%t.CountWindowMS}
			if sums[k] == nil {
				sums[k] = &tally{windowKey: k}
			}
			s := sums[k]
			s.views++
			if len(s.ops) < check.MaxProof {
				s.ops = append(s.ops, v.ID)
			}
		}
	}
	return sums
}

// differences are the windows of a generation whose count is not that of the recount, in
// order, and how many windows that has.
func (t *truth) differences(generation int64) (list []*tally, windows int) {
	want := t.recount(generation)
	windows = len(want)
	for _, c := range t.Counts {
		if c.Generation != generation {
			continue
		}
		k := windowKey{c.Video, c.WindowMS}
		s := want[k]
		delete(want, k)
		if s != nil && s.views == c.Views {
			continue
		}
		if s == nil {
			s = &tally{windowKey: k, ops: t.some[c.Video]}
		}
		s.stored = c.Views
		list = append(list, s)
	}
	list = slices.AppendSeq(list, maps.Values(want))
	slices.SortFunc(list, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(a.video, b.video), cmp.Compare(a.start, b.start))
	})
	return list, windows
}
