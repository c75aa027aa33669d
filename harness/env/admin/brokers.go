package admin

import (
	"context"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// brokers is a Kafka cluster of several brokers as one component.
type brokers struct {
	env.Group[env.Breakable]
	env.Breakables
	kafka Kafka
}

var (
	_ env.Breakable = brokers{}
	_ env.Reachable = brokers{}
	_ env.Clustered = brokers{}
)

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
		s.components = append(s.components,
			brokers{env.Group[env.Breakable]{Name: sut.Kafka, Of: members}, members, all})
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

// Addr implements env.Component by the first broker's address.
func (b brokers) Addr() string { return b.Of[0].Addr() }

func (b brokers) Ready(ctx context.Context) error { return b.kafka.Ready(ctx) }

func (b brokers) ReadyAt(ctx context.Context, addr string) error {
	return b.kafka.ReadyAt(ctx, addr)
}
