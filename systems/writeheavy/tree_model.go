package writeheavy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"stampede/harness/sim"
	"stampede/harness/sut"
)

// treeModel is the tree: its inboxes in Redis, and the sums that the root has applied.
type treeModel struct {
	*countersModel
	once     bool // the middle takes a partial sum in if it is new
	seen     *sim.Map[string, int64]
	adds     *sim.Map[uint64, sentBy]
	inboxes  *sim.Map[string, []partialModel]
	taken    *sim.Map[string, int64]
	partials *sim.Table[partialKey, partialRow]
	epochs   int
}

// sentBy is with which partial sum an add came.
type sentBy struct {
	epoch string
	seq   int64
}

// partialModel is partial.
type partialModel struct {
	node string
	sentBy
	sums []sumModel
}

type sumModel struct {
	key     uint64
	sum     int64
	members []member
}

// partialKey is the primary key of partials.
type partialKey struct {
	node string
	sentBy
	key uint64
}

type partialRow struct {
	sum, pos int64
	members  []member
}

// reduces makes the inboxes, the edges, the middle and the root.
func (m *countersModel) reduces(once bool) {
	r := m.Redis
	t := &treeModel{countersModel: m, once: once, seen: sim.NewMap[string, int64](r),
		adds:    sim.NewMap[uint64, sentBy](r),
		inboxes: sim.NewMap[string, []partialModel](r), taken: sim.NewMap[string, int64](r),
		partials: sim.NewTable[partialKey, partialRow](m.Postgres, "partials")}
	m.progress.Load(0, 0)
	m.shardOf = func(uint64) int { return 0 }
	m.left, m.more = t.onTheWay, t.audited
	m.serve = func() *modelService {
		t.epochs++
		e := &edgeModel{treeModel: t, epoch: fmt.Sprint("epoch-", t.epochs)}
		return &modelService{m, e.count, []func(*sim.Process){e.run}, e.waiting}
	}
	m.Role("middle", 1, sut.AfterError, sim.Only(func(p *sim.Process) {
		for {
			t.addUp(p)
			p.Do(m.Sim.Delay(m.p.MiddleWindow.D()))
		}
	}))
	db := m.Postgres.OwnConns("root", 2, min(m.limit, roleLimit))
	m.Role("root", 1, sut.AfterError, sim.Only(func(p *sim.Process) {
		for {
			t.applySums(p, db)
			p.Do(m.Sim.Delay(m.p.RootWindow.D()))
		}
	}))
}

// edgeModel is edge.
type edgeModel struct {
	*treeModel
	epoch      string
	seq        int64
	open, shut []AddRequest
}

// count is edge.count.
func (e *edgeModel) count(p *sim.Process, list []AddRequest) []error {
	p.Do(e.App.BurnTimes(costCount, float64(len(list))))
	errs := make([]error, len(list))
	for i, req := range list {
		switch {
		case !sound(req.Delta):
			errs[i] = ErrRejected
		case len(e.open)+len(e.shut) >= e.p.WindowMost:
			errs[i] = ErrShed
		default:
			e.open = append(e.open, req)
		}
	}
	return errs
}

func (e *edgeModel) run(p *sim.Process) {
	for {
		p.Do(e.Sim.Delay(e.p.EdgeWindow.D()))
		e.flush(p)
	}
}

// flush is edge.flush and edge.send.
func (e *edgeModel) flush(p *sim.Process) {
	if len(e.shut) == 0 {
		e.shut, e.open = e.open, nil
		slices.SortStableFunc(e.shut, func(a, b AddRequest) int { return cmp.Compare(a.Key, b.Key) })
	}
	for len(e.shut) > 0 {
		part := e.shut[:min(len(e.shut), mostSent)]
		p.Passed(placeCollected)
		failed := p.Try(func() {
			e.ask(p, func() { e.take(sentBy{e.epoch, e.seq + 1}, part) },
				sim.Times{costTake: float64(len(part)), costInbox: 1})
		})
		p.Passed(placeSent)
		if failed != nil {
			return // it is sent again
		}
		e.seq, e.shut = e.seq+1, e.shut[len(part):]
	}
}

func (e *edgeModel) waiting() (left int64, what string) {
	left = int64(len(e.open) + len(e.shut))
	return left, fmt.Sprintf("%d adds are in windows that are not sent", left)
}

// ask executes commands or a script in Redis.
func (t *treeModel) ask(p *sim.Process, effect func(), commands sim.Times) {
	ask := func() {
		p.Do(t.Redis.Client.Send(), t.Redis.ExecuteTimes(effect, commands), t.Redis.Client.Receive())
	}
	if err := p.Within(min(t.limit, roleLimit), ask); err != nil {
		p.Fail(err)
	}
}

