package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/scenario"
	"stampede/harness/sim"
	"stampede/harness/sut"
)

// Modelled is what a model did under a load.
type Modelled struct {
	// Drawn is how often an operation drew each cost, by component and name.
	Drawn map[string]map[string]float64
	// P50 is the median response time of the main kind, and Digest identifies all that
	// happened.
	P50    time.Duration
	Digest string
}

// seed is that of simulations whose randomness nobody is to see.
const seed = 1

// Load is what a design's model is run under: the load of a scenario, without its faults, on a
// machine where steps cost something.
type Load struct {
	Scenario scenario.Scenario
	Params   any
	Workload func(seed uint64, params any) (sut.Workload, error)
	Design   sut.Variant
	Machine  sim.Machine
	Costs    sim.Costs
}

// Model runs the design's model.
func (l Load) Model(ctx context.Context) (Modelled, error) { return l.model(ctx, nil) }

// model runs it beside another process, unless that is nil.
func (l Load) model(ctx context.Context, beside func(*sim.Cluster)) (Modelled, error) {
	s := sim.New(seed)
	defer s.Close()
	sc := l.Scenario
	c, inst, err := l.Design.Simulated(s, l.Machine, l.Costs, sut.Config{Params: l.Params,
		MaxConns: sc.Stores.MaxConns, Timeout: sc.Load.Timeout.D(), Kafka: sc.Stores.Kafka})
	if err != nil {
		return Modelled{}, err
	}
	if beside != nil {
		beside(c)
	}
	w, err := l.Workload(seed, l.Params)
	if err != nil {
		return Modelled{}, err
	}
	plan := load.Plan{Start: time.Millisecond, Workload: w, Users: sc.Load.Users,
		Think: sc.Load.Think.D(), Duration: sc.Load.Duration.D(), MaxInFlight: sc.Load.MaxInFlight,
		Queue: sc.Load.Queue, Timeout: sc.Load.Timeout.D(), Drain: sc.Load.Drain.D()}
	if plan.Users == 0 {
		process, err := sc.Load.Arrival.Schedule()
		if err != nil {
			return Modelled{}, err
		}
		plan.Arrivals = process.Start(seed)
	}
	seen := &seen{main: w.Kinds()[0], digest: sha256.New()}
	if _, err := load.Simulate(ctx, plan, s, inst.Do, seen, nil); err != nil {
		return Modelled{}, err
	}
	return seen.result(c.Drawn()), nil
}

// seen is what was recorded.
type seen struct {
	main   string
	ended  int
	times  []time.Duration
	digest hash.Hash
}

// Append takes a record.
func (s *seen) Append(r *history.Record) {
	_ = binary.Write(s.digest, binary.BigEndian, // a hash takes everything
		[]int64{int64(r.Seq), int64(r.Start), int64(r.End), int64(r.Outcome)})
	if r.End == history.Never {
		return
	}
	s.ended++
	if r.Op.Kind == s.main {
		s.times = append(s.times, r.End-r.Intended)
	}
}

func (s *seen) result(drawn map[string]map[string]float64) Modelled {
	for _, costs := range drawn {
		for name := range costs {
			costs[name] /= float64(max(s.ended, 1))
		}
	}
	m := Modelled{Drawn: drawn, Digest: hex.EncodeToString(s.digest.Sum(nil))[:16]}
	if len(s.times) > 0 {
		slices.Sort(s.times)
		m.P50 = s.times[len(s.times)/2]
	}
	return m
}

// The loads under which a model is identified, and what each cost is then.
const (
	digestRate   = 800
	digestOver   = 1500 * time.Millisecond
	digestConn   = 8
	digestCostUS = 100
)

// Digest identifies a design's model with the engine below it by what it does under small loads,
// with the parameters of those of a calibration and of its check. Whoever changes what a model does
// under one of them changes its digest, and a calibration of the model before is stale; what costs
// are assumed does not matter.
func Digest(ctx context.Context, s sut.System, v sut.Variant) (string, error) {
	sc := scenario.Scenario{Stores: scenario.Stores{MaxConns: digestConn,
		Kafka: sut.DefaultKafka()}, Load: scenario.Load{
		Arrival: scenario.Arrival{Process: "constant", Rate: digestRate,
			Over: scenario.Over(digestOver)},
		MaxInFlight: 64, Queue: 1000, Timeout: sut.Duration(time.Second),
		Drain: sut.Duration(2 * time.Second)}}
	digest := sha256.New()
	texts := []string{s.Calibration.HeldOut}
	for _, l := range s.Calibration.Loads {
		texts = append(texts, l.Params)
	}
	for _, text := range texts {
		params := s.Params()
		if err := scenario.DecodeInto(s.Name+", a load of its calibration", []byte(text),
			params); err != nil {
			return "", err
		}
		m, err := Load{sc, params, s.Workload, v, sim.DefaultMachine(), alike(s.Costs())}.Model(ctx)
		if err != nil {
			return "", err
		}
		digest.Write([]byte(m.Digest))
	}
	return hex.EncodeToString(digest.Sum(nil))[:16], nil
}

// alike are the same costs, of the same time each.
func alike(c sim.Costs) sim.Costs {
	for _, costs := range byComponent(c) {
		for name := range costs {
			costs[name] = sim.Cost{MeanNS: 1000 * digestCostUS}
		}
	}
	return c
}
