// Package index keeps documents so that they are found by their words: in a log, in memory and in
// immutable segments, which are merged in the background.
//
// # What is searched
//
// A Snapshot is of one generation: it reflects every change up to a sequence number and none above.
// What matches a query is said at analysis.Query. The score of a document is BM25F in its simple
// form (Robertson, Zaragoza, Taylor: Simple BM25 Extension to Multiple Weighted Fields, CIKM 2004):
//
//	tf(t, d) = the sum over the fields of weight * how often t is in the field of d
//	len(d)   = the sum over the fields of weight * how many tokens the field of d has
//	idf(t)   = ln(1 + (N - df(t) + 0.5) / (df(t) + 0.5))
//	score    = the sum over the terms t of the query, each once, in the order of their bytes, of
//	           idf(t) * (k1 + 1) / (1 + k1 * (1 - b + b*len(d)/Length) / tf(t, d))
//
// with k1 = 1.2 and b = 0.75, over the terms of all groups and of the phrase that d has, in float64
// and in that order. N is how many documents there are, Length their mean len, and df(t) how many
// of them have t, but documents that were deleted or replaced may still be counted in df(t), up to
// N, until a merge. A Result says which figures were used. Hits are ordered by score, the highest
// first, and equal ones by document number, the lowest first.
package index

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"stampede/systems/internal/prefix"
	"stampede/systems/textsearch/analysis"
)

// K1 and B are the parameters of BM25.
const (
	K1 = 1.2
	B  = 0.75
)

// ErrStale is of a change whose version is not above the document's, or the deleted document's, and
// that is no repeat of its newest change.
var ErrStale = errors.New("a document's version is not above the one that is known")

// ErrClosed is of an index that was closed, or that has failed to write: what was not acknowledged
// then is in an unknown state until it is opened again.
var ErrClosed = errors.New("the index is closed")

// ErrLocked is of a folder that another process, or another Index, has open.
var ErrLocked = errors.New("the index is open elsewhere")

// Options say where an index is kept and when it tidies up.
type Options struct {
	// Folder is where the files are, and exists.
	Folder string
	// FlushAt is how many changes are in memory before they become a segment; 1 is the least.
	FlushAt int
	// NoSegments keeps all changes in memory and in the log, however many they are, but for what
	// Flush is asked to make of them.
	NoSegments bool
	// MergeAt is how many segments of about one size become one; 2 is the least.
	MergeAt int
	// Passed is called with the places that the index passes, in its goroutines, which wait for it;
	// nil if nobody listens.
	Passed func(place string)
	// Wrap is what each file is written through, if it is set: tests cut what was not flushed.
	Wrap func(name string, f File) File
	// Wrong is what a design that is known to be wrong does.
	Wrong Wrong
}

// The places that Passed is told of.
const (
	PlaceLogged  = "logged"  // changes are in the log and flushed, and nobody sees them yet
	PlaceWritten = "written" // a segment's file is whole, and no manifest lists it
	PlaceListed  = "listed"  // a manifest lists what was in memory, whose log is not replayed again
	PlaceMerged  = "merged"  // a manifest lists what a merge made, of what is still there
	PlaceMerging = "merging" // a merge has begun to write its output
)

// Places are all of them.
func Places() []string {
	return []string{PlaceLogged, PlaceWritten, PlaceListed, PlaceMerging, PlaceMerged}
}

// Wrong is what known-wrong designs and mutants do.
type Wrong struct {
	// MergeForgetsDeletes: the output of a merge has each document that its inputs have, even if it
	// was deleted or replaced by a change that is not in the inputs.
	MergeForgetsDeletes bool
	// ListedBeforeFlush: the manifest lists a segment, whose log is not replayed then, before the
	// segment's file is written. A crash in between loses acknowledged changes.
	ListedBeforeFlush bool
	// AckBeforeFlush: changes are acknowledged and seen before the log is flushed.
	AckBeforeFlush bool
	// UpdateInTwo: a replaced document is deleted first, and a snapshot in between has none.
	UpdateInTwo bool
	// RoundedBounds: the bounds of pruned searches are of lengths with eight significant bits.
	RoundedBounds bool
	// TiesPruned: a pruned search skips what can reach the lowest hit's score but not exceed it.
	TiesPruned bool
	// MarkedByPlace: what becomes old while a merge is at work is marked in its output at the place
	// that it had in an input.
	MarkedByPlace bool
}

// Result is what a search found.
type Result struct {
	Hits   []analysis.Hit
	N      int64            // documents, exactly
	Length float64          // their mean len, exactly; 0 if there are none
	DF     map[string]int64 // of each term of the query, prefixes resolved
}

// Segment describes a segment.
type Segment struct {
	ID        uint64 `json:"id"`
	Documents int64  `json:"documents" min:"0"` // without those that are deleted or replaced since
	Bytes     int64  `json:"bytes" min:"0"`
	Whole     bool   `json:"whole" doc:"all of the file is there, and its checksum is right"`
}

