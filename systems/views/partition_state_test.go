package views

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/stores"
)

// TestDigests: names that differ in any part have other digests.
func TestDigests(t *testing.T) {
	seen := map[digest]string{}
	for name, d := range map[string]digest{
		"a session": digestOf('s', span{}, "ab"), "another kind": digestOf('i', span{}, "ab"),
		"two texts": digestOf('s', span{}, "a", "b"), "two others": digestOf('s', span{}, "", "ab"),
		"a window":  digestOf('i', span{ms: 60, n: 1}, "ab"),
		"the next":  digestOf('i', span{ms: 60, n: 2}, "ab"),
		"a longer":  digestOf('i', span{ms: 61, n: 1}, "ab"),
		"of length": digestOf('s', span{}, string(make([]byte, maxField)), "ab"),
	} {
		if other, is := seen[d]; is || d == (digest{}) {
			t.Errorf("%s is %s, %x", name, other, d)
		}
		seen[d] = name
	}
}

// drawDigest draws one of a few, many of which begin at the same slot.
func drawDigest(t *rapid.T) digest {
	return digest{rapid.Uint64Range(0, 3).Draw(t, "place") * 63,
		rapid.Uint64Range(1, 40).Draw(t, "rest")}
}

// TestTable: a table that is entered, looked up, counted and outdated in any order has what two
// maps have.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		now, before := map[digest]uint64{}, map[digest]uint64{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				d, n := drawDigest(t), rapid.Uint64().Draw(t, "value")
				r.now.put(d, n)
				now[d] = n
			},
			"add": func(t *rapid.T) {
				d := drawDigest(t)
				r.now.add(d, 2)
				now[d] += 2
			},
			"late": func(t *rapid.T) {
				d := drawDigest(t)
				r.of(r.stretch-1).put(d, 1)
				before[d] = 1
				if r.of(r.stretch-2) != nil {
					t.Fatal("a stretch that is over has a table")
				}
			},
			"advance": func(t *rapid.T) {
				by := rapid.Int64Range(0, 2).Draw(t, "stretches")
				r.advance(r.stretch + by)
				switch by {
				case 1:
					now, before = map[digest]uint64{}, now
				case 2:
					now, before = map[digest]uint64{}, map[digest]uint64{}
				}
			},
			"clear": func(*rapid.T) {
				r.now.clear()
				clear(now)
			},
			"": func(t *rapid.T) {
				if r.now.used != len(now) || r.before.used != len(before) {
					t.Fatalf("it has %d and %d, not %d and %d", r.now.used, r.before.used, len(now),
						len(before))
				}
				d := drawDigest(t)
				n, known := now[d]
				if !known {
					n, known = before[d]
				}
				if got, is := r.get(d); is != known || got != n {
					t.Fatalf("%x is %d, %t; want %d, %t", d, got, is, n, known)
				}
				if got := r.sum(d); got != now[d]+before[d] {
					t.Fatalf("%x adds up to %d, want %d", d, got, now[d]+before[d])
				}
			},
		})
	})
}

// FuzzEntries: entries are read as they were written, or refused.
func FuzzEntries(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(appendDigest(nil, digest{1, 2}), false)
	f.Add(append(appendDigest(nil, digest{1, 2}), 1, 0, 0, 0, 0, 0, 0, 0), true)
	f.Add(make([]byte, shareBytes), true)
	f.Fuzz(func(t *testing.T, entries []byte, share bool) {
		size := digestBytes
		if share {
			size = shareBytes
		}
		var again []byte
		err := eachEntry(entries, size, func(d digest, rest []byte) {
			again = append(appendDigest(again, d), rest...)
		})
		if err == nil && !bytes.Equal(again, entries) {
			t.Fatalf("% x became % x", entries, again)
		}
	})
}

// byMap is what is remembered, in this stretch and the one before, by names.
type byMap [2]map[string]int64

func (m *byMap) advance(stretches int64) {
	for range stretches {
		m[0], m[1] = map[string]int64{}, m[0]
	}
}

func (m *byMap) sum(name string) int64 { return m[0][name] + m[1][name] }

// decide decides an event, as the rules say.
func (m *byMap) decide(e *Event, r *ruleSet) string {
	session, user := "s "+e.Session, fmt.Sprint("u ", e.Video, e.User, e.TimeMS/r.RepeatWindowMS)
	address := fmt.Sprint("i ", e.IP, e.TimeMS/r.IPWindowMS)
	id := m.sum(session)
	switch {
	case id == int64(e.ID):
		return Duplicate
	case id > 0:
		return Continued
	}
	m[0][session] = int64(e.ID)
	switch {
	case m.sum(user) > 0:
		return Repeat
	case m.sum(address) >= r.IPViews:
		return IPRate
	}
	m[0][user]++
	m[0][address]++
	return ""
}

