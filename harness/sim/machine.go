package sim

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Machine is what a simulation runs on. Components with no cores of their own share Cores.
type Machine struct {
	// Cores are shared by all components that have none of their own.
	Cores int `json:"cores" min:"1" max:"4096"`
	// SliceUS is the kernel's time slice in microseconds; 0 is processor sharing.
	SliceUS  float64         `json:"slice_us" min:"0" max:"1000000000"`
	App      AppMachine      `json:"app"`
	Postgres PostgresMachine `json:"postgres"`
	Redis    RedisMachine    `json:"redis"`
	Kafka    KafkaMachine    `json:"kafka"`
	Network  Network         `json:"network"`
}

// AppMachine is the application's part of a machine.
type AppMachine struct {
	// Cores of its own; 0: shared.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Threads is GOMAXPROCS; 0: as many as there are cores.
	Threads int `json:"threads" min:"0" max:"4096"`
}

// PostgresMachine is Postgres's part of a machine.
type PostgresMachine struct {
	// Cores of its own; 0: shared.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Connections is the size of the application's pool, and so of server processes. In a run it
	// is the scenario's.
	Connections int `json:"-"`
	// FsyncUS is the mean time of one flush of the log in microseconds, FsyncCV its coefficient
	// of variation.
	FsyncUS float64 `json:"fsync_us" min:"0" max:"1000000000"`
	FsyncCV float64 `json:"fsync_cv" min:"0" max:"100"`
	// RecoveryMS is how long it takes from a restart after a kill to the first connection.
	RecoveryMS float64 `json:"recovery_ms" min:"0" max:"1000000000"`
}

// RedisMachine is Redis's part of a machine.
type RedisMachine struct {
	// Cores of its own; 0: shared. Its thread uses one.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Connections are what commands are spread over, in turn. The commands that arrive on one
	// between two turns of the loop are a pipeline.
	Connections int `json:"connections" min:"1" max:"100000"`
	// RestartMS is how long it takes from a restart to the first command.
	RestartMS float64 `json:"restart_ms" min:"0" max:"1000000000"`
}

// KafkaMachine is the brokers' part of a machine.
type KafkaMachine struct {
	// Cores of its own; 0: shared.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Followers is how many followers must have a batch before it is acknowledged (acks=all);
	// 0: the leader alone.
	Followers int `json:"followers" min:"0" max:"10"`
	// LingerUS is how long a batch waits for more, in microseconds, BatchBytes how large it
	// may be, InFlight how many requests of a partition are under way at most.
	LingerUS   float64 `json:"linger_us" min:"0" max:"1000000000"`
	BatchBytes int     `json:"batch_bytes" min:"1"`
	InFlight   int     `json:"in_flight" min:"1" max:"100"`
	// RestartMS is how long it takes from a restart to the first request.
	RestartMS float64 `json:"restart_ms" min:"0" max:"1000000000"`
}

// Network is what lies between the application and the stores.
type Network struct {
	// LatencyUS is the time of one way in microseconds.
	LatencyUS float64 `json:"latency_us" min:"0" max:"1000000000"`
	// BytesPerS is the bandwidth of each store's link and direction; 0: no limit.
	BytesPerS float64 `json:"bytes_per_s" min:"0" max:"1000000000000000"`
}

// DefaultMachine is two cores with a fsync of a millisecond on the loopback network.
func DefaultMachine() Machine {
	return Machine{
		Cores: 2, SliceUS: 1400,
		Postgres: PostgresMachine{Connections: 16, FsyncUS: 1000, FsyncCV: 0.5, RecoveryMS: 500},
		Redis:    RedisMachine{Connections: 16, RestartMS: 100},
		Kafka:    KafkaMachine{BatchBytes: 1 << 20, InFlight: 5, RestartMS: 2000},
		Network:  Network{LatencyUS: 15},
	}
}

// Validate says everything that is wrong with a machine.
func (m Machine) Validate() error {
	var wrong []error
	least := func(name string, value, lowest float64) {
		if !(value >= lowest) || math.IsInf(value, 0) {
			wrong = append(wrong, fmt.Errorf("%s is %v, and must be at least %v", name, value, lowest))
		}
	}
	least("cores", float64(m.Cores), 1)
	least("slice_us", m.SliceUS, 0)
	least("app.cores", float64(m.App.Cores), 0)
	least("app.threads", float64(m.App.Threads), 0)
	least("postgres.cores", float64(m.Postgres.Cores), 0)
	least("postgres.connections", float64(m.Postgres.Connections), 1)
	least("postgres.fsync_us", m.Postgres.FsyncUS, 0)
	least("postgres.fsync_cv", m.Postgres.FsyncCV, 0)
	least("postgres.recovery_ms", m.Postgres.RecoveryMS, 0)
	least("redis.cores", float64(m.Redis.Cores), 0)
	least("redis.connections", float64(m.Redis.Connections), 1)
	least("redis.restart_ms", m.Redis.RestartMS, 0)
	least("kafka.cores", float64(m.Kafka.Cores), 0)
	least("kafka.followers", float64(m.Kafka.Followers), 0)
	least("kafka.linger_us", m.Kafka.LingerUS, 0)
	least("kafka.batch_bytes", float64(m.Kafka.BatchBytes), 1)
	least("kafka.in_flight", float64(m.Kafka.InFlight), 1)
	least("kafka.restart_ms", m.Kafka.RestartMS, 0)
	least("network.latency_us", m.Network.LatencyUS, 0)
	least("network.bytes_per_s", m.Network.BytesPerS, 0)
	if b := m.Network.BytesPerS; b > 0 {
		least("network.bytes_per_s", b, 1)
	}
	return errors.Join(wrong...)
}

