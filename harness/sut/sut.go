// Package sut is the contract of a system under test: what a folder under
// systems must provide for stampede to load it, break it and judge it.
package sut

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sim"
)

// ErrRefused marks an operation that certainly had no effect: sold out,
// rate-limited, or refused before a byte was sent. Any other error means
// that the outcome is unknown.
var ErrRefused = errors.New("refused")

// Service is a kind of store or broker that a variant needs.
type Service string

// The services.
const (
	Postgres Service = "postgres"
	Redis    Service = "redis"
	Kafka    Service = "kafka"
	// Replica is a streaming replica of Postgres, for reading: a hot standby. Who needs it needs
	// Postgres too.
	Replica Service = "replica"
)

// System is one system under test with its variants.
type System struct {
	// Name is the folder's name; Summary is one line.
	Name, Summary string
	// Params returns a pointer to the workload's parameters with their
	// defaults; scenarios decode into it strictly. Its fields have json tags
	// and doc tags (`doc:"..."`), from which the schema is made; texts that are
	// tagged `secret:"true"` are not written down.
	Params func() any
	// Workload makes the workload from the parameters (the value of Params,
	// after decoding). A bad parameter is an error that names it.
	Workload func(seed uint64, params any) (Workload, error)
	// GoesOn is about how long after the last operation of the schedule a variant that keeps
	// up is at work, because of what operations left to be done later. Nil means not for long.
	GoesOn   func(params any) time.Duration
	Variants []Variant
	// Invariants are judged for every variant that does not list them as
	// NotApplicable. The params are those of the scenario.
	Invariants func(params any) []check.Invariant
	// Costs are the CPU demands of the steps of the variants' models, assumed where nobody has
	// measured them. Nil if no variant has a model.
	Costs func() sim.Costs
	// Calibration says how they are measured; nil if nobody has said it.
	Calibration *Calibration
	// Races, if set, names the operations that compete for an object. A run in which too
	// few of them overlapped has not exercised what concurrency could break.
	Races *Races
	// NoRaces says why there are none, and what needs overlap instead. A system has one or the
	// other: see suttest.Exercise.
	NoRaces string
	// Target makes an instance that speaks the system's HTTP API at baseURL,
	// for servers that somebody else wrote.
	Target func(baseURL string, cfg Config) (Instance, error)
	// TargetNotApplicable maps the invariants that a foreign server cannot
	// be held to through the API to the reason.
	TargetNotApplicable map[string]string
	// Handler serves an instance over the same HTTP API.
	Handler func(inst Instance, cfg Config) (http.Handler, error)
}

// Races are the operations of a system that compete for the objects they name as Op.Key.
type Races struct {
	// Kinds are the operation kinds.
	Kinds []string
	// Idle, if set, says of the reply to a successful operation that it took nothing, such as
	// a poll of an empty queue: it does not compete.
	Idle func(history.Reply) bool
	// Least is how many successful ones must overlap another one on the same key, at
	// least, for Invariants to be exercised; fewer make them Undecided unless they are
	// Broken.
	Least      int
	Invariants []string
}

// Trigger names a condition under which a known-wrong variant shows its
// error. A scenario lists the triggers that it provokes.
type Trigger string

// The triggers.
const (
	// Load: concurrency alone is enough.
	Load Trigger = "load"
	// LostAck: replies are lost after the request was executed.
	LostAck Trigger = "lost-ack"
	// RedisLoss: Redis comes back without its data.
	RedisLoss Trigger = "redis-loss"
	// PowerLoss: Redis comes back with what its disk held some time earlier, a second if the
	// scenario does not say.
	PowerLoss Trigger = "power-loss"
	// PostgresCrash: Postgres is killed while it commits, and recovers.
	PostgresCrash Trigger = "postgres-crash"
	// RoleCrash: a process of a role, or of an API, is killed between two
	// steps of its work.
	RoleCrash Trigger = "role-crash"
	// RolePause: a process of a role sleeps for longer than its lease or its
	// session and then goes on.
	RolePause Trigger = "role-pause"
	// Rebalance: consumers come and go while they work.
	Rebalance Trigger = "rebalance"
	// ReplicaLag: the replica of Postgres answers with data that grows older.
	ReplicaLag Trigger = "replica-lag"
	// BrokerPause: Kafka falls silent for longer than buffers hold.
	BrokerPause Trigger = "broker-pause"
	// ClockSkew: the clocks of the variant's processes and of its stores differ,
	// by a parameter of the system.
	ClockSkew Trigger = "clock-skew"
)

// Triggers lists the triggers.
func Triggers() []Trigger {
	return []Trigger{Load, LostAck, RedisLoss, PowerLoss, PostgresCrash, RoleCrash, RolePause,
		Rebalance, ReplicaLag, BrokerPause, ClockSkew}
}