// drawEvents draws a batch of a partition.
func drawEvents(t *rapid.T, part int32, decided int64) (list []decision) {
	for i := range rapid.IntRange(1, 4).Draw(t, "events") {
		list = append(list, decision{at: Position{part, decided, i}, event: Event{Heartbeat: Heartbeat{
			ID: rapid.Uint64Range(1, 3).Draw(t, "id"), Video: VideoKey(int(part) + 1),
			User:    rapid.SampledFrom([]string{"u1", "u2", "u3"}).Draw(t, "user"),
			IP:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "address"),
			TimeMS:  rapid.Int64Range(0, 99).Draw(t, "time"),
			Session: VideoKey(int(part)) + rapid.StringMatching("[a-z]{2}").Draw(t, "session")}}})
	}
	return list
}

// TestRestored: filters that take turns with partitions, lose what they could not store, fall
// behind with the addresses, and begin anew, decide as one would that has everything in a map.
func TestRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		tables := newTables(p)
		tables.stretch = time.Now().UnixMilli()/p.Retention.D().Milliseconds() + 1
		b := memory{tables, func() error { return nil }}
		minds := []*ownMemory{newOwnMemory(b, p), newOwnMemory(b, p), newOwnMemory(b, p)}
		want := byMap{{}, {}}
		for range rapid.IntRange(1, 900).Draw(t, "batches") {
			rules := newRuleSet(Rules{RepeatWindowMS: 10, IPWindowMS: 5,
				IPViews: rapid.Int64Range(0, 3).Draw(t, "limit")})
			part := rapid.Int32Range(0, 1).Draw(t, "partition")
			who := rapid.IntRange(0, len(minds)-1).Draw(t, "filter")
			if rapid.IntRange(0, 20).Draw(t, "anew") == 0 {
				minds[who] = newOwnMemory(b, p)
			}
			stretches := max(0, rapid.Int64Range(-20, 2).Draw(t, "stretches"))
			tables.stretch += stretches
			want.advance(stretches)
			before := byMap{maps.Clone(want[0]), maps.Clone(want[1])}
			stands, err := b.take(t.Context(), station{stageFilter, 0}, []int32{part})
			if err == nil {
				err = minds[who].recall(t.Context(), stands)
			}
			if err != nil {
				t.Fatal(err)
			}
			list := drawEvents(t, part, stands[0].decided)
			for i := range list {
				list[i].reason = minds[who].meet(i, &list[i], rules)
			}
			m := move{stand: stands[0], toSource: -1, toDecided: stands[0].decided + 1}
			lost := rapid.IntRange(0, 5).Draw(t, "lost") == 0
			if lost {
				m.epoch-- // somebody else has the partition
			}
			_, err = minds[who].store(t.Context(), list,
				func() ([]move, []DropAudit) { return []move{m}, nil })
			if errors.Is(err, errFenced) != lost || err != nil && !lost {
				t.Fatalf("storing: %v", err)
			}
			for _, d := range list {
				if reason := want.decide(&d.event, rules); d.reason != reason {
					t.Fatalf("%+v is %q, want %q", d.event, d.reason, reason)
				}
			}
			if lost {
				want = before
			}
		}
	})
}

