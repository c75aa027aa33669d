package index

import (
	"errors"
	"fmt"
)

// run makes changes until the index is closed.
func (x *Index) run() {
	for {
		x.tidy()
		requests := x.requests
		if x.flushing && x.full() {
			requests = nil // memory is bounded
		}
		select {
		case r := <-requests:
			x.commit(x.gather(r))
		case done := <-x.finished:
			x.list(done)
		case w := <-x.flushes:
			x.waiting = append(x.waiting, w)
		case <-x.stop.Done():
			return
		}
	}
}

// full says whether there is enough in memory for a segment.
func (x *Index) full() bool {
	return !x.opt.NoSegments &&
		(len(x.active.rows) >= x.opt.FlushAt || x.active.bytes >= maxLog)
}

// gather takes the requests that wait.
func (x *Index) gather(r *request) []*request {
	list := []*request{r}
	for bytes := 0; len(list) < maxBatch && bytes < maxLog/4; {
		select {
		case r := <-x.requests:
			list = append(list, r)
			if t := r.Text; t != nil {
				bytes += len(t.Title) + len(t.Tags) + len(t.Description) + len(t.Body)
			}
		default:
			return list
		}
	}
	return list
}

// commit makes changes durable, then visible, and then answers.
func (x *Index) commit(list []*request) {
	accepted, stale := x.order(list)
	if len(accepted) > 0 && x.failure == nil {
		x.failure = x.record(accepted)
	}
	if x.failure == nil && len(accepted) > 0 {
		x.seq = accepted[len(accepted)-1].Seq
		x.apply(accepted)
	}
	for _, r := range list {
		err := stale[r]
		if x.failure != nil { // nor is it known what the others are stale by
			err = fmt.Errorf("%w: %w", ErrClosed, x.failure)
		}
		r.done <- err
	}
}

// order gives sequence numbers to those requests that are not stale. What repeats a document's
// newest change gets the number of that.
func (x *Index) order(list []*request) (accepted []*request, stale map[*request]error) {
	newest, seq := map[uint64]entry{}, x.seq
	stale = map[*request]error{}
	for _, r := range list {
		known, is := newest[r.Doc]
		if !is {
			if l, at := x.locate(r.Doc); l != nil {
				known, is = l.row(at).entry, true
			}
		}
		switch {
		case is && r.Version == known.Version && r.gone == known.gone:
			r.Seq = known.Seq
		case is && r.Version <= known.Version:
			stale[r] = fmt.Errorf("%w: document %d has %d", ErrStale, r.Doc, known.Version)
		default:
			seq++
			r.Seq = seq
			newest[r.Doc] = r.entry
			accepted = append(accepted, r)
		}
	}
	return accepted, stale
}

// record writes changes to the log.
func (x *Index) record(list []*request) error {
	changes := make([]change, len(list))
	for i, r := range list {
		changes[i] = r.change
	}
	b, err := framed(changes)
	if err == nil {
		_, err = x.log.Write(b)
	}
	if err == nil && !x.opt.Wrong.AckBeforeFlush {
		err = x.log.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	x.active.bytes += len(b)
	x.opt.Passed(PlaceLogged)
	return nil
}

// locate finds the newest entry of a document.
func (x *Index) locate(doc uint64) (found *leaf, at uint32) {
	var seq uint64
	for i := range x.leaves {
		l := &x.leaves[i]
		if j, is := l.find(doc); is {
			if s := l.row(j).Seq; found == nil || s > seq {
				found, at, seq = l, j, s
			}
		}
	}
	return found, at
}

// apply makes changes visible.
func (x *Index) apply(list []*request) {
	if x.opt.Wrong.UpdateInTwo {
		for _, r := range list {
			x.supersede(r.Doc)
		}
		x.publish()
		x.opt.Passed(PlaceLogged)
	}
	for _, r := range list {
		x.add(r)
	}
	x.publish()
}

// supersede makes the newest entry of a document an old one.
func (x *Index) supersede(doc uint64) {
	if l, at := x.locate(doc); l != nil {
		l.mark(at)
	}
}

// add adds a change to the memory.
func (x *Index) add(r *request) {
	x.supersede(r.Doc)
	x.active.add(row{r.Doc, r.entry, r.len}, r.list)
	l := &x.leaves[len(x.leaves)-1]
	l.rows = x.active.rows
	if !r.gone {
		l.live++
		l.length += uint64(r.len)
	}
}

// publish makes the leaves what new snapshots see.
func (x *Index) publish() {
	s := &Snapshot{x: x, generation: x.seq, leaves: make([]leaf, len(x.leaves)), missing: x.missing}
	for i := range x.leaves {
		l := &x.leaves[i]
		l.owned = false
		s.leaves[i] = *l
		s.docs += l.live
		s.length += l.length
	}
	x.now.Store(s)
}

// freeze begins another memory and another log.
func (x *Index) freeze() error {
	if x.log != nil {
		if err := errors.Join(x.log.Sync(), x.log.Close()); err != nil {
			return fmt.Errorf("ending a log: %w", err)
		}
		x.active = newMemory()
	}
	log, err := x.files.create(logName(x.seq + 1))
	if err == nil {
		x.log = log
		err = x.files.flushFolder()
	}
	if err != nil {
		return fmt.Errorf("beginning a log: %w", err)
	}
	return nil
}

const logPrefix = "log-"

// logName is the name of a log by the number of its first change. Logs are never removed.
func logName(seq uint64) string { return fmt.Sprintf(logPrefix+"%016x", seq) }
