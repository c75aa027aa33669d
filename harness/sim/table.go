package sim

import (
	"iter"
	"slices"
)

// Table is rows of a Postgres. A row has a committed value and perhaps one that a transaction
// has written: others read the committed one until the commit is on disk.
//
// To write a row a transaction must hold its lock. That is what Postgres does: a second writer
// waits for the first one's end, and then sees the newest committed value. The usual statements:
//
//	SELECT                    v, ok := t.Get(k)
//	SELECT … FOR UPDATE       p.Do(t.Lock(k)); v, ok := t.Get(k)
//	… SKIP LOCKED             if t.TryLock(k) { v, ok := t.Get(k) }
//	UPDATE … WHERE n > 0      if v, ok := t.LockIf(p, k, positive); ok { t.Set(k, …) }
//	INSERT … ON CONFLICT      p.Do(t.Lock(k)); if _, ok := t.Get(k); !ok { t.Set(k, …) }
//
// A row's lock is in the log as a write is: a transaction that only locked rows waits for a flush
// too (heap_lock_tuple). INSERT … ON CONFLICT DO NOTHING locks no row that is there: a transaction
// that does nothing else looks with Get first.
type Table[K comparable, V any] struct {
	set  lockSet
	rows map[K]*row[V]
	keys []K // in the order in which they were first named
	// indexes are told of committed changes.
	indexes []*Index[K, V]
}

// row is a row or, if exists is false, the place of one.
type row[V any] struct {
	lock
	value, pending        V
	exists, pendingExists bool
	dirty                 bool
}

// NewTable returns an empty table.
func NewTable[K comparable, V any](pg *Postgres, name string) *Table[K, V] {
	t := &Table[K, V]{
		set:  lockSet{meter: meter{s: pg.s, name: name + ".rows"}, pg: pg},
		rows: map[K]*row[V]{},
	}
	pg.s.reports = append(pg.s.reports, &t.set)
	return t
}

func (t *Table[K, V]) row(k K) *row[V] {
	r := t.rows[k]
	if r == nil {
		r = &row[V]{lock: lock{set: &t.set, key: k}}
		r.lock.row = &r.exists
		t.rows[k] = r
		t.keys = append(t.keys, k)
	}
	return r
}

// Load puts a committed row in, before the load begins.
func (t *Table[K, V]) Load(k K, v V) {
	r := t.row(k)
	old, was := r.value, r.exists
	r.value, r.exists = v, true
	t.reindex(k, old, was)
}

// Lock is a step that waits for the row's lock, which the transaction keeps to its end. There
// need not be such a row: then it is the place of a unique key.
func (t *Table[K, V]) Lock(k K) Step {
	return Step{of: &t.row(k).lock, in: &t.set.pg.component, harmless: true}
}

// LockIf reads a row that meets a condition before and after it was locked. One that does not meet
// it at first is not locked.
func (t *Table[K, V]) LockIf(p *Process, k K, meets func(V) bool) (v V, ok bool) {
	if v, ok = t.Get(k); !ok || !meets(v) {
		return v, false
	}
	p.Do(t.Lock(k))
	v, ok = t.Get(k)
	return v, ok && meets(v)
}

// TryLock locks the row for the running process's transaction if it can at once, and says
// whether it has it.
func (t *Table[K, V]) TryLock(k K) bool {
	r, own := t.row(k), t.own()
	if own == nil {
		panic(string(misuse("a lock without a connection: Do pg.Conn() first")))
	}
	if r.held {
		return r.owner == own
	}
	t.set.starts++
	r.grant(own)
	return true
}

// Claim is SELECT … LIMIT most FOR UPDATE SKIP LOCKED over the rows of an index: for the running
// process's transaction it locks those that are wanted, as long as they are due. Skipped is how
// many it passed over because other transactions have them.
func (t *Table[K, V]) Claim(
	rows iter.Seq2[K, V], most int, due, wanted func(V) bool,
) (list []V, skipped int) {
	for k, v := range rows {
		if len(list) == most || !due(v) {
			break
		}
		switch {
		case !wanted(v):
		case t.TryLock(k):
			list = append(list, v)
		default:
			skipped++
		}
	}
	return list, skipped
}

// own is the running process's transaction, which begins if there is none; nil if the process
// has no connection.
func (t *Table[K, V]) own() *tx {
	if p := t.set.s.running; p != nil {
		if ss := p.session(t.set.pg); ss != nil {
			return ss.begin()
		}
	}
	return nil
}