// TestSwept: rows that are over go from the log of each partition that moves on and from that of
// the addresses, some at a time, whichever filter is the first in a stretch, and also if it
// could not store.
func TestSwept(t *testing.T) {
	p := DefaultParams()
	tables := newTables(p)
	tables.stretch = time.Now().UnixMilli()/p.Retention.D().Milliseconds() + 1
	b := memory{tables, func() error { return nil }}
	minds := []*ownMemory{newOwnMemory(b, p), newOwnMemory(b, p)}
	id := uint64(0)
	turn := func(who int, want error) {
		t.Helper()
		stands, err := b.take(t.Context(), station{stageFilter, 0}, []int32{int32(who)})
		if err == nil {
			err = minds[who].recall(t.Context(), stands)
		}
		if err != nil {
			t.Fatal(err)
		}
		id++
		name := fmt.Sprint(id)
		list := []decision{{at: Position{int32(who), stands[0].decided, 0}, event: Event{
			Heartbeat: Heartbeat{ID: id, Video: VideoKey(1), User: name, Session: name, IP: name}}}}
		minds[who].meet(0, &list[0], newRuleSet(p.rules()))
		m := move{stand: stands[0], toSource: -1, toDecided: stands[0].decided + 1}
		if want != nil {
			m.epoch--
		}
		_, err = minds[who].store(t.Context(), list,
			func() ([]move, []DropAudit) { return []move{m}, nil })
		if !errors.Is(err, want) {
			t.Fatalf("storing: %v, want %v", err, want)
		}
	}
	left := func(want ...int) {
		t.Helper()
		for i, log := range []int32{0, 1, addressLog} {
			if n := overdue(tables.logs[log], tables.stretch-2); n != want[i] {
				t.Errorf("log %d has %d rows that are over, want %d", log, n, want[i])
			}
		}
	}
	for range sweptAtOnce + 20 {
		turn(0, nil)
		turn(1, nil)
	}
	tables.stretch += 2
	turn(1, errFenced)
	left(sweptAtOnce+20, sweptAtOnce+20, 2*sweptAtOnce+40)
	turn(0, nil)
	left(20, sweptAtOnce+20, sweptAtOnce+40)
	turn(1, nil)
	left(20, 20, 40)
	turn(1, nil)
	left(20, 0, 0)
	turn(0, nil)
	left(0, 0, 0)
}

// logHolder is who has partition 0, and appends to the changelog.
type logHolder struct {
	*holder
	t     *testing.T
	swept []int32 // by the last turn
}

// agree stores a move to an offset and what is agreed beside it; the log of the addresses must
// have so many rows after a place.
func (h *logHolder) agree(after, to int64, a agreed, others int) error {
	h.t.Helper()
	a.moves = []move{{stand: h.stand, toSource: -1, toDecided: to}}
	swept, err := h.database.agree(h.t.Context(), 1000, after,
		func(_, _ int64, list []logRow) (agreed, error) {
			if len(list) != others {
				h.t.Errorf("after %d there are %d rows, want %d", after, len(list), others)
			}
			return a, nil
		})
	if err == nil {
		h.decided, h.swept = to, swept
	}
	return err
}

// rows are those of a log.
func (h *logHolder) rows(log int32) (text string) {
	h.t.Helper()
	list, err := h.changes(h.t.Context(), log, 0, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range list {
		text += fmt.Sprintf("%d-%d %d %s;", r.was, r.seq, r.stretch, r.entries)
	}
	return text
}

// TestChangelog: what is agreed in Postgres is stored as a whole or not at all, one filter sees
// what others have appended, rows are merged and go when they are over.
func TestChangelog(t *testing.T) {
	_, cfg := prepared(t, variantOf("partition_state"), crowd())
	pool, err := stores.OpenPostgres(t.Context(), cfg, "views", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	h := &logHolder{&holder{database{pool}, station{stageFilter, 0}, stand{}}, t, nil}
	retake := func() {
		list, err := h.take(t.Context(), h.who, []int32{0})
		if err != nil {
			t.Fatal(err)
		}
		h.stand = list[0]
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("the log is %s, want %s", got, want)
		}
	}
	retake()
	for n := range int64(4) {
		a := agreed{changes: []logRow{{0, n, n + 1, n / 3, []byte{byte('a' + n)}},
			{addressLog, n, n + 1, n / 3, []byte{byte('A' + n)}}}}
		if err := h.agree(max(0, n-1), n+1, a, int(min(n, 1))); err != nil {
			t.Fatal(err)
		}
	}
	stale := *h.holder
	retake()
	err = (&logHolder{&stale, t, nil}).agree(4, 9,
		agreed{changes: []logRow{{addressLog, 4, 5, 0, nil}}}, 0)
	if !errors.Is(err, errFenced) {
		t.Errorf("who has lost the partition: %v", err)
	}
	want(h.rows(addressLog), "0-1 0 A;1-2 0 B;2-3 0 C;3-4 1 D;")
	merge := []logRow{{log: addressLog, was: 0, seq: 4}, {log: 0, was: 1, seq: 3}}
	if err := h.agree(4, 5, agreed{merge: merge}, 0); err != nil {
		t.Fatal(err)
	}
	want(h.rows(addressLog), "0-3 0 ABC;3-4 1 D;")
	want(h.rows(0), "0-1 0 a;1-3 0 bc;3-4 1 d;")
	if err := h.agree(4, 6, agreed{over: 0, sweep: []int32{0}}, 0); err != nil {
		t.Fatal(err)
	}
	want(h.rows(0)+h.rows(addressLog), "3-4 1 d;0-3 0 ABC;3-4 1 D;")
	if err := h.agree(4, 7, agreed{over: 1, sweep: []int32{addressLog}}, 0); err != nil {
		t.Fatal(err)
	}
	want(h.rows(0)+h.rows(addressLog), "3-4 1 d;")
	var many agreed
	for n := range int64(sweptAtOnce) {
		many.changes = append(many.changes, logRow{0, n + 4, n + 5, 1, []byte{}})
	}
	if err := h.agree(4, 8, many, 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[]", "[0]"} {
		if err := h.agree(4, int64(9+i), agreed{over: 1, sweep: []int32{0}}, 0); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h.swept); got != want {
			t.Errorf("swept are %s, want %s", got, want)
		}
	}
	want(h.rows(0), "")
}

