package views

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"stampede/harness/api"
	"stampede/harness/check"
)

// truth is a decoded audit with the indexes that judges need.
type truth struct {
	Audit
	err          error
	watch, valid [][]Logged
	// accepted are the views of valid_events, each once, by where they are
	// from; again counts those that were forwarded more than once.
	accepted map[place]*Logged
	again    int64
	progress map[ProgressAudit]int64 // Next is zero in the key
}

func newTruth(raw json.RawMessage) *truth {
	t := &truth{accepted: make(map[place]*Logged), progress: make(map[ProgressAudit]int64)}
	if t.Audit, t.err = api.DecodeAudit[Audit](raw); t.err == nil {
		t.watch, t.err = t.Watch.Decode()
	}
	if t.err == nil {
		t.valid, t.err = t.Valid.Decode()
	}
	if t.err == nil {
		t.err = t.complete()
	}
	if t.err != nil {
		t.err = fmt.Errorf("the final audit cannot be read: %w", t.err)
		return t
	}
	for p, list := range t.valid {
		last := int64(-1)
		for i := range list {
			v := &list[i]
			if v.Source <= last {
				t.again++
				continue
			}
			last = v.Source
			t.accepted[place{int32(p), v.Source}] = v
		}
	}
	for _, s := range t.Progress {
		next := s.Next
		s.Next = 0
		t.progress[s] = next
	}
	return t
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
	for _, r := range t.Rules {
		if r.Check() != nil || r.RepeatWindowMS <= 0 || r.IPWindowMS <= 0 {
			return fmt.Errorf("version %d of the rules makes no sense", r.Version)
		}
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

// videos are all that the log or the tables speak of, in order.
func (t *truth) videos() []string {
	all := make(map[string]bool)
	for _, list := range t.watch {
		for i := range list {
			all[list[i].Video] = true
		}
	}
	for _, d := range t.Drops {
		all[d.Video] = true
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// someOf are the first events of a video, as witnesses.
func (t *truth) someOf(video string) (ops []uint64) {
	for _, list := range t.watch {
		for i := range list {
			if list[i].Video == video && len(ops) < check.MaxProof {
				ops = append(ops, list[i].ID)
			}
		}
	}
	return ops
}

// windowKey is a window of a video's counts.
type windowKey struct {
	video string
	start int64
}

// tally is what a window should have, by the log.
type tally struct {
	views int64
	ops   []uint64
}

// recount adds up, from valid_events, what a generation should have stored by
// now: the batch recount.
func (t *truth) recount(generation int64) map[windowKey]*tally {
	sums := make(map[windowKey]*tally)
	for p, list := range t.valid {
		next, last := t.next(stageCounter, generation, p), int64(-1)
		for i := range list {
			v := &list[i]
			if v.Offset >= next {
				break
			}
			if v.Source <= last {
				continue
			}
			last = v.Source
			k := windowKey{v.Video, v.TimeMS - v.TimeMS%t.CountWindowMS}
			s := sums[k]
			if s == nil {
				s = &tally{}
				sums[k] = s
			}
			s.views++
			if len(s.ops) < check.MaxProof {
				s.ops = append(s.ops, v.ID)
			}
		}
	}
	return sums
}

// difference is a window whose count is not that of the log.
type difference struct {
	windowKey
	stored, logged int64
	ops            []uint64
}

// differences compares the windows of a generation with the recount.
func (t *truth) differences(generation int64) (list []difference, windows int) {
	want := t.recount(generation)
	windows = len(want)
	for _, c := range t.Counts {
		if c.Generation != generation {
			continue
		}
		k := windowKey{c.Video, c.WindowMS}
		s := want[k]
		delete(want, k)
		switch {
		case s == nil:
			list = append(list, difference{k, c.Views, 0, t.someOf(c.Video)})
		case s.views != c.Views:
			list = append(list, difference{k, c.Views, s.views, s.ops})
		}
	}
	for k, s := range want {
		list = append(list, difference{k, 0, s.views, s.ops})
	}
	slices.SortFunc(list, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.video, b.video), cmp.Compare(a.start, b.start))
	})
	return list, windows
}
