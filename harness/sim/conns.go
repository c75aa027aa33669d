package sim

import "time"

// Begin is the name of what a BEGIN, a COMMIT or a ROLLBACK costs.
const Begin = "begin"

// Conns is a pool of connections to a Postgres, and what a process does on one of them.
type Conns struct {
	// Timeout, if not 0, bounds a statement or a transaction; the process is then unwound as by a
	// lost answer. Operations are bounded by the load.
	Timeout time.Duration

	pg      *Postgres
	connect instant
}

// Conns is the application's pool.
func (pg *Postgres) Conns() *Conns { return &Conns{pg: pg, connect: pg.connect} }

// OwnConns returns a pool of n connections for another process, such as a role: always the same one
// of a name, whichever life of the process asks.
func (pg *Postgres) OwnConns(name string, n int, timeout time.Duration) *Conns {
	if pg.own[name] == nil {
		pool := NewPool(pg.s, "postgres.connections."+name, n)
		pg.own[name] = &Conns{Timeout: timeout, pg: pg, connect: pg.connecting(pool)}
	}
	return pg.own[name]
}

// Exec is a transaction of one statement, by the name of its cost. What it does to rows do does.
func (c *Conns) Exec(p *Process, statement string, do func()) { c.ExecTimes(p, statement, 1, do) }

// ExecTimes is Exec with a multiple of the mean, such as the number of rows.
func (c *Conns) ExecTimes(p *Process, statement string, n float64, do func()) {
	c.bounded(p, func() {
		p.Do(c.conn(), c.pg.Client.Send(), c.pg.BurnTimes(statement, n))
		defer c.pg.Release()
		do()
		p.Do(c.pg.Commit(), c.pg.Client.Receive())
	})
}

// Transaction is a transaction of several statements, which do sends with Query. It is rolled back
// if do returns an error, which Transaction returns.
func (c *Conns) Transaction(p *Process, do func() error) (err error) {
	pg := c.pg
	c.bounded(p, func() {
		p.Do(c.conn(), pg.Client.Send(), pg.Burn(Begin), pg.Client.Receive())
		defer pg.Release()
		err = do()
		p.Do(pg.Client.Send(), pg.Burn(Begin))
		if err == nil {
			p.Do(pg.Commit())
		} else {
			pg.Rollback()
		}
		p.Do(pg.Client.Receive())
	})
	return err
}

// Query is a statement of a transaction.
func (c *Conns) Query(p *Process, statement string, do func()) { c.QueryTimes(p, statement, 1, do) }

// QueryTimes is Query with a multiple of the mean, such as the number of rows.
func (c *Conns) QueryTimes(p *Process, statement string, n float64, do func()) {
	p.Do(c.pg.Client.Send(), c.pg.BurnTimes(statement, n))
	do()
	p.Do(c.pg.Client.Receive())
}

func (c *Conns) conn() Step { return Step{of: c.connect, in: &c.pg.component} }

func (c *Conns) bounded(p *Process, f func()) {
	if c.Timeout == 0 {
		f()
	} else if err := p.Within(c.Timeout, f); err != nil {
		p.Fail(err)
	}
}
