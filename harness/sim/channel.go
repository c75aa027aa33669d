package sim

// Channel is a channel of LISTEN and NOTIFY. Transactions that notify commit one after another, by
// a lock of the whole server.
type Channel[V any] struct {
	pg        *Postgres
	listeners []func(V)
}

// NewChannel returns a channel on which nobody listens.
func NewChannel[V any](pg *Postgres) *Channel[V] { return &Channel[V]{pg: pg} }

// Listen calls heard for each notification from now on, on a connection that takes none of the
// pool's; and began when it is made again after a kill: what was notified meanwhile is lost.
func (c *Channel[V]) Listen(heard func(V), began func()) {
	c.listeners = append(c.listeners, heard)
	c.pg.recovered = append(c.pg.recovered, began)
}

// Notify is a step that notifies when the process's transaction commits, which must be next.
func (c *Channel[V]) Notify(v V) Step {
	pg := c.pg
	in := &pg.component
	return Step{of: instant(func(ch *chain, _ int64) {
		ch.push(Step{of: &pg.notifying, in: in}, Step{of: instant(func(ch *chain, _ int64) {
			if t := pg.txOf(ch); t != nil {
				t.writes = append(t.writes, notification[V]{c, v})
			}
		}), in: in})
	}), in: in}
}

// notification is a write of a transaction: it is sent if that commits.
type notification[V any] struct {
	channel *Channel[V]
	value   V
}

func (n notification[V]) end(committed bool) {
	c := n.channel
	if !committed || c.pg.down {
		return
	}
	for _, heard := range c.listeners {
		c.pg.s.chain(func(err error) {
			if err == nil {
				heard(n.value)
			}
		}, c.pg.Client.Link.Back(c.pg.Client.Bytes))
	}
}
