package sim_test

import (
	"math"
	"testing"
	"time"

	"stampede/harness/sim"
)

// shop is a flash sale: five items of 200 units.
type shop struct {
	pg     *sim.Postgres
	client *sim.Client
	shelf  *sim.Shelf[int]
	items  *sim.Table[int, int] // units that are available
}

const (
	shopItems = 5
	shopUnits = 200
)

func newShop(t testing.TB, s *sim.Sim, m sim.Machine) shop {
	t.Helper()
	c, err := sim.NewCluster(s, m, assumedCosts())
	if err != nil {
		t.Fatal(err)
	}
	d := shop{
		pg: c.Postgres, client: c.Postgres.Client, shelf: sim.NewShelf[int](c.Postgres),
		items: sim.NewTable[int, int](c.Postgres, "items"),
	}
	for item := range shopItems {
		d.items.Load(item, shopUnits)
		for unit := range int64(shopUnits) {
			d.shelf.Put(item, unit)
		}
	}
	return d
}

func assumedCosts() sim.Costs {
	us := sim.Assumed
	return sim.Costs{
		App: map[string]sim.Cost{"postgres": us(60), "redis": us(30), "kafka": us(30)},
		Postgres: map[string]sim.Cost{
			"claim": us(200), "write": us(200), "begin": us(30),
		},
		Redis: map[string]sim.Cost{"turn": us(10), "connection": us(5), "decr": us(1)},
		Kafka: map[string]sim.Cost{
			"request": us(30), "batch": us(10), "record": us(1), "byte": {MeanNS: 1}, "fetch": us(30),
		},
	}
}

// ask is a round trip of a statement within a transaction.
func (d shop) ask(p *sim.Process, statement string) {
	p.Do(d.client.Send(), d.pg.Burn(statement), d.client.Receive())
}

// unitsSkipLocked claims the first unit that nobody has locked, in one statement.
func (d shop) unitsSkipLocked(p *sim.Process, item int) bool {
	p.Do(d.pg.Conn(), d.client.Send(), d.pg.Burn("claim"))
	defer d.pg.Release()
	_, _, ok := d.shelf.Claim(item)
	if ok {
		p.Do(d.pg.Commit())
	}
	p.Do(d.client.Receive())
	return ok
}

// counterRow decrements in a transaction and holds the row's lock to the commit.
func (d shop) counterRow(p *sim.Process, item int) bool {
	p.Do(d.pg.Conn())
	defer d.pg.Release()
	d.ask(p, "begin")
	p.Do(d.client.Send(), d.pg.Burn("write"), d.items.Lock(item))
	left, _ := d.items.Get(item)
	p.Do(d.client.Receive())
	if left <= 0 {
		d.ask(p, "begin") // rollback
		return false
	}
	d.items.Set(item, left-1)
	d.ask(p, "write")
	p.Do(d.client.Send(), d.pg.Burn("begin"), d.pg.Commit(), d.client.Receive())
	return true
}

// open sends n operations at a rate a second and returns how long each took.
func open(
	t testing.TB, s *sim.Sim, rate float64, n int, op func(*sim.Process, int),
) []time.Duration {
	t.Helper()
	took := make([]time.Duration, n)
	gaps := s.Stream("arrivals")
	i := 0
	var next func()
	next = func() {
		me, begun := i, s.Now()
		s.Go(func(p *sim.Process) {
			op(p, me)
			took[me] = p.Now() - begun
		})
		if i++; i < n {
			s.At(s.Now()+gaps.Exp(time.Duration(1e9/rate)), next)
		}
	}
	s.At(0, next)
	if err := s.Run(t.Context(), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	return took
}