// take is luaTake, after luaOnce in a design that takes a partial sum in once.
func (t *treeModel) take(mine sentBy, list []AddRequest) {
	if t.once {
		if last, _ := t.seen.Get(mine.epoch); mine.seq <= last {
			return
		}
		t.seen.Set(mine.epoch, mine.seq)
	}
	all, here := partialModel{node: "edge", sentBy: mine}, map[uint64]bool{}
	for _, a := range list {
		by, again := t.adds.Get(a.ID)
		if !again {
			t.adds.Set(a.ID, mine)
		}
		if again && by != mine || here[a.ID] {
			continue
		}
		here[a.ID] = true
		if n := len(all.sums); n == 0 || all.sums[n-1].key != a.Key {
			all.sums = append(all.sums, sumModel{key: a.Key})
		}
		last := &all.sums[len(all.sums)-1]
		last.sum, last.members = last.sum+a.Delta, append(last.members, member{a.ID, a.Delta})
	}
	t.push(inboxMiddle, all)
}

func (t *treeModel) push(inbox string, one partialModel) {
	list, _ := t.inboxes.Get(inbox)
	t.inboxes.Set(inbox, append(slices.Clip(list), one))
}

// look is the same of the design.
func (t *treeModel) look(p *sim.Process, inbox string) (list []partialModel, taken int64) {
	t.ask(p, func() {
		list, _ = t.inboxes.Get(inbox)
		list = list[:min(len(list), mostPartials)]
		taken, _ = t.taken.Get(inbox)
	}, sim.Times{costInbox: 2})
	return list, taken
}

// move is luaMove.
func (t *treeModel) move(
	p *sim.Process, inbox string, taken int64, n int, sent ...partialModel,
) {
	t.ask(p, func() {
		if now, _ := t.taken.Get(inbox); now != taken {
			return
		}
		t.taken.Set(inbox, taken+int64(n))
		list, _ := t.inboxes.Get(inbox)
		t.inboxes.Set(inbox, list[min(n, len(list)):])
		for _, one := range sent {
			t.push(inboxRoot, one)
		}
	}, sim.Times{costInbox: 2})
}

// addUp is the same of the design.
func (t *treeModel) addUp(p *sim.Process) {
	list, taken := t.look(p, inboxMiddle)
	if len(list) == 0 {
		return
	}
	byKey := map[uint64]sumModel{}
	for _, one := range list {
		for _, s := range one.sums {
			all := byKey[s.key]
			byKey[s.key] = sumModel{s.key, all.sum + s.sum, append(all.members, s.members...)}
		}
	}
	all := partialModel{node: "middle", sentBy: sentBy{"0", taken}}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all.sums = append(all.sums, byKey[key])
	}
	p.Do(t.App.BurnTimes(costCount, float64(len(all.sums))))
	p.Passed(placeAdded)
	if len(all.sums) == 0 {
		t.move(p, inboxMiddle, taken, len(list))
		return
	}
	t.move(p, inboxMiddle, taken, len(list), all)
}

// applySums is the same of the design.
func (t *treeModel) applySums(p *sim.Process, db *sim.Conns) {
	list, taken := t.look(p, inboxRoot)
	if len(list) == 0 {
		return
	}
	sums := 0
	for _, one := range list {
		sums += len(one.sums)
	}
	db.ExecTimes(p, costRound, float64(sums), func() { t.round(p, list) })
	p.Passed(placeRoot)
	t.move(p, inboxRoot, taken, len(list))
}

// round is sqlRound.
func (t *treeModel) round(p *sim.Process, list []partialModel) {
	p.Do(t.progress.Lock(0))
	pos, _ := t.progress.Get(0)
	pos++
	t.progress.Set(0, pos)
	fresh := map[uint64]int64{}
	for _, one := range list {
		for _, s := range one.sums {
			key := partialKey{one.node, one.sentBy, s.key}
			p.Do(t.partials.Lock(key))
			if _, again := t.partials.Get(key); !again {
				t.partials.Set(key, partialRow{s.sum, pos, s.members})
				fresh[s.key] += s.sum
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fresh)) {
		t.plus(p, part{key, 1, 0}, fresh[key])
	}
}

// onTheWay counts the partial sums in inboxes.
func (t *treeModel) onTheWay() (left int64, what string) {
	for _, inbox := range []string{inboxMiddle, inboxRoot} {
		list, _ := t.inboxes.Get(inbox)
		left += int64(len(list))
	}
	return left, fmt.Sprintf("%d partial sums are not applied", left)
}

// audited is readTree.
func (t *treeModel) audited(a *Audit) {
	a.Contract = Contract{Accepted: int64(t.p.WindowMost), AsOf: true}
	a.Log, a.Partials = []LogRow{}, []PartialRow{}
	add := func(key uint64, members []member, pos int64) {
		for _, m := range members {
			a.Log = append(a.Log, LogRow{m.id, key, m.delta})
			if pos > 0 {
				a.Ops = append(a.Ops, OpRow{ID: m.id, Key: key, Delta: m.delta, Pos: pos})
			}
		}
	}
	for _, k := range t.partials.Keys() {
		row, _ := t.partials.Get(k)
		a.Partials = append(a.Partials, PartialRow{k.node, k.epoch, k.seq, k.key, row.sum, row.pos})
		add(k.key, row.members, row.pos)
	}
	for _, inbox := range []string{inboxMiddle, inboxRoot} {
		list, _ := t.inboxes.Get(inbox)
		for _, one := range list {
			for _, s := range one.sums {
				add(s.key, s.members, 0)
			}
		}
	}
}