// Costs are CPU demands, by component and by what it does.
type Costs struct {
	// App is what a round trip to a store costs the application, half of it before and half
	// after: postgres, redis, kafka.
	App map[string]Cost `json:"app"`
	// Postgres is by the name of a statement.
	Postgres map[string]Cost `json:"postgres"`
	// Redis is by the name of a command, and for each turn of its loop (turn) and each
	// connection that is ready in it (connection).
	Redis map[string]Cost `json:"redis"`
	// Kafka is for each request, batch, record and byte that is produced, and for each fetch.
	Kafka map[string]Cost `json:"kafka"`
}

// Cost is one CPU demand.
type Cost struct {
	// MeanNS is nanoseconds of CPU, CV the coefficient of variation.
	MeanNS float64 `json:"mean_ns" min:"0"`
	CV     float64 `json:"cv" min:"0"`
	// Known says how the cost is known: measured, fitted or assumed.
	Known string `json:"known" enum:"measured,fitted,assumed"`
}

// demands are the costs of a component, each with a stream of its own.
type demands struct {
	s    *Sim
	name string
	of   map[string]*demand
}

// demand is a lognormal distribution.
type demand struct {
	mean, sigma float64 // of the logarithm
	stream      *Stream
}

func (s *Sim) demands(name string, costs map[string]Cost) demands {
	d := demands{s, name, make(map[string]*demand, len(costs))}
	for what, c := range costs { // the order does not matter: streams depend on their names
		d.of[what] = &demand{
			mean: c.MeanNS, sigma: math.Sqrt(math.Log(1 + float64(c.CV*c.CV))),
			stream: s.Stream(name + "." + what),
		}
	}
	return d
}

// draw draws n times a demand. A model that names one that there is not is in error.
func (d demands) draw(what string, n float64) time.Duration {
	cost := d.of[what]
	if cost == nil {
		panic(fmt.Sprintf("the costs of %s do not have %q", d.name, what))
	}
	return cost.draw(n)
}

// optional is draw, but a cost that is not given is 0.
func (d demands) optional(what string, n float64) time.Duration {
	if d.of[what] == nil {
		return 0
	}
	return d.draw(what, n)
}

func (d *demand) draw(n float64) time.Duration {
	mean := n * d.mean
	if d.sigma == 0 {
		return rounded(mean)
	}
	x := float64(d.sigma*d.stream.rand.NormFloat64()) - float64(d.sigma*d.sigma)/2
	return rounded(mean * math.Exp(x))
}

// micros are microseconds of a machine.
func micros(us float64) time.Duration { return rounded(us * 1e3) }

// Cluster is the components of a machine, and the application that uses them.
type Cluster struct {
	Sim      *Sim
	Machine  Machine
	App      *App
	Postgres *Postgres
	Redis    *Redis
	Kafka    *Kafka
}

// NewCluster builds the components. The machine must be valid.
func NewCluster(s *Sim, m Machine, costs Costs) (*Cluster, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	shared := NewCPU(s, "cpu", m.Cores, micros(m.SliceUS))
	own := func(name string, cores int) *CPU {
		if cores == 0 {
			return shared
		}
		return NewCPU(s, name+".cpu", cores, micros(m.SliceUS))
	}
	c := &Cluster{Sim: s, Machine: m}
	c.App = newApp(s, m.App.Threads, own("app", m.App.Cores), costs.App)
	c.Postgres = newPostgres(s, m, own("postgres", m.Postgres.Cores), costs.Postgres)
	c.Postgres.Client = c.App.client(m.Network, &c.Postgres.component)
	c.Redis = newRedis(s, m, own("redis", m.Redis.Cores), costs.Redis)
	c.Redis.Client = c.App.client(m.Network, &c.Redis.component)
	c.Kafka = newKafka(s, m, own("kafka", m.Kafka.Cores), costs.Kafka)
	c.Kafka.Client = c.App.client(m.Network, &c.Kafka.component)
	return c, nil
}