// Break is an invariant that a variant is known to break under a trigger.
type Break struct {
	Invariant string
	Under     Trigger
	// Shows limits which runs that provoke the trigger must catch it. Empty means all.
	Shows Showing
}

// Breaks are invariants that a variant is known to break alike.
func Breaks(under Trigger, shows Showing, invariants ...string) (list []Break) {
	for _, name := range invariants {
		list = append(list, Break{Invariant: name, Under: under, Shows: shows})
	}
	return list
}

// Showing says in which runs a known error shows.
type Showing string

const (
	// Alone shows only where no other variant writes to the same stores. The synchronous commit of
	// another one flushes the log, and with it earlier asynchronous commits.
	Alone Showing = "alone"
	// AtTimes depends on timing: no run must catch it.
	AtTimes Showing = "at times"
)

// Variant is one real implementation of a system.
type Variant struct {
	// Name says store and trick, for example "redis_lua".
	Name string
	// Idea, Guarantees and GivesUp are one sentence each.
	Idea, Guarantees, GivesUp string
	Needs                     []Service
	// KeepsFiles says that it needs a folder for files of its own: see Config.Folder.
	KeepsFiles bool
	// Breaks lists what the variant is known to break: a run that provokes
	// the trigger must catch it.
	Breaks []Break
	// NotApplicable maps an invariant's name to the reason why it says
	// nothing about this variant, for example "keeps no unit rows".
	NotApplicable map[string]string
	// Roles is the variant's background work.
	Roles []Role
	// Places are the fail points that operations pass, as Role has them: a fault
	// may end the API's process at one.
	Places []string
	// Gauge, if set, connects to the services to look at the variant while it
	// is under load. It must not change them.
	Gauge func(context.Context, Config) (Gauge, error)
	// Open connects to the services. It must not change them.
	Open func(context.Context, Config) (Instance, error)
	// Model, if set, makes the variant's model on simulated stores: an instance as Open makes
	// them, ready for operations, whose calls are made in a process of the simulation (sim.In) and
	// take its time. Of cfg it has Params, MaxConns, Timeout, Kafka and Replicas. Background work is
	// processes that it starts itself. If the instance is a Gauge, that is the
	// variant's.
	Model func(c *sim.Cluster, cfg Config) (Instance, error)
}

// APIRole is the name of the API where roles are named. No role may have it.
const APIRole = "api"

