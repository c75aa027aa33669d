package sim

import (
	"slices"
	"time"
)

// Postgres is a server with a connection pool before it. An operation takes a connection,
// sends statements that need CPU, takes row locks of Tables, commits through the log, and
// releases the connection:
//
//	p.Do(pg.Conn(), pg.Client.Send(), pg.Burn("claim"))
//	defer pg.Release()
//
// A transaction begins with the first lock or write on a connection. Its isolation is READ
// COMMITTED: readers see the newest committed rows and their own writes. It ends with Commit,
// or is rolled back by Rollback, Release, a deadlock or a kill.
type Postgres struct {
	component
	// Client is the application's side.
	Client   *Client
	cpu      *CPU
	conns    *Pool
	own      map[string]*Conns
	log      *Log
	demands  demands
	recovery time.Duration
	coin     *Stream
	open     []*tx // in the order of their beginnings, gaps closed by the last
	// Steps that are made once.
	connect, connectAlone, execute instant
	// notifying is held by transactions that notify, and recovered is called after a restart.
	notifying lock
	recovered []func()
}

func newPostgres(s *Sim, m Machine, cpu *CPU, costs map[string]Cost) *Postgres {
	pg := &Postgres{
		component: component{s: s, name: "postgres"}, cpu: cpu,
		conns:   NewPool(s, "postgres.connections", m.Postgres.Connections),
		own:     map[string]*Conns{},
		demands: s.demands("postgres", costs), coin: s.Stream("postgres.kill"),
		recovery: m.Postgres.Recovery.D(),
	}
	fsync := s.demands("postgres", map[string]Cost{
		"fsync": {MeanNS: float64(m.Postgres.Fsync), CV: m.Postgres.FsyncCV},
	}).of["fsync"]
	pg.log = NewLog(s, "postgres.log", func(int) time.Duration { return fsync.draw(1) })
	pg.log.in = &pg.component
	in := &pg.component
	pg.connectAlone = func(c *chain, _ int64) { pg.connected(c, nil) }
	pg.connect = pg.connecting(pg.conns)
	notifying := &lockSet{meter: meter{s: s, name: "postgres.notifications"}, pg: pg}
	pg.notifying = lock{set: notifying, key: "commits that notify"}
	s.reports = append(s.reports, notifying)
	pg.execute = func(c *chain, d int64) {
		if pg.alive(c) != nil {
			c.push(Step{of: pg.cpu, n: d, in: in})
		}
	}
	return pg
}

// session is a connection that a process has.
type session struct {
	pg      *Postgres
	process *Process
	life    int64 // of the server
	pool    *Pool // whose it is, if it is of one
	tx      *tx
}

// session is the process's connection to a server, or nil.
func (p *Process) session(pg *Postgres) *session {
	for _, ss := range p.sessions {
		if ss.pg == pg {
			return ss
		}
	}
	return nil
}

// end closes the session: an open transaction is rolled back.
func (ss *session) end() {
	p := ss.process
	for i, have := range p.sessions {
		if have == ss {
			p.sessions = append(p.sessions[:i], p.sessions[i+1:]...)
			break
		}
	}
	if ss.tx != nil {
		ss.tx.rollback()
	}
	if ss.pool != nil {
		ss.pool.Put()
	}
}

func (ss *session) release() { ss.end() }

// Conn is a step that waits for a connection of the pool. The process has at most one of a
// server. If a later step of the same Do fails the connection is released; afterwards that is
// for the caller to do.
func (pg *Postgres) Conn() Step { return Step{of: pg.connect, in: &pg.component} }

// OwnConn is Conn for a process that has a connection of its own, such as a role: it waits for
// none of the pool.
func (pg *Postgres) OwnConn() Step { return Step{of: pg.connectAlone, in: &pg.component} }

// connecting is what connects through a pool.
func (pg *Postgres) connecting(pool *Pool) instant {
	in := &pg.component
	connected := instant(func(c *chain, _ int64) { pg.connected(c, pool) })
	return func(c *chain, _ int64) {
		c.push(Step{of: pool, in: in, harmless: true}, Step{of: connected, in: in})
	}
}

