package sut

import (
	"cmp"
	"fmt"

	"stampede/harness/sim"
)

// Simulated makes the cluster of a machine with what the configuration says of its stores, and the
// variant's model on it.
func (v Variant) Simulated(
	s *sim.Sim, m sim.Machine, costs sim.Costs, cfg Config,
) (*sim.Cluster, Instance, error) {
	if v.Model == nil {
		return nil, nil, fmt.Errorf("%s has no model", v.Name)
	}
	m.Postgres.Connections = cfg.MaxConns
	m.Kafka.Linger = cmp.Or(m.Kafka.Linger, cfg.Kafka.Linger)
	m.Kafka.Followers = max(m.Kafka.Followers, cfg.Kafka.followers())
	c, err := sim.NewCluster(s, m, costs)
	if err != nil {
		return nil, nil, err
	}
	c.Kafka.Delivery = cfg.Delivery()
	inst, err := v.Model(c, cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making the model of %s: %w", v.Name, err)
	}
	return c, inst, nil
}
