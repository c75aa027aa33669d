package fault

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// DefaultLoses is what a loss of power takes where a fault does not say: what
// Redis does not flush for itself more often than (appendfsync everysec).
const DefaultLoses = time.Second

// watchSlack is how much more than asked may be taken because the journal was
// not looked at in time.
const watchSlack = 500 * time.Millisecond

// lead is how long before its time a fault must begin to watch its target.
func (f Fault) lead() time.Duration {
	if f.Kind == PowerLoss {
		return f.Loses + 2*env.JournalEvery
	}
	return 0
}

// watch begins to watch the target of a fault that needs it. The returned
// target is to be given to Inject, and stop to be called whatever comes of it.
func (f Fault) watch(ctx context.Context, t Target) (watched Target, stop func(), err error) {
	if f.Kind != PowerLoss || t.journal != nil {
		return t, func() {}, nil
	}
	if err := f.Available(t); err != nil {
		return t, func() {}, err
	}
	ctx, stop = context.WithCancel(ctx)
	t.journal = &journalWatch{}
	err = t.Component.(env.Journaled).WatchJournal(ctx, t.journal.saw)
	if err != nil {
		stop()
		return t, func() {}, fmt.Errorf("%s: %w", f, err)
	}
	return t, stop, nil
}

// journalWatch is what was seen of the sizes of a journal's files.
type journalWatch struct {
	mu   sync.Mutex
	seen []journalSizes
}

type journalSizes struct {
	at    time.Time
	sizes map[string]int64
}

func (w *journalWatch) saw(sizes map[string]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, journalSizes{time.Now(), sizes})
}

// before returns the latest sizes that were seen at a time or before it.
func (w *journalWatch) before(at time.Time) (journalSizes, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.seen) {
		if !s.at.After(at) {
			if late := at.Sub(s.at); late > watchSlack {
				return s, fmt.Errorf("the journal was not sampled for %v", late)
			}
			return s, nil
		}
	}
	return journalSizes{}, fmt.Errorf("the journal was not watched early enough")
}

// mostIdle is how long a loss of power waits for something that it can take.
const mostIdle = 3 * time.Second

// await waits until a file has grown within the time that a loss reaches back: while a design is
// held up, as by the fault before, it writes nothing, and nobody could feel the loss. It reports
// false if ctx is over.
func (t Target) await(ctx context.Context, f Fault) bool {
	if f.Kind != PowerLoss || t.journal == nil {
		return true
	}
	for waited := time.Duration(0); waited < mostIdle; waited += env.JournalEvery {
		if t.journal.grew(f.Loses) {
			break
		}
		if !sut.Pause(ctx, env.JournalEvery) {
			return false
		}
	}
	return true
}

func (w *journalWatch) grew(within time.Duration) bool {
	now := time.Now()
	then, err := w.before(now.Add(-within))
	if err != nil {
		return true // the loss says why it cannot be
	}
	latest, err := w.before(now)
	if err != nil {
		return true
	}
	for name, size := range latest.sizes {
		if size > then.sizes[name] {
			return true
		}
	}
	return false
}

// powerLoss kills the store and takes the end of its journal, which was written
// but which a disk need not have had yet. The proof is what was taken, and that
// another store answers afterwards.
//
// A target that is not watched yet is watched first, for as long as the loss
// reaches back.
func (in *Injection) powerLoss(ctx context.Context) error {
	target, stop, err := in.fault.watch(ctx, in.target)
	if err != nil {
		return err
	}
	defer stop()
	if target.journal != in.target.journal && !sut.Pause(ctx, in.fault.lead()) {
		return context.Cause(ctx)
	}
	store := target.Component.(env.Journaled)
	if in.effects.IdentityBefore, err = store.Identity(ctx); err != nil {
		return err
	}
	in.undo = func(ctx context.Context) error { return startAgain(ctx, store, false) }
	killed := time.Now()
	if in.effects.PIDs, err = store.Kill(ctx); err != nil {
		return err
	}
	kept, err := target.journal.before(killed.Add(-in.fault.Loses))
	if err != nil {
		return err
	}
	lost, err := store.CutJournal(ctx, kept.sizes)
	if err != nil {
		return err
	}
	in.lostPower(killed.Sub(kept.at), kept.sizes, lost)
	return nil
}

// lostPower notes what was taken. Where no whole command is in it there is no
// evidence, though the store was killed: nobody can have felt the loss.
func (in *Injection) lostPower(
	ago time.Duration, kept map[string]int64, lost map[string][]byte,
) {
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		in.effects.CutBytes += int64(len(lost[name]))
		in.effects.KeptBytes += kept[name]
		in.effects.LostCommands += commands(lost[name])
	}
	in.effects.CutBackNS = ago.Nanoseconds()
	in.observe = func(ctx context.Context) error {
		err := in.compareIdentity(ctx, "%d bytes with %d commands, written in the last %v, were "+
			"removed from the append-only file, and %d bytes kept; killed processes %v", in.effects.CutBytes,
			in.effects.LostCommands, ago.Round(time.Millisecond), in.effects.KeptBytes, in.effects.PIDs)
		if in.effects.LostCommands == 0 {
			in.evidence = nil
		}
		return err
	}
}

// commands counts the commands in a piece of an append-only file, as Redis
// writes it: arrays of bulk strings. What frames them, and a command whose
// beginning is before the piece, is not counted.
func commands(piece []byte) (n int64) {
	for len(piece) > 0 {
		name, rest, ok := command(piece)
		if !ok { // the rest of a command: find the next
			next := bytes.Index(piece, []byte("\r\n*"))
			if next < 0 {
				return n
			}
			piece = piece[next+2:]
			continue
		}
		switch string(bytes.ToUpper(name)) {
		case "SELECT", "MULTI", "EXEC":
		default:
			n++
		}
		piece = rest
	}
	return n
}

// command reads one array of bulk strings and returns its first string.
func command(piece []byte) (name, rest []byte, ok bool) {
	size, rest, ok := number('*', piece)
	for i := 0; ok && i < size; i++ {
		var length int
		if length, rest, ok = number('$', rest); !ok || length+2 > len(rest) {
			return nil, nil, false
		}
		if i == 0 {
			name = rest[:length]
		}
		rest = rest[length+2:]
	}
	return name, rest, ok && size > 0
}

// number reads a line of a mark and a number from 0 to a billion.
func number(mark byte, piece []byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(piece, []byte("\r\n"))
	if !ok || len(line) < 2 || len(line) > 10 || line[0] != mark {
		return 0, nil, false
	}
	whole, err := strconv.ParseUint(string(line[1:]), 10, 31)
	return int(whole), rest, err == nil
}