// connected makes a session of a connection that was got from a pool, or is none of one.
func (pg *Postgres) connected(c *chain, pool *Pool) {
	p := c.process
	if p.session(pg) != nil {
		c.err = misuse("a process has two connections of one server")
		return
	}
	ss := &session{pg: pg, process: p, life: pg.life, pool: pool}
	p.sessions = append(p.sessions, ss)
	if pool == nil {
		c.acquired = append(c.acquired, ss)
	} else {
		c.acquired[len(c.acquired)-1] = ss
	}
}

// Release gives the running process's connection back. What is not committed is rolled back.
// Without a connection it does nothing.
func (pg *Postgres) Release() {
	if p := pg.s.running; p != nil {
		if ss := p.session(pg); ss != nil {
			ss.end()
		}
	}
}

// Burn is a step: the server works on a statement, by the name of its cost.
func (pg *Postgres) Burn(statement string) Step { return pg.BurnTimes(statement, 1) }

// BurnTimes is Burn with a multiple of the mean, such as the number of rows.
func (pg *Postgres) BurnTimes(statement string, n float64) Step {
	return Step{of: pg.execute, n: int64(pg.demands.draw(statement, n)), in: &pg.component}
}

// alive is the session of a chain's process. If the server has died since it was opened the
// chain fails: what was sent on it is unknown.
func (pg *Postgres) alive(c *chain) *session {
	ss := c.process.session(pg)
	switch {
	case ss == nil:
		c.err = misuse("a statement without a connection: Do pg.Conn() first")
	case ss.life != pg.life:
		c.err = ErrLost
	default:
		return ss
	}
	return nil
}

// txOf is the transaction of a chain's process, which begins if there is none. If it is nil,
// the chain has failed.
func (pg *Postgres) txOf(c *chain) *tx {
	ss := pg.alive(c)
	if ss == nil {
		return nil
	}
	return ss.begin()
}

// Commit is a step that ends the transaction. It is done when the log is on disk; until then
// nobody sees what was written, and locks are held. A transaction that wrote nothing and locked
// no row needs no log. If the process is unwound meanwhile the commit happens all the same.
func (pg *Postgres) Commit() Step { return Step{of: (*committing)(pg), in: &pg.component} }

type committing Postgres

func (w *committing) start(c *chain, _ int64) bool {
	ss := (*Postgres)(w).alive(c)
	if ss == nil || ss.tx == nil {
		return true
	}
	t := ss.tx
	ss.tx = nil
	if len(t.writes) == 0 && !t.logged {
		t.end(true)
		return true
	}
	if len(t.writes) > 0 {
		c.acts()
	}
	w.log.add(entry{c, t})
	return false
}

func (*committing) abandon(*chain) {}

// Rollback rolls the running process's transaction back, if it has one.
func (pg *Postgres) Rollback() {
	if p := pg.s.running; p != nil {
		if ss := p.session(pg); ss != nil && ss.tx != nil {
			ss.tx.rollback()
		}
	}
}

// Kill ends the server at once: transactions are rolled back, except those whose flush was
// under way, which may have happened. Who waited for it gets ErrLost, who comes until it has
// restarted ErrUnreachable.
func (pg *Postgres) Kill() {
	if pg.down {
		return
	}
	for _, c := range slices.Clone(pg.inside) {
		if _, is := c.at.of.(*Pool); is {
			c.fail(ErrUnreachable) // it had not begun
		}
	}
	pg.die()
	flushing, coming := pg.log.reset()
	happened := pg.coin.Float64() < 0.5
	for _, e := range flushing {
		e.tx.end(happened)
	}
	for _, e := range coming {
		e.tx.end(false)
	}
	for len(pg.open) > 0 {
		pg.open[len(pg.open)-1].rollback()
	}
}

// Restart starts the server after a Kill. It takes connections once it has recovered.
func (pg *Postgres) Restart() { pg.restartAfter(pg.recovery, pg.recovered...) }
