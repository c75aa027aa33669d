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
	// Slice is the kernel's time slice; 0 is processor sharing.
	Slice    Duration        `json:"slice"`
	Stalls   Stalls          `json:"stalls"`
	App      AppMachine      `json:"app"`
	Postgres PostgresMachine `json:"postgres"`
	Redis    RedisMachine    `json:"redis"`
	Kafka    KafkaMachine    `json:"kafka"`
	Network  Network         `json:"network"`
}

// Stalls are the times in which a core stands still, because a hypervisor or programs that
// are no part of the system have it. They come as a Poisson process.
type Stalls struct {
	// Share is the share of each core's time that they take, from 0 to 0.9.
	Share float64 `json:"share" min:"0" max:"0.9"`
	// Length is the mean length of one, CV its coefficient of variation.
	Length Duration `json:"length"`
	CV     float64  `json:"cv" min:"0" max:"100"`
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
	// Fsync is the mean time of one flush of the log, FsyncCV its coefficient of variation.
	Fsync   Duration `json:"fsync"`
	FsyncCV float64  `json:"fsync_cv" min:"0" max:"100"`
	// Recovery is how long it takes from a restart after a kill to the first connection.
	Recovery Duration `json:"recovery"`
}

// RedisMachine is Redis's part of a machine.
type RedisMachine struct {
	// Cores of its own; 0: shared. Its thread uses one.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Connections are what commands are spread over, in turn. The commands that arrive on one
	// between two turns of the loop are a pipeline.
	Connections int `json:"connections" min:"1" max:"100000"`
	// Restart is how long it takes from a restart to the first command.
	Restart Duration `json:"restart"`
}

// KafkaMachine is the brokers' part of a machine.
type KafkaMachine struct {
	// Cores of its own; 0: shared.
	Cores int `json:"cores" min:"0" max:"4096"`
	// Followers is how many followers must have a batch before it is acknowledged (acks=all);
	// 0: the leader alone.
	Followers int `json:"followers" min:"0" max:"10"`
	// Linger is how long a batch waits for more, BatchBytes how large it may be, InFlight how
	// many requests of a partition are under way at most.
	Linger     Duration `json:"linger"`
	BatchBytes int      `json:"batch_bytes" min:"1"`
	InFlight   int      `json:"in_flight" min:"1" max:"100"`
	// Restart is how long it takes from a restart to the first request.
	Restart Duration `json:"restart"`
}

// Network is what lies between the application and the stores.
type Network struct {
	// Latency is the time of one way.
	Latency Duration `json:"latency"`
	// BytesPerS is the bandwidth of each store's link and direction; 0: no limit.
	BytesPerS float64 `json:"bytes_per_s" min:"0" max:"1000000000000000"`
}

