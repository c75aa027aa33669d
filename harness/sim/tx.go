package sim

// tx is a transaction.
type tx struct {
	pg      *Postgres
	session *session
	place   int // in pg.open
	locks   []*lock
	waits   *lock
	writes  []write
	logged  bool // it has locked a row, which is in the log
	ended   bool
}

// write is something that a transaction has written and that becomes visible, or not, when it
// ends.
type write interface{ end(committed bool) }

// begin is the session's transaction.
func (ss *session) begin() *tx {
	if ss.tx == nil {
		ss.tx = &tx{pg: ss.pg, session: ss, place: len(ss.pg.open)}
		ss.pg.open = append(ss.pg.open, ss.tx)
	}
	return ss.tx
}

// end makes what was written visible, or forgets it, and releases the locks.
func (t *tx) end(committed bool) {
	if t.ended {
		return
	}
	t.ended = true
	open := t.pg.open
	last := open[len(open)-1]
	open[t.place], last.place = last, t.place
	open[len(open)-1] = nil
	t.pg.open = open[:len(open)-1]
	for _, w := range t.writes {
		w.end(committed)
	}
	for _, l := range t.locks {
		l.put()
	}
}

// rollback ends a transaction that was not committed, and the session's next lock or write
// begins another.
func (t *tx) rollback() {
	if t.session.tx == t {
		t.session.tx = nil
	}
	t.end(false)
}

// waitsForItself follows the locks that transactions wait for. A cycle of others, that this
// one does not belong to, is theirs to find.
func (t *tx) waitsForItself() bool {
	l := t.waits
	for range t.pg.open {
		if l == nil || l.owner == nil {
			return false
		}
		if l.owner == t {
			return true
		}
		l = l.owner.waits
	}
	return false
}
