package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// Brokers is a Kafka cluster of several brokers as one component. What is done
// to it is done to all of them at once.
type Brokers struct {
	Kafka
	members []env.Breakable
}

var (
	_ env.Breakable = (*Brokers)(nil)
	_ env.Reachable = (*Brokers)(nil)
	_ env.Clustered = (*Brokers)(nil)
)

// KafkaAt administers broker number node, from 1, of a cluster of that many
// which stampede started, at an address that is asked for at each call. Where
// there is one broker, it is the cluster.
func KafkaAt(addr func() string, node, brokers int) Kafka {
	k := Kafka{Brokers: func() []string { return []string{addr()} }, Node: node,
		Replicas: brokers, Probe: ProbeTopic}
	if brokers == 1 {
		k.Node = 0
	}
	return k
}

// AddBrokers takes the brokers of a cluster in the order of their numbers.
// Several are a component each, and one together.
func (s *Stores) AddBrokers(members []env.Breakable) {
	all := Kafka{Replicas: len(members), Probe: ProbeTopic, Brokers: func() []string {
		var list []string
		for _, m := range members {
			list = append(list, m.Addr())
		}
		return list
	}}
	s.Kafka = &all
	for _, m := range members {
		s.components = append(s.components, m)
	}
	if len(members) > 1 {
		s.components = append(s.components, &Brokers{Kafka: all, members: members})
	}
}

// CheckKafka refuses settings of the scenario that a broker does not know,
// which Kafka itself only mentions in its log.
func (s *Stores) CheckKafka(ctx context.Context, settings sut.KafkaSettings) error {
	if s.Kafka == nil || len(settings.Settings) == 0 {
		return nil
	}
	var names []string
	for name := range settings.Settings {
		names = append(names, name)
	}
	_, err := s.Kafka.Info(ctx, names)
	return err
}

// Service implements env.Component.
func (b *Brokers) Service() sut.Service { return sut.Kafka }

// Addr implements env.Component by the first broker's address.
func (b *Brokers) Addr() string { return b.members[0].Addr() }

// Members implements env.Clustered.
func (b *Brokers) Members() []env.Component {
	var list []env.Component
	for _, m := range b.members {
		list = append(list, m)
	}
	return list
}

// Info implements env.Component: what the first broker says of itself.
func (b *Brokers) Info(ctx context.Context) (env.Info, error) { return b.members[0].Info(ctx) }

// Identity implements env.Component by those of the brokers.
func (b *Brokers) Identity(ctx context.Context) (string, error) {
	ids, errs := make([]string, len(b.members)), make([]error, len(b.members))
	for i, m := range b.members {
		ids[i], errs[i] = m.Identity(ctx)
	}
	return strings.Join(ids, env.IdentitySeparator), errors.Join(errs...)
}

// LogTail implements env.Component: the last lines of the brokers together.
func (b *Brokers) LogTail(lines int) string {
	each := max(1, lines/len(b.members))
	var tails []string
	for _, m := range b.members[:min(lines, len(b.members))] {
		tails = append(tails, m.LogTail(each))
	}
	return strings.Join(tails, "\n")
}

// each does something to every broker at once.
func (b *Brokers) each(what string, do func(env.Breakable) error) error {
	errs := make([]error, len(b.members))
	var group sync.WaitGroup
	for i, m := range b.members {
		group.Go(func() {
			if err := do(m); err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", what, m.Service(), err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// gather is each, with the processes that it was done to.
func (b *Brokers) gather(what string, do func(env.Breakable) ([]int, error)) ([]int, error) {
	var mu sync.Mutex
	var all []int
	err := b.each(what, func(m env.Breakable) error {
		pids, err := do(m)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, pids...)
		return err
	})
	return all, err
}

// Kill implements env.Breakable.
func (b *Brokers) Kill(ctx context.Context) ([]int, error) {
	return b.gather("kill", func(m env.Breakable) ([]int, error) { return m.Kill(ctx) })
}

// Pause implements env.Breakable.
func (b *Brokers) Pause(ctx context.Context) ([]int, error) {
	return b.gather("pause", func(m env.Breakable) ([]int, error) { return m.Pause(ctx) })
}

// Start implements env.Breakable: ErrRunning says that all of them run.
func (b *Brokers) Start(ctx context.Context, wipe bool) error {
	var mu sync.Mutex
	running := 0
	err := b.each("start", func(m env.Breakable) error {
		err := m.Start(ctx, wipe)
		if errors.Is(err, env.ErrRunning) {
			mu.Lock()
			defer mu.Unlock()
			running++
			return nil
		}
		return err
	})
	if err == nil && running == len(b.members) {
		return fmt.Errorf("start kafka: %w", env.ErrRunning)
	}
	return err
}

// Resume implements env.Breakable.
func (b *Brokers) Resume(ctx context.Context) error {
	return b.each("resume", func(m env.Breakable) error { return m.Resume(ctx) })
}

// Restart implements env.Breakable: one broker after the other, as they are
// restarted in practice, and as three can be without an interruption.
func (b *Brokers) Restart(ctx context.Context) error {
	for _, m := range b.members {
		if err := m.Restart(ctx); err != nil {
			return fmt.Errorf("restart %s: %w", m.Service(), err)
		}
	}
	return nil
}