// reads says whether the running process sees a row's pending value.
func (t *Table[K, V]) reads(r *row[V]) bool {
	p := t.set.s.running
	if !r.dirty || p == nil {
		return false
	}
	ss := p.session(t.set.pg)
	return ss != nil && ss.tx == r.owner
}

// Get reads a row: the running transaction's own value, or else the newest committed one.
func (t *Table[K, V]) Get(k K) (v V, ok bool) {
	r := t.rows[k]
	switch {
	case r == nil:
		return v, false
	case t.reads(r):
		return r.pending, r.pendingExists
	}
	return r.value, r.exists
}

// Set writes a row. The running process's transaction must have its lock.
func (t *Table[K, V]) Set(k K, v V) { t.write(k, v, true) }

// Delete takes a row away. The running process's transaction must have its lock.
func (t *Table[K, V]) Delete(k K) {
	var none V
	t.write(k, none, false)
}

func (t *Table[K, V]) write(k K, v V, exists bool) {
	r, own := t.row(k), t.own()
	if own == nil || r.owner != own {
		panic("a row is written without its lock: Do its Lock first")
	}
	if !r.dirty {
		r.dirty = true
		if len(t.indexes) == 0 {
			own.writes = append(own.writes, r)
		} else {
			own.writes = append(own.writes, changing[K, V]{t, k, r})
		}
	}
	r.pending, r.pendingExists = v, exists
}

// end makes the pending value the committed one, or forgets it.
func (r *row[V]) end(committed bool) {
	if committed {
		r.value, r.exists = r.pending, r.pendingExists
	}
	var none V
	r.pending, r.dirty = none, false
}

// Keys are the keys of the committed rows, in the order in which they were first named.
func (t *Table[K, V]) Keys() (keys []K) {
	for _, k := range t.keys {
		if t.rows[k].exists {
			keys = append(keys, k)
		}
	}
	return keys
}

// Shelf is rows in order that transactions claim with FOR UPDATE SKIP LOCKED: units of an item,
// messages of a queue. A claim that commits takes the row away, one that is rolled back puts
// it back in its place.
type Shelf[K comparable] struct {
	pg      *Postgres
	shelves map[K]*shelf
}

type shelf struct {
	free    []int64 // ascending
	claimed int     // by transactions that have not ended
}

// NewShelf returns an empty one.
func NewShelf[K comparable](pg *Postgres) *Shelf[K] {
	return &Shelf[K]{pg, map[K]*shelf{}}
}

func (s *Shelf[K]) at(k K) *shelf {
	if s.shelves[k] == nil {
		s.shelves[k] = &shelf{}
	}
	return s.shelves[k]
}

// Put adds a committed row to a key's, before the load begins.
func (s *Shelf[K]) Put(k K, id int64) { s.at(k).add(id) }

// Add adds a row to a key's when the running process's transaction commits.
func (s *Shelf[K]) Add(k K, id int64) {
	t := s.own()
	t.writes = append(t.writes, addition{s.at(k), id})
}

// Claim takes a key's first row that nobody has locked. skipped is how many were passed over,
// because transactions have them that have not ended: their rows may come back.
func (s *Shelf[K]) Claim(k K) (id int64, skipped int, ok bool) {
	t, on := s.own(), s.at(k)
	if len(on.free) == 0 {
		return 0, on.claimed, false
	}
	id, on.free = on.free[0], on.free[1:]
	skipped = on.claimed
	on.claimed++
	t.writes = append(t.writes, claim{on, id})
	return id, skipped, true
}

// Len is how many rows a key has, those that are claimed but not committed as well.
func (s *Shelf[K]) Len(k K) int { return len(s.at(k).free) + s.at(k).claimed }

func (s *Shelf[K]) own() *tx {
	if p := s.pg.s.running; p != nil {
		if ss := p.session(s.pg); ss != nil {
			return ss.begin()
		}
	}
	panic("a claim without a connection: Do pg.Conn() first")
}

func (s *shelf) add(id int64) {
	i, _ := slices.BinarySearch(s.free, id)
	s.free = slices.Insert(s.free, i, id)
}

// addition and claim are writes of a transaction.
type addition struct {
	to *shelf
	id int64
}

func (a addition) end(committed bool) {
	if committed {
		a.to.add(a.id)
	}
}

type claim addition

func (c claim) end(committed bool) {
	c.to.claimed--
	if !committed {
		c.to.add(c.id)
	}
}
