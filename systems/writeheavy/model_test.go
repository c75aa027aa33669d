package writeheavy_test

import (
	"context"
	"errors"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

const ms = time.Millisecond

// counters are the smallest correct ones: a map, and what was asked for in order. Those with a log
// acknowledge what cannot be made, and their reads have positions.
type counters struct {
	api    *api.Table[writeheavy.Counters]
	log    bool
	made   map[uint64]bool
	values map[uint64]int64
	pos    int64
	audit  writeheavy.Audit
	// Those without a log have one range of keys, which moves. Step is how many adds come between
	// two changes.
	step               int
	owner, twin, epoch int64
}

func newCounters(log bool, step int) *counters {
	c := &counters{api: writeheavy.API(), log: log, made: map[uint64]bool{},
		values: map[uint64]int64{}, step: step, owner: 1, epoch: 1}
	c.audit = writeheavy.Audit{Ops: []writeheavy.OpRow{}, Dead: []writeheavy.DeadRow{},
		Counters: []writeheavy.CounterRow{}, Batches: []writeheavy.BatchRow{}}
	c.audit.Contract = writeheavy.Contract{AsOf: log, Attempts: 3}
	if c.audit.Contract.Moves = !log; !log {
		c.audit.Contract.Bursts = []int64{0, 0, 0}
	}
	if log {
		c.audit.Log, c.audit.Partials = []writeheavy.LogRow{}, []writeheavy.PartialRow{}
	}
	return c
}

// countersIn are counters with a log for every other seed.
func countersIn(w *suttest.World, _ *writeheavy.Params) *counters {
	return newCounters(w.Seed%2 == 0, 10)
}

// Do performs an operation.
func (c *counters) Do(op history.Op, answer func(history.Reply, error)) {
	answer(c.api.Do(context.Background(), c, op))
}

// decide sheds some of the least important adds of counters without a log.
func (c *counters) decide(req writeheavy.AddRequest) error {
	d := writeheavy.Decision{ID: req.ID, Class: req.Class, Result: writeheavy.DecisionTaken}
	shed := req.Class == writeheavy.ClassLow && req.ID>>10%4 == 3
	if shed {
		d.Result = writeheavy.DecisionRefused
	}
	c.audit.Decisions = append(c.audit.Decisions, d)
	if shed {
		return writeheavy.ErrShed
	}
	return nil
}

// Add makes an add, once.
func (c *counters) Add(_ context.Context, req writeheavy.AddRequest) (none api.Nothing, err error) {
	if !c.log {
		if err := c.decide(req); err != nil {
			return none, err
		}
	}
	if c.log {
		c.audit.Log = append(c.audit.Log, writeheavy.LogRow{ID: req.ID, Key: req.Key, Delta: req.Delta})
	}
	first := !c.made[req.ID]
	c.made[req.ID] = true
	if req.Delta == 0 || max(req.Delta, -req.Delta) > writeheavy.MostDelta {
		if first {
			c.audit.Dead = append(c.audit.Dead, writeheavy.DeadRow{ID: req.ID, Key: req.Key,
				User: req.User, Delta: req.Delta, Tries: 3})
		}
		if !c.log {
			err = writeheavy.ErrRejected
		}
		return none, err
	}
	if !first {
		return none, nil
	}
	row := writeheavy.OpRow{ID: req.ID, Key: req.Key, User: req.User, Delta: req.Delta}
	if c.log {
		c.pos++
		row.Pos = c.pos
		c.audit.Partials = append(c.audit.Partials, writeheavy.PartialRow{Node: "edge", Epoch: "e",
			Seq: c.pos, Key: req.Key, Sum: req.Delta, Pos: c.pos})
	} else {
		c.place(req.ID, req.Key, req.Delta)
	}
	c.audit.Ops = append(c.audit.Ops, row)
	c.audit.Batches = append(c.audit.Batches, writeheavy.BatchRow{Records: 1})
	c.values[req.Key] += req.Delta
	return none, nil
}

// place puts an add where its range is: at first in map 1, then in both, in map 2 with what was
// there before, in map 1 again, and in map 2.
func (c *counters) place(id, key uint64, delta int64) {
	switch len(c.audit.Ops) {
	case c.step:
		c.twin = 2
	case 3 * c.step:
		for _, p := range c.audit.Placed[:c.step] {
			p.Map, p.Came, p.In = 2, "copy", 0
			c.audit.Placed = append(c.audit.Placed, p)
		}
		c.handOver()
	case 5 * c.step, 7 * c.step:
		c.handOver()
	}
	p := writeheavy.Placed{Map: c.owner, Range: 1, ID: id, Key: key, Delta: delta, Epoch: c.epoch,
		In: c.epoch, Came: "owner"}
	c.audit.Placed = append(c.audit.Placed, p)
	if c.twin > 0 {
		p.Map, p.Came, p.In = c.twin, "twin", max(0, c.epoch-1)
		c.audit.Placed = append(c.audit.Placed, p)
	}
}

// handOver makes the twin the owner.
func (c *counters) handOver() {
	c.epoch++
	c.owner, c.twin = c.twin, c.owner
	c.audit.Turned++
	c.audit.Handovers = append(c.audit.Handovers, writeheavy.Handover{Range: 1, Epoch: c.epoch,
		Source: c.twin, Target: c.owner, Paused: 3})
}

// Batch makes each add.
func (c *counters) Batch(ctx context.Context, req writeheavy.BatchRequest) (
	reply writeheavy.BatchReply, err error,
) {
	for _, r := range req.Records {
		_, err := c.Add(ctx, writeheavy.AddRequest{ID: r.ID, Key: r.Key, User: r.User, Delta: r.Delta,
			Class: r.Class})
		result := writeheavy.Result{ID: r.ID, Result: writeheavy.ResultOK}
		if errors.Is(err, sut.ErrRefused) {
			result.Result = sut.Code(err)
		}
		reply.Results = append(reply.Results, result)
	}
	return reply, nil
}

// Read reads a counter.
func (c *counters) Read(_ context.Context, req writeheavy.ReadRequest) (writeheavy.Value, error) {
	return writeheavy.Value{Key: req.Key, Value: c.values[req.Key], AsOf: c.pos}, nil
}

// Audit adds up what was made.
func (c *counters) Audit() writeheavy.Audit {
	for key, value := range c.values {
		c.audit.Counters = append(c.audit.Counters, writeheavy.CounterRow{Key: key, Value: value})
	}
	type side struct {
		at  int64
		key uint64
	}
	sums := map[side]int64{}
	for _, p := range c.audit.Placed {
		sums[side{p.Map, p.Key}] += p.Delta
	}
	for s, sum := range sums {
		c.audit.Sides = append(c.audit.Sides, writeheavy.Side{Map: s.at, Range: 1, Key: s.key,
			Value: sum})
	}
	return c.audit
}

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[writeheavy.Params, writeheavy.Audit]
}

// street is of ordinary size.
func street() *writeheavy.Params {
	p := crowd()
	p.Keys, p.Batches, p.Poison, p.Reads, p.Resend = 6, 0.2, 0.1, 0.6, 0.3
	return p
}

// anyStreet is a small one of any kind.
func anyStreet(d suttest.Draw) *writeheavy.Params {
	p := street()
	p.Keys, p.Users = d.Int("keys", 1, 50), d.Int("users", 1, 50)
	p.Records, p.Readers = d.Int("records", 1, 20), d.Int("readers", 1, 5)
	p.Down, p.Poison, p.Batches = d.Share("down"), d.Share("poison"), d.Share("batches")
	p.Reads, p.Resend, p.Retry = d.Share("reads"), d.Share("resend"), d.Int("retry", 1, 5)
	return p
}
