// Package env gives a run its stores: containers, local processes or servers
// that the user already has.
package env

import (
	"context"
	"errors"
	"time"

	"stampede/harness/sut"
)

// Spec says what a run needs.
type Spec struct {
	Services []sut.Service
	// RunID labels everything that is started, so that clean finds it.
	RunID string
	// Dir is where data and logs of local processes go.
	Dir string
	// Postgres and Redis override settings of the committed configuration.
	Postgres, Redis map[string]string
	// Kafka says how many brokers there are and what they are set to.
	Kafka sut.KafkaSettings
	// KafkaFronts are the addresses, host:port, that each broker tells clients
	// who come through a proxy, one a broker; empty means no proxies.
	KafkaFronts []string
	// PostgresURL, ReplicaURL, RedisURL and KafkaBrokers, which are host:port, are for the
	// external backend.
	PostgresURL, ReplicaURL, RedisURL string
	KafkaBrokers                      []string
	AllowNonEmpty                     bool
	// Kfake is the command that serves kfake (processes.ServeKfake) to the
	// arguments that follow, for local processes where there is no Java; empty
	// means that Kafka is then missing.
	Kfake []string
	// Keep means that the services are to outlive this process if the run
	// does not close them; containers only.
	Keep bool
	// Log receives progress lines ("building image ...").
	Log func(format string, args ...any)
}

// The names of the backends, and of the choice between them.
const (
	Auto       = "auto"
	Containers = "containers"
	Processes  = "processes"
	External   = "external"
)

// Provider is a backend.
type Provider interface {
	// Name is containers, processes or external.
	Name() string
	// Available says whether the backend could start these services now, and
	// in one line why or why not.
	Available(ctx context.Context, spec Spec) (ok bool, reason string)
	// Start starts fresh services and waits until each answers its own
	// protocol. On error nothing is left running.
	Start(ctx context.Context, spec Spec) (Cluster, error)
}

// Cluster is a set of started services.
type Cluster interface {
	// Component returns a started service, or nil.
	Component(service sut.Service) Component
	// Namespace makes an empty place for one variant: a new database and a
	// key prefix of its own. Release drops it.
	Namespace(ctx context.Context, name string) (Namespace, error)
	// Close stops everything and removes what was made. It is idempotent.
	Close(ctx context.Context) error
}

// Namespace is where one variant lives.
type Namespace struct {
	// PostgresURL names the direct address; ReplicaURL and RedisURL likewise. A proxy
	// rewrites the host and port.
	PostgresURL, ReplicaURL, RedisURL string
	// KafkaBrokers are the brokers' own addresses, host:port.
	KafkaBrokers []string
	// Prefix starts the names of keys, topics and groups; for the latter two
	// package topics says how it is written.
	Prefix  string
	Release func(ctx context.Context) error
}

// Stopped is what a start failed with: err, or why ctx is over if it is. What
// programs say when they are killed in the middle is of no interest then.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Info describes a component for the record of a run.
type Info struct {
	Kind, Version, Source string
	Settings              map[string]string
	// Flush is the median time of one fdatasync where its data lies, zero if
	// it could not be measured.
	Flush time.Duration
}

// Component is one running service.
type Component interface {
	Service() sut.Service
	// Addr is host:port where it listens now; it may change after Start, and be
	// empty while it is down.
	Addr() string
	Info(ctx context.Context) (Info, error)
	// Ready returns nil when the service answers its own protocol.
	Ready(ctx context.Context) error
	// Identity changes whenever the service is started anew (a postmaster
	// start time, a Redis run_id).
	Identity(ctx context.Context) (string, error)
	// LogTail returns the last lines of the service's log.
	LogTail(lines int) string
}

// Laborer is a component that has work to do, which it may be far from when its
// process answers.
type Laborer interface {
	Component
	// AtWork waits until a step of its work that ends after the call has succeeded,
	// and returns an error if ctx ends first or the component is down.
	AtWork(ctx context.Context) error
}

// ErrRunning is what Breakable.Start fails with when there is nothing to start.
var ErrRunning = errors.New("it is running already")