// entry is what an index knows of a document by one change.
type entry struct {
	Version uint64 `json:"version"`
	Seq     uint64 `json:"seq"`
	gone    bool   // deleted
}

// change is a change of a document, and its JSON in a log. There what is no UTF-8 in its text is
// replaced, and is no part of a term.
type change struct {
	Doc uint64 `json:"doc"`
	entry
	Text *analysis.Text `json:"text,omitempty"` // nil if it is deleted
}

// request is a change that somebody waits for.
type request struct {
	change
	done chan error

	list []occurrence
	len  uint32
}

// requested is a request for a change, with the terms of its text.
func requested(c change) *request {
	r := &request{change: c, done: make(chan error, 1)}
	if c.Text != nil {
		r.list, r.len = occurrences(c.Text)
	}
	return r
}

// Index is an index that is open. One goroutine, run, makes all changes, and publishes snapshots
// of them; it writes the log for all who wait at once. Segments are written by others.
type Index struct {
	opt      Options
	files    files
	automata prefix.Automata
	now      atomic.Pointer[Snapshot]

	requests chan *request
	flushes  chan chan error
	finished chan finished
	stop     context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	closing  sync.Once

	// What follows is run's.
	manifest
	seq      uint64
	leaves   []leaf // segments, then the memory that is being flushed, if one is, then active
	active   *memory
	log      File
	flushing bool
	merging  bool
	waiting  []chan error // for nothing being in memory and nothing being done
	missing  []uint64     // segments that the manifest lists and that cannot be opened
	failure  error
}

// Limits.
const (
	maxBatch = 512      // changes in a frame of the log
	maxLog   = 64 << 20 // bytes of logs of changes that are in memory
)

// Open opens an index, and takes up what a process has left that was killed. A folder whose files
// are damaged is ErrCorrupt.
func Open(ctx context.Context, o Options) (*Index, error) {
	to, err := openFolder(o.Folder)
	if err != nil {
		return nil, fmt.Errorf("opening the index: %w", err)
	}
	return open(ctx, o, to)
}

func open(ctx context.Context, o Options, to files) (*Index, error) {
	o.MergeAt = max(o.MergeAt, 2)
	if o.Passed == nil {
		o.Passed = func(string) {}
	}
	if o.Wrap != nil {
		to = wrapped{to, o.Wrap}
	}
	x := &Index{opt: o, files: to, automata: prefix.NewAutomata(), active: newMemory(),
		requests: make(chan *request, maxBatch), flushes: make(chan chan error),
		finished: make(chan finished, 2)}
	if err := x.recover(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the index: %w", err), to.close())
	}
	x.stop, x.cancel = context.WithCancel(context.Background())
	x.publish()
	x.running.Go(x.run)
	return x, nil
}

// Close stops the work in the background; what it was doing is begun again by Open. Snapshots stay
// what they are.
func (x *Index) Close() (err error) {
	x.closing.Do(func() {
		x.cancel()
		x.running.Wait()
		err = errors.Join(x.log.Close(), x.files.close())
		x.now.Store(&Snapshot{x: x, generation: x.seq})
		x.leaves = nil
	})
	return err
}

// Snapshot is the newest generation. An index that was closed is empty.
func (x *Index) Snapshot() *Snapshot { return x.now.Load() }

// Change adds or replaces a document. Without a text it deletes it, or notes that one is deleted
// that never was there; the version is remembered, so that what is older stays deleted.
//
// It returns the change's sequence number once the change is durable and each new snapshot has it.
// A repeat of the document's newest change, which is known by its version, changes nothing and
// returns the first number. ErrStale if the version is not above the known one, which changes
// nothing. After any other error it is unknown whether the change will be there.
func (x *Index) Change(
	ctx context.Context, doc, version uint64, text *analysis.Text,
) (seq uint64, err error) {
	r := requested(change{Doc: doc, Text: text, entry: entry{Version: version, gone: text == nil}})
	if err := ask(ctx, x, x.requests, r, r.done); err != nil {
		return 0, err
	}
	return r.Seq, nil
}

// Flush makes a segment of what is in memory, and returns once that is listed and no merge is due.
func (x *Index) Flush(ctx context.Context) error {
	done := make(chan error, 1)
	return ask(ctx, x, x.flushes, done, done)
}

// ask sends what run is asked for, and waits until that is done.
func ask[T any](ctx context.Context, x *Index, to chan<- T, what T, done <-chan error) error {
	select {
	case to <- what:
	case <-ctx.Done():
		return fmt.Errorf("waiting to ask the index: %w", ctx.Err())
	case <-x.stop.Done():
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the index: %w", ctx.Err())
	case <-x.stop.Done():
		return ErrClosed
	}
}