// DefaultMachine is two cores with a fsync of a millisecond on the loopback network.
func DefaultMachine() Machine {
	return Machine{
		Cores: 2, Slice: Duration(1400 * time.Microsecond),
		Stalls: Stalls{Length: Duration(4 * time.Millisecond), CV: 1},
		Postgres: PostgresMachine{Connections: 16, Fsync: Duration(time.Millisecond), FsyncCV: 0.5,
			Recovery: Duration(500 * time.Millisecond)},
		Redis: RedisMachine{Connections: 16, Restart: Duration(100 * time.Millisecond)},
		Kafka: KafkaMachine{BatchBytes: 1 << 20, InFlight: 5,
			Restart: Duration(2 * time.Second)},
		Network: Network{Latency: Duration(15 * time.Microsecond)},
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
	never := func(name string, d Duration) { // less than 0
		if d < 0 {
			wrong = append(wrong, fmt.Errorf("%s is %s, and must be at least 0s", name, d))
		}
	}
	least("cores", float64(m.Cores), 1)
	never("slice", m.Slice)
	least("stalls.share", m.Stalls.Share, 0)
	never("stalls.length", m.Stalls.Length)
	least("stalls.cv", m.Stalls.CV, 0)
	if m.Stalls.Share > mostStalled || m.Stalls.Share > 0 && m.Stalls.Length == 0 {
		wrong = append(wrong, fmt.Errorf("stalls take a share of %v in pieces of %s: at most %v, and "+
			"in pieces longer than 0s", m.Stalls.Share, m.Stalls.Length, mostStalled))
	}
	least("app.cores", float64(m.App.Cores), 0)
	least("app.threads", float64(m.App.Threads), 0)
	least("postgres.cores", float64(m.Postgres.Cores), 0)
	least("postgres.connections", float64(m.Postgres.Connections), 1)
	never("postgres.fsync", m.Postgres.Fsync)
	least("postgres.fsync_cv", m.Postgres.FsyncCV, 0)
	never("postgres.recovery", m.Postgres.Recovery)
	least("redis.cores", float64(m.Redis.Cores), 0)
	least("redis.connections", float64(m.Redis.Connections), 1)
	never("redis.restart", m.Redis.Restart)
	least("kafka.cores", float64(m.Kafka.Cores), 0)
	least("kafka.followers", float64(m.Kafka.Followers), 0)
	never("kafka.linger", m.Kafka.Linger)
	least("kafka.batch_bytes", float64(m.Kafka.BatchBytes), 1)
	least("kafka.in_flight", float64(m.Kafka.InFlight), 1)
	never("kafka.restart", m.Kafka.Restart)
	never("network.latency", m.Network.Latency)
	least("network.bytes_per_s", m.Network.BytesPerS, 0)
	if b := m.Network.BytesPerS; b > 0 {
		least("network.bytes_per_s", b, 1)
	}
	return errors.Join(wrong...)
}

// mostStalled is the largest share of a core's time that stalls may take.
const mostStalled = 0.9

// Costs are CPU demands, by component and by what it does.
type Costs struct {
	// App is what a round trip to a store costs the application, half of it before and half
	// after: postgres, redis, kafka.
	App map[string]Cost `json:"app,omitempty"`
	// Postgres is by the name of a statement.
	Postgres map[string]Cost `json:"postgres,omitempty"`
	// Redis is by the name of a command, and for each turn of its loop (turn) and each
	// connection that is ready in it (connection).
	Redis map[string]Cost `json:"redis,omitempty"`
	// Kafka is for each request, batch, record and byte that is produced, and for each fetch.
	Kafka map[string]Cost `json:"kafka,omitempty"`
}

// Cost is one CPU demand.
type Cost struct {
	// MeanNS is nanoseconds of CPU, CV the coefficient of variation.
	MeanNS float64 `json:"mean_ns" min:"0"`
	CV     float64 `json:"cv" min:"0"`
	// Known says how the cost is known: measured, fitted or assumed.
	Known string `json:"known" enum:"measured,fitted,assumed"`
}

// Assumed is a cost of so many µs that nobody has measured. Its coefficient of variation is 0.5.
func Assumed(us float64) Cost { return Cost{MeanNS: 1000 * us, CV: 0.5, Known: "assumed"} }

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
	drawn       float64 // how often, or so many times the mean
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
	d.drawn += n
	mean := n * d.mean
	if d.sigma == 0 {
		return rounded(mean)
	}
	x := float64(d.sigma*d.stream.rand.NormFloat64()) - float64(d.sigma*d.sigma)/2
	return rounded(mean * math.Exp(x))
}

// Cluster is the components of a machine, and the application that uses them.
type Cluster struct {
	Sim      *Sim
	Machine  Machine
	App      *App
	Postgres *Postgres
	Redis    *Redis
	Kafka    *Kafka
	roles    map[string][]*Replica
}

// NewCluster builds the components. The machine must be valid.
func NewCluster(s *Sim, m Machine, costs Costs) (*Cluster, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	shared := NewCPU(s, "cpu", m.Cores, m.Slice.D())
	shared.stallNow(m.Stalls)
	own := func(name string, cores int) *CPU {
		if cores == 0 {
			return shared
		}
		cpu := NewCPU(s, name+".cpu", cores, m.Slice.D())
		cpu.stallNow(m.Stalls)
		return cpu
	}
	c := &Cluster{Sim: s, Machine: m, roles: map[string][]*Replica{}}
	c.App = newApp(s, m.App.Threads, own("app", m.App.Cores), costs.App)
	c.Postgres = newPostgres(s, m, own("postgres", m.Postgres.Cores), costs.Postgres)
	c.Postgres.Client = c.App.client(m.Network, &c.Postgres.component)
	c.Redis = newRedis(s, m, own("redis", m.Redis.Cores), costs.Redis)
	c.Redis.Client = c.App.client(m.Network, &c.Redis.component)
	c.Kafka = newKafka(s, m, own("kafka", m.Kafka.Cores), costs.Kafka)
	c.Kafka.Client = c.App.client(m.Network, &c.Kafka.component)
	return c, nil
}

// Drawn is how often each cost was drawn so far, by component and name: what the costs have
// to be multiplied by to give the CPU time that was needed.
func (c *Cluster) Drawn() map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, d := range []demands{c.App.demands, c.Postgres.demands, c.Redis.demands, c.Kafka.demands} {
		all[d.name] = map[string]float64{}
		for name, cost := range d.of {
			all[d.name][name] = cost.drawn
		}
	}
	return all
}