// Breakable is a component whose process a fault may touch. External ones
// are not.
type Breakable interface {
	Component
	// Kill ends every process of the service with SIGKILL, Postgres's
	// backends included, and returns the process ids that it killed.
	Kill(ctx context.Context) (pids []int, err error)
	// Start starts a killed service on its old data, or on none when wipe
	// is set, and waits until it is ready. ErrRunning says that it runs.
	Start(ctx context.Context, wipe bool) error
	// Pause freezes every process of the service, Resume thaws them.
	Pause(ctx context.Context) (pids []int, err error)
	Resume(ctx context.Context) error
	// Restart stops the service in an orderly way and starts it again.
	Restart(ctx context.Context) error
}

// JournalEvery is how often a watched journal is looked at.
const JournalEvery = 25 * time.Millisecond

// Journaled is a component that keeps a journal of its writes on disk, whose
// end a loss of power takes: Redis with its append-only file. Killing the
// process takes nothing of it, because the kernel keeps what was written.
type Journaled interface {
	Breakable
	// WatchJournal tells seen how many bytes each file of the journal has, by
	// its name, about every JournalEvery until ctx is over, from one goroutine
	// at a time. It returns when it has told it once. An error says why a loss
	// of power could take nothing: there is no journal, or it is flushed at
	// every write.
	WatchJournal(ctx context.Context, seen func(sizes map[string]int64)) error
	// CutJournal cuts each file of a killed component's journal back to its
	// size, zero if sizes has none, and returns what was cut off, by file.
	CutJournal(ctx context.Context, sizes map[string]int64) (lost map[string][]byte, err error)
}

// Replicating is a component that replays another one's log: the replica of Postgres.
type Replicating interface {
	Component
	// Hold stops the replay, and returns when it stands still. The log still arrives, and what
	// was replayed is still read.
	Hold(ctx context.Context) error
	// GoOn lets the replay go on, and returns how many bytes of log had arrived and were not
	// replayed. Where it was not held it changes nothing.
	GoOn(ctx context.Context) (behind int64, err error)
}

// ErrNotReplica is what Replicating fails with where there is nothing to replay.
var ErrNotReplica = errors.New("it is no replica")

// Stoppable is a component that can be stopped in an orderly way and started
// again.
type Stoppable interface {
	Component
	// Stop ends it; one that is not running is no error.
	Stop(ctx context.Context) error
	// Start starts it again, as Breakable does.
	Start(ctx context.Context, wipe bool) error
}

// Crashable is a component that can be told to end itself at a place of its
// work, by SIGKILL.
type Crashable interface {
	Breakable
	// Arm makes it end itself at the passage-th passage from now of a place.
	Arm(ctx context.Context, place string, passage int) error
	// Disarm calls it off and returns what came of it.
	Disarm(ctx context.Context) ([]Crash, error)
}

// Crash is a process that said it had reached a place and was then ended by
// SIGKILL.
type Crash struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Place   string `json:"place"`
	Passage int    `json:"passage"`
}

// Reachable is a component that can be asked at another address than its own,
// such as that of a proxy which stands before it.
type Reachable interface {
	Component
	// ReadyAt returns nil when the service answers its own protocol at addr.
	ReadyAt(ctx context.Context, addr string) error
}

// Metered is a component whose use of the processor is known.
type Metered interface {
	Component
	// CPU is the processor time that its processes have used. It begins anew when
	// they do. An error says that it is down, or that nobody can tell.
	CPU(ctx context.Context) (time.Duration, error)
}

// Fronted is a component that tells its clients where it is, as a Kafka broker
// does. A proxy before it is of use only if the component names the proxy, and
// does so to those alone who come through it.
type Fronted interface {
	Reachable
	// FrontAddr is where the proxy passes connections on to; it may change at
	// each start. It is empty if Spec named no proxy.
	FrontAddr() string
}

// Clustered is a component of several, each of which can be broken alone. Its
// identity is those of its members in their order.
type Clustered interface {
	Component
	// Members are the parts, in the order of their numbers.
	Members() []Component
}
