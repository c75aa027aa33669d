package writeheavy

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sim"
	"stampede/harness/sut"
	"stampede/systems/internal/partitions"
)

// logModel is log_first: the log, and how far materialisers are in it.
type logModel struct {
	*countersModel
	topic *sim.Topic[AddRequest]
	ends  int // partitions
}

// addBytes is the size of an add in the log.
const addBytes = 90

// materialiserConns is design's default.
const materialiserConns = 2

// logs makes the log, the service before it and the materialisers, each with partitions of its own:
// they are not given to another one while theirs is dead.
func (m *countersModel) logs() {
	l := &logModel{m, sim.NewTopic[AddRequest](m.Kafka, topicAdds, m.cfg.Kafka.Partitions),
		m.cfg.Kafka.Partitions}
	for n := range l.ends {
		m.progress.Load(n, 0)
	}
	by := kgo.StickyKeyPartitioner(nil).ForTopic(topicAdds)
	m.shardOf = func(key uint64) int {
		return by.Partition(&kgo.Record{Key: binary.BigEndian.AppendUint64(nil, key)}, l.ends)
	}
	m.serve = func() *modelService { return &modelService{countersModel: m, add: l.appends} }
	m.left, m.more = l.behind, l.audited
	n := max(1, m.cfg.Replicas["materialiser"])
	readers := make([]*sim.Consumer[AddRequest], n)
	for i := range readers {
		var mine []int
		for id := i; id < l.ends; id += n {
			mine = append(mine, id)
		}
		readers[i] = l.topic.Consumer(mine...)
	}
	m.Role("materialiser", n, sut.AfterError, func(r *sim.Replica) []func(*sim.Process) {
		s := &shareModel{l, m.Postgres.OwnConns(r.Name, materialiserConns, min(m.limit, roleLimit)),
			readers[r.Number], map[int]*sharesModel{}, 0}
		if ago, died := r.Died(); died {
			s.rest = max(0, m.p.Session.D()-ago)
		}
		return []func(*sim.Process){s.materialise}
	})
}

// appends is logged.add, of several at the same time.
func (l *logModel) appends(p *sim.Process, list []AddRequest) []error {
	errs := make([]error, len(list))
	_ = p.All(len(list), func(p *sim.Process, i int) {
		errs[i] = p.Within(l.limit, func() {
			p.Do(l.topic.Produce(l.shardOf(list[i].Key), list[i], addBytes))
		})
	})
	return errs
}

// shareModel is a materialiser's process.
type shareModel struct {
	*logModel
	db     *sim.Conns
	reader *sim.Consumer[AddRequest]
	held   map[int]*sharesModel
	rest   time.Duration // until the group has noticed the last crash
}

// sharesModel is a partition in its hands: what was read and is not stored.
type sharesModel struct {
	stored, next int
	adds, dead   []counted
}

// materialise is that of the design.
func (s *shareModel) materialise(p *sim.Process) {
	p.Do(s.Sim.Delay(s.rest))
	for id, at := range s.starts(p) {
		if s.reader.Reads(id) {
			s.held[id] = &sharesModel{stored: at, next: at}
			s.reader.Seek(id, at)
		}
	}
	for stored := p.Now(); ; {
		every := s.p.FlushEvery.D()
		if s.reader.PollWithin(p, min(partitions.PollWait, every), partitions.PollMost) == nil {
			s.reader.Fetched(s.read)
		}
		if p.Now()-stored >= every {
			stored = p.Now()
			s.storeAll(p)
		}
	}
}

func (s *shareModel) read(partition, offset int, a AddRequest) {
	h, c := s.held[partition], counted{AddRequest: a, shard: partition, pos: int64(offset) + 1}
	h.next = offset + 1
	if sound(a.Delta) {
		h.adds = append(h.adds, c)
	} else {
		h.dead = append(h.dead, c)
	}
}

// starts is partitions.Starts.
func (s *shareModel) starts(p *sim.Process) (at []int) {
	s.db.Exec(p, costStarts, func() {
		for n := range s.ends {
			next, _ := s.progress.Get(n)
			at = append(at, int(next))
		}
	})
	return at
}

// storeAll is the same of partitions.Reader.
func (s *shareModel) storeAll(p *sim.Process) {
	for id, at := range s.starts(p) {
		h := s.held[id]
		if h == nil || h.next == h.stored && at == h.stored {
			continue
		}
		if at != h.stored || !s.store(p, id, h) {
			p.Fail(partitions.ErrMoved)
		}
		*h = sharesModel{stored: h.next, next: h.next}
	}
}

// store is share.Store.
func (s *shareModel) store(p *sim.Process, id int, h *sharesModel) (is bool) {
	p.Passed(placeRead)
	_ = s.db.Transaction(p, func() error {
		s.db.Query(p, costMove, func() {
			_, is = s.progress.LockIf(p, id, func(at int64) bool { return at == int64(h.stored) })
			if is {
				s.progress.Set(id, int64(h.next))
			}
		})
		if !is {
			return partitions.ErrMoved
		}
		for _, c := range h.dead {
			s.db.Query(p, costBury, func() { s.bury(p, c.AddRequest, 1) })
		}
		if len(h.adds) > 0 {
			s.db.QueryTimes(p, costApply, float64(len(h.adds)), func() { s.apply(p, 1, h.adds) })
		}
		return nil
	})
	if is {
		p.Passed(placeStored)
	}
	return is
}

// behind is how many adds of the log are not counted.
func (l *logModel) behind() (left int64, what string) {
	for n := range l.ends {
		at, _ := l.progress.Get(n)
		left += int64(len(l.topic.Records(n))) - at
	}
	return left, fmt.Sprintf("%d adds of the log are not counted", left)
}

// audited adds the log.
func (l *logModel) audited(a *Audit) {
	a.Contract, a.Log = Contract{AsOf: true, Attempts: 1}, []LogRow{}
	for n := range l.ends {
		for _, req := range l.topic.Records(n) {
			a.Log = append(a.Log, LogRow{req.ID, req.Key, req.Delta})
		}
	}
}
