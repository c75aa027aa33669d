package run

import (
	"errors"
	"fmt"
	"slices"

	"stampede/harness/env"
	"stampede/harness/rundir"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
	"stampede/harness/topics"
)

// openTelemetry readies what is to be asked while the variant is under load: the
// stores that it needs, at their own addresses, and the processor time of them and
// of its roles and generators. Of a foreign server nothing can be asked.
func (p *place) openTelemetry(s *services, v sut.Variant, metered []env.Metered) error {
	var problems []error
	add := func(source telemetry.Source, err error) {
		if err != nil {
			problems = append(problems, err)
			return
		}
		p.sources = append(p.sources, source)
	}
	for _, service := range v.Needs {
		if s.cluster == nil {
			break
		}
		component := s.cluster.Component(service)
		switch service {
		case sut.Postgres:
			add(telemetry.Postgres(p.direct.PostgresURL, component.Addr), nil)
		case sut.Replica:
			add(telemetry.Replica(p.direct.ReplicaURL, component.Addr), nil)
		case sut.Redis:
			add(telemetry.Redis(p.direct.RedisURL, component.Addr))
		case sut.Kafka:
			add(telemetry.Kafka(p.direct.KafkaBrokers, topics.Prefix(p.config.Prefix)))
		}
		metered = append(metered, meteredOf(component)...)
	}
	p.meter = telemetry.CPU(metered)
	if beside, whole := s.beside(v); whole {
		p.meter.Whole(beside)
	}
	add(p.meter, nil)
	add(telemetry.Collector(), nil)
	if len(problems) > 0 {
		p.closeTelemetry()
		return fmt.Errorf("opening the telemetry of %s: %w", v.Name, errors.Join(problems...))
	}
	return nil
}

// beside are the stores that run for other variants. It is not whole if there is a store
// of which nobody knows what it uses, or a foreign server.
func (s *services) beside(v sut.Variant) (list []env.Metered, whole bool) {
	if s.cluster == nil {
		return nil, false
	}
	for _, service := range sut.Stores() {
		component := s.cluster.Component(service)
		if component == nil {
			continue
		}
		members := meteredOf(component)
		if len(members) == 0 {
			return nil, false
		}
		if !slices.Contains(v.Needs, service) {
			list = append(list, members...)
		}
	}
	return list, true
}

// meteredOf is a store, or its members, as far as its processor time is known.
func meteredOf(c env.Component) (list []env.Metered) {
	if cluster, ok := c.(env.Clustered); ok {
		for _, member := range cluster.Members() {
			list = append(list, meteredOf(member)...)
		}
		return list
	}
	if m, ok := c.(env.Metered); ok {
		list = append(list, m)
	}
	return list
}

// closeTelemetry closes what was never asked.
func (p *place) closeTelemetry() {
	for _, source := range p.sources {
		source.Close()
	}
	p.sources = nil
}

// keepTelemetry ends the asking and keeps what was said, and what it all took.
func (r *runner) keepTelemetry(slot rundir.Slot, t *trial, p *place) error {
	if p.hush == nil {
		return nil
	}
	said := p.hush()
	if spent := p.meter.Spent(r.hard); len(spent.Parts) > 0 || spent.Machine != nil {
		spent.Operations = t.Load.Started
		t.Processor = &spent
	}
	if err := r.dir.WriteJSON(rundir.TelemetryName(slot.Variant, slot.Repeat), said); err != nil {
		return fmt.Errorf("keeping the telemetry: %w", err)
	}
	return nil
}