// inTwo is the books of a filter that stores what it remembers and what it has decided one after
// the other, and may die in between.
type inTwo struct {
	*replica
	memoryFirst bool
}

// placeBetween is between the two.
const placeBetween = "between"

func (b inTwo) agree(_ context.Context, keepMS, after int64, decide agreeing) (
	swept []int32, err error,
) {
	var a agreed
	remember := func() error {
		swept = b.write(a)
		return nil
	}
	progress := func() error {
		err := b.moveOn(station{stageFilter, 0}, a.moves)
		if err == nil {
			b.turn(a.drops)
		}
		return err
	}
	first, second := progress, remember
	if b.memoryFirst {
		first, second = remember, progress
	}
	err = b.transaction(func() (err error) {
		a, err = decide(time.Now().UnixMilli()/keepMS, b.end, b.after(addressLog, after))
		if err == nil {
			err = first()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	b.pass(placeBetween)
	err = b.transaction(second)
	return swept, err
}

// tailless is the books of a filter that restores no rows which were not merged.
type tailless struct{ books }

func (b tailless) changes(
	ctx context.Context, log int32, after int64, most int,
) ([]logRow, error) {
	rows, err := b.books.changes(ctx, log, after, most)
	if log != addressLog && len(rows) < most {
		rows = rows[:len(rows)/2]
	}
	return rows, err
}

// alone is the books of a filter that knows only its own addresses.
type alone struct{ books }

func (b alone) changes(
	ctx context.Context, log int32, after int64, most int,
) ([]logRow, error) {
	if log == addressLog {
		return nil, nil
	}
	return b.books.changes(ctx, log, after, most)
}

func (b alone) agree(ctx context.Context, keepMS, after int64, decide agreeing) (
	swept []int32, err error,
) {
	return b.books.agree(ctx, keepMS, after,
		func(stretch, end int64, _ []logRow) (agreed, error) { return decide(stretch, end, nil) })
}

// keepsIn is a filter whose memory is in other books.
func keepsIn(other func(*replica) books) build {
	return build{filter: func(f *filter, st *opened) {
		f.mind = newOwnMemory(other(f.books.(*replica)), st.Params)
	}}
}

// filterDies lets a filter die at a place, and another one come.
func filterDies(place string, n int) func(*bubble, build, []*replica, []*replica) {
	return func(b *bubble, d build, filters, _ []*replica) {
		for _, r := range filters {
			b.Wait(20 * time.Second)
			r.arm(place, n, 0, false)
			b.Wait(20 * time.Second)
			b.start(d, "filter")
		}
	}
}

// memoryMutants are the errors that are planted in a filter's own memory.
func memoryMutants() []mutant {
	list := []mutant{
		{name: "M36 stores its memory before the progress", faults: filterDies(placeBetween, 2),
			plant: keepsIn(func(r *replica) books { return inTwo{r, true} })},
		{name: "M37 stores the progress before its memory", faults: filterDies(placeBetween, 2),
			plant: keepsIn(func(r *replica) books { return inTwo{r, false} })},
		{name: "M38 restores without the tail", faults: filterDies(placeForwarded, 3),
			plant: keepsIn(func(r *replica) books { return tailless{r} })},
		{name: "M39 counts its own addresses alone", faults: nothing,
			params: func(p *Params) { p.Farm, p.EventRate, p.IPViews = 0.8, 1, 2 },
			plant:  keepsIn(func(r *replica) books { return alone{r} })},
	}
	for i := range list {
		list[i].control, list[i].named = inOwnMemory(), ExactCounts
	}
	return list
}