// Variant returns one of the variants by its name.
func (s System) Variant(name string) (Variant, bool) {
	for _, v := range s.Variants {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// PlacesOf lists the fail points of a role, or of the API; false if the variant
// has no such role.
func (v Variant) PlacesOf(role string) (places []string, has bool) {
	if role == APIRole {
		return v.Places, true
	}
	for _, r := range v.Roles {
		if r.Name == role {
			return r.Places, true
		}
	}
	return nil, false
}

// Role is background work that runs beside the instances: a reclaimer, a
// reconciler, a consumer.
type Role struct {
	Name, Summary string
	// Places are the fail points that the role passes, in the order of its
	// work: a fault may kill the process at the n-th passage of one.
	Places []string
	// Single says that two at once would spoil each other's work: a scenario
	// cannot have replicas of the role.
	Single bool
	// Run works until ctx is cancelled and then returns nil. It opens its
	// own connections from cfg, so that it can be a process of its own. It
	// survives errors of its services by retrying with a pause. It calls
	// cfg.Worked after each step of its work that succeeded.
	Run func(ctx context.Context, cfg Config) error
}

// Config is what an instance or a role needs to reach its services.
type Config struct {
	// PostgresURL is a libpq URL of a database that is the variant's alone.
	PostgresURL string
	// ReplicaURL is that database on the replica of its server.
	ReplicaURL string
	// RedisURL is a redis:// URL; keys must start with Prefix.
	RedisURL string
	// KafkaBrokers are host:port seeds; names of topics and groups must start
	// with Prefix, as package topics writes it.
	KafkaBrokers []string
	// Kafka says how topics are made and how clients speak to them.
	Kafka KafkaSettings
	// Prefix namespaces keys and topics, for example "stampede:1a2b:".
	Prefix string
	// Folder is the path of a folder that is the variant's alone, "" if it keeps no files. It is
	// empty before Prepare, and is erased after the audit. All processes of the variant share it,
	// those that were killed and started again too: what was flushed there is there. The instance
	// that is prepared and audited is one of them, and not the one that performs operations where
	// the API is a process of its own. It must not hold a lock between its calls.
	Folder string
	// Params is the value of System.Params after decoding.
	Params any `json:"-"`
	// MaxConns bounds the connections an instance opens to each service.
	MaxConns int
	// Timeout bounds one operation on a service.
	Timeout time.Duration
	// Replica numbers the processes of one role, or of the API, from 1; it is
	// 0 where there is only one.
	Replica int
	// Replicas, for models, says how many processes of a role there are, 1 if it does not say.
	Replicas map[string]int `json:"-"`
	// OnWorked, if set, is told of each step of a role that succeeded, by Worked.
	OnWorked func() `json:"-"`
	// FailPoint, if set, is told each passage of a fail point, by Passed.
	FailPoint func(place string) `json:"-"`
	// Dial, if set, makes the connections to Redis and Kafka in place of a
	// net.Dialer: tests in virtual time have a network of their own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
	// RootCAs verify the certificate of an https target; nil means those of
	// the system.
	RootCAs *x509.CertPool `json:"-"`
	Logger  *slog.Logger   `json:"-"`
}

// Worked says that a role has just done what it is there for: it has looked for
// expired carts, or has polled its partitions and stored what came, and its services
// answered. While there is nothing to do it says so every two seconds at least. By
// this the harness knows that a role is at work, at the start and after a fault; a
// process that lives, or waits to be let into its group, is not.
func (c Config) Worked() {
	if c.OnWorked != nil {
		c.OnWorked()
	}
}

// Rest waits for d, or until ctx is cancelled, and says whether to go on. It is for
// the pause between two steps of a role that all is well with: a long one counts as
// work, each second.
func (c Config) Rest(ctx context.Context, d time.Duration) bool {
	for ; d > time.Second && Pause(ctx, time.Second); d -= time.Second {
		c.Worked()
	}
	return Pause(ctx, d)
}

// Passed says that the work has come to a fail point, a place between two steps
// where a crash is worth trying: "applied", after the effect and before the
// commit. A fault may end the process there. Without one it costs nothing.
func (c Config) Passed(place string) {
	if c.FailPoint != nil {
		c.FailPoint(place)
	}
}

// Instance is an opened variant.
type Instance interface {
	// Prepare makes the schema and the initial state; it runs once, on
	// empty services, before any operation or role.
	Prepare(context.Context) error
	// Do performs one operation. See ErrRefused for the meaning of errors.
	// It is called from many goroutines.
	Do(context.Context, history.Op) (history.Reply, error)
	// Audit reads the final truth from the services as JSON.
	Audit(context.Context) (json.RawMessage, error)
	Close() error
}

// Gauge looks at what an operation's reply cannot show, such as how far two
// stores are apart. The harness asks it some times a second during the load,
// one question at a time, and keeps the answers in the history, where
// invariants find them. It opens its own connections, so that it takes none
// from the load.
type Gauge interface {
	// Sample looks once and returns what it saw as JSON. It must change
	// nothing, cost little and return soon after ctx ends. An error is kept
	// as a time at which nothing was seen.
	Sample(context.Context) (json.RawMessage, error)
	Close() error
}

// Quiescer is implemented by instances that know when their background work
// has settled. Quiesced returns "" when nothing is left to do, else what is.
// Those of a variant with roles must: of one that cannot say, a run cannot tell
// that it came to rest, and is inconclusive.
type Quiescer interface {
	Quiesced(context.Context) (pending string, err error)
}

// Backlogger is a Quiescer that can also count what is left to do. Backlog returns 0
// when nothing is left; less is nearer to that. A backlog that is still being worked
// off when the drain ends proves nothing against a design, one that stands still does;
// of an instance that does not count, all that is left is taken to stand still.
type Backlogger interface {
	Quiescer
	Backlog(context.Context) (left int64, err error)
}

// Emptier is implemented by instances that can say whether anything has been
// done to them. Empty returns "" if the state is that of a fresh Prepare, else
// what is there already, for example "3 orders". It is asked once, after
// Prepare and before any operation or role.
type Emptier interface {
	Empty(context.Context) (found string, err error)
}

// Workload turns a seed into operations. It is a pure function: the same
// seed and parameters give the same operations.
type Workload interface {
	// Kinds lists the operation kinds, the main one first.
	Kinds() []string
	// Op returns the i-th scheduled operation, from 0. It is called from
	// one goroutine at a time, in any order of i.
	Op(i uint64) history.Op
	// Follow returns the operations that a finished one brings about, each
	// due After its parent's End. It is called from many goroutines and must
	// depend on nothing but the seed, the parameters and its arguments.
	Follow(op history.Op, outcome history.Outcome, reply history.Reply) []FollowUp
}

// OneKind makes a Workload of operations of one kind, of which the i-th is op(i), from 0.
// Nothing follows from them.
func OneKind(kind string, op func(i uint64) history.Op) Workload { return oneKind{kind, op} }

type oneKind struct {
	kind string
	op   func(i uint64) history.Op
}

func (k oneKind) Kinds() []string        { return []string{k.kind} }
func (k oneKind) Op(i uint64) history.Op { return k.op(i) }

func (oneKind) Follow(history.Op, history.Outcome, history.Reply) []FollowUp { return nil }

// FollowUp is an operation that is due some time after another has ended.
type FollowUp struct {
	After time.Duration
	Op    history.Op
}

// Pause waits for d or until ctx is cancelled, and says whether to go on.
func Pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
