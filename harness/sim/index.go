package sim

import (
	"iter"
	"slices"
)

// Index is a partial index: the committed rows of a table that a condition selects, in an order.
type Index[K comparable, V any] struct {
	where   func(V) bool
	compare func(a, b V) int
	// chunks have the rows, none of them empty, so that an insertion moves few.
	chunks [][]indexed[K, V]
}

type indexed[K comparable, V any] struct {
	key   K
	value V
}

// chunkRows is how many rows a chunk of an index has at most.
const chunkRows = 256

// NewIndex adds an index to an empty table. The order must tell any two rows apart.
func NewIndex[K comparable, V any](
	t *Table[K, V], where func(V) bool, compare func(a, b V) int,
) *Index[K, V] {
	x := &Index[K, V]{where: where, compare: compare}
	t.indexes = append(t.indexes, x)
	return x
}

// All are the rows in their order. Between two of them nothing may be committed: a model that
// waits meanwhile collects them first.
func (x *Index[K, V]) All() iter.Seq2[K, V] { return x.from(0, 0) }

// From are those that are not before a value.
func (x *Index[K, V]) From(v V) iter.Seq2[K, V] { return x.from(x.find(v)) }

func (x *Index[K, V]) from(chunk, i int) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for ; chunk < len(x.chunks); chunk, i = chunk+1, 0 {
			for _, row := range x.chunks[chunk][i:] {
				if !yield(row.key, row.value) {
					return
				}
			}
		}
	}
}

// Len is how many there are.
func (x *Index[K, V]) Len() (n int) {
	for _, c := range x.chunks {
		n += len(c)
	}
	return n
}

// find is the place of the first row that is not before a value.
func (x *Index[K, V]) find(v V) (chunk, i int) {
	before := func(row indexed[K, V], v V) int { return x.compare(row.value, v) }
	chunk, _ = slices.BinarySearchFunc(x.chunks, v, func(c []indexed[K, V], v V) int {
		return before(c[len(c)-1], v)
	})
	if chunk < len(x.chunks) {
		i, _ = slices.BinarySearchFunc(x.chunks[chunk], v, before)
	}
	return chunk, i
}

// change is told of what a row was and is.
func (x *Index[K, V]) change(k K, old V, was bool, now V, is bool) {
	if was && x.where(old) {
		chunk, i := x.find(old)
		if x.chunks[chunk] = slices.Delete(x.chunks[chunk], i, i+1); len(x.chunks[chunk]) == 0 {
			x.chunks = slices.Delete(x.chunks, chunk, chunk+1)
		}
	}
	if !is || !x.where(now) {
		return
	}
	chunk, i := x.find(now)
	if chunk == len(x.chunks) && chunk > 0 { // behind all
		chunk--
		i = len(x.chunks[chunk])
	}
	if chunk == len(x.chunks) {
		x.chunks = [][]indexed[K, V]{nil}
	}
	rows := slices.Insert(x.chunks[chunk], i, indexed[K, V]{k, now})
	x.chunks[chunk] = rows
	if n := len(rows); n > chunkRows {
		half := n / 2
		if i == n-1 { // they come in order: leave the chunk full
			half = n - 1
		}
		x.chunks[chunk] = rows[:half:half]
		x.chunks = slices.Insert(x.chunks, chunk+1, slices.Clone(rows[half:]))
	}
}

// changing is a write of a row that indexes have.
type changing[K comparable, V any] struct {
	table *Table[K, V]
	key   K
	row   *row[V]
}

func (w changing[K, V]) end(committed bool) {
	old, was := w.row.value, w.row.exists
	w.row.end(committed)
	if committed {
		w.table.reindex(w.key, old, was)
	}
}

// reindex tells the indexes what a row was.
func (t *Table[K, V]) reindex(k K, old V, was bool) {
	r := t.rows[k]
	for _, x := range t.indexes {
		x.change(k, old, was, r.value, r.exists)
	}
}
