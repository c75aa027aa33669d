package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/judge"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/harness/telemetry"
)

// stopTimeout bounds stopping the stores and removing what was made in them.
const stopTimeout = time.Minute

// targetPatience is how long a foreign server may take to listen.
const targetPatience = 5 * time.Second

// services are the stores of a run and the proxies before them.
type services struct {
	cluster   env.Cluster   // nil when a foreign server is judged
	stores    []sut.Service // of the cluster
	stopGuard func(keep bool) error
	// kafka are Kafka and its brokers, each behind proxies that were there before it and are
	// the same for all trials.
	kafka       map[sut.Service]fault.Target
	brokers     []*front
	environment rundir.Environment

	mu   sync.Mutex
	kept []Place
}

// Place is where one repeat of a variant left its data in stores that were
// kept. A URL is empty where the backend has no such store.
type Place struct {
	Variant                           string
	Repeat                            int
	PostgresURL, ReplicaURL, RedisURL string
	KafkaBrokers                      []string
	// Folder has the variant's own files, "" if it has none.
	Folder string
	// Prefix begins the names of its keys in Redis and, as package topics
	// writes it, of its topics in Kafka.
	Prefix string
}

// startServices starts what the variants need, or nothing for a target.
func startServices(ctx context.Context, r *runner) (_ *services, err error) {
	s := &services{environment: describeHost(), kafka: map[sut.Service]fault.Target{},
		stopGuard: func(bool) error { return nil }}
	s.environment.BackendReason = r.BackendReason
	if g := r.Generators; g != nil {
		s.environment.Generators = fmt.Sprintf("%d on %s", g.Count, g.Engine.Name())
	}
	if r.Simulate != nil {
		s.environment, err = r.Simulate.environment(r.BackendReason)
		return s, err
	}
	if r.Guard != nil {
		stop, err := r.Guard(r.dir.ID())
		if err != nil {
			return nil, fmt.Errorf("starting the guard: %w", err)
		}
		s.stopGuard = stop
	}
	if r.Target != "" {
		s.environment.Backend = judge.TargetName
		s.environment.BackendReason = "the user's server at " + admin.Redact(r.Target)
		s.environment.Fingerprint = fingerprint(s.environment)
		awaitTarget(ctx, r.Target)
		return s, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	spec := r.Spec
	spec.RunID, spec.Dir = r.dir.ID(), r.dir.File("logs")
	spec.Keep = r.Kept != nil
	if !r.inside() {
		if r.Launcher == nil {
			return nil, fmt.Errorf("nothing here can deploy %s", r.Scenario.Deploy)
		}
		if err := r.Launcher.Available(ctx); err != nil {
			return nil, err
		}
	}
	s.environment.Deploy = r.Scenario.Deploy
	s.environment.Proxied = slices.ContainsFunc(r.Scenario.Faults, func(f scenario.Fault) bool {
		return sut.Service(f.Target).Store() || f.From != ""
	})
	if err := s.frontKafka(ctx, &spec); err != nil {
		return nil, err
	}
	if s.cluster, err = r.Provider.Start(ctx, spec); err != nil {
		return nil, fmt.Errorf("starting the stores: %w", err)
	}
	s.environment.Backend = r.Provider.Name()
	if err := describeComponents(ctx, &s.environment, s.cluster, spec.Services); err != nil {
		return nil, err
	}
	s.environment.Fingerprint = fingerprint(s.environment)
	s.stores = spec.Services
	return s, s.checkFaults(ctx, r)
}

// awaitTarget gives a server that was started a moment ago time to listen. If
// it does not, the first request says so.
func awaitTarget(ctx context.Context, target string) {
	u, err := url.Parse(target)
	if err != nil {
		return
	}
	if u.Port() == "" {
		port := map[bool]string{false: "80", true: "443"}[u.Scheme == "https"]
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		if err == nil || !sut.Pause(ctx, targetPatience/50) {
			return
		}
	}
}

// checkFaults refuses faults that this backend cannot inject.
func (s *services) checkFaults(ctx context.Context, r *runner) error {
	if !s.environment.Proxied {
		return nil
	}
	if slices.Contains(s.stores, sut.Kafka) {
		s.targetKafka(s.cluster.Component(sut.Kafka))
	}
	targets, fronts, err := s.front(ctx)
	if err == nil {
		err = fault.Schedule{Faults: onStores(r.Scenario.Faults), Targets: targets}.Check()
	}
	return errors.Join(err, fronts.Close())
}

// front puts a proxy before every store when anything is to be broken, and returns the
// stores as the faults of a trial find them, with the proxies that are the trial's own.
func (s *services) front(
	ctx context.Context,
) (targets map[sut.Service]fault.Target, own fault.Proxies, err error) {
	targets = maps.Clone(s.kafka)
	for _, service := range s.stores {
		if !s.environment.Proxied || service == sut.Kafka {
			continue
		}
		component := s.cluster.Component(service)
		// The proxy outlives a first Ctrl-C: the drain still needs it.
		proxy, err := fault.NewProxy(context.WithoutCancel(ctx), string(service), component.Addr)
		if err != nil {
			return nil, own, err
		}
		own = append(own, proxy)
		targets[service] = fault.Target{Component: component, Proxies: fault.Proxies{proxy}}
	}
	return targets, own, nil
}

// close stops everything. It is idempotent, and works on when ctx is over.
func (s *services) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	problems := []error{s.closeProxies()}
	if s.cluster != nil {
		problems = append(problems, s.cluster.Close(ctx))
	}
	problems = append(problems, s.stopGuard(false))
	s.stopGuard = func(bool) error { return nil }
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("stopping the stores: %w", err)
	}
	return nil
}

func (s *services) closeProxies() error {
	problems := []error{}
	for _, f := range s.brokers {
		problems = append(problems, f.proxy.Close())
	}
	return errors.Join(problems...)
}

// keep leaves the stores running and ends what would remove them.
func (s *services) keep() error {
	if err := errors.Join(s.closeProxies(), s.stopGuard(true)); err != nil {
		return fmt.Errorf("keeping the stores: %w", err)
	}
	return nil
}

// place is where one trial happens: an empty namespace and the way to it.
type place struct {
	// name tells it apart from the others of the run.
	name    string
	config  sut.Config
	release func(context.Context) error
	// targets are what faults aim at, fronts the proxies of its own before the stores.
	targets map[sut.Service]fault.Target
	fronts  fault.Proxies
	// absent are the faults that aim at what the variant does not have.
	absent map[string]bool
	// gauge watches the variant during the load, nil if it has none.
	gauge sut.Gauge
	// direct are the stores' own addresses; sources, of which meter is one, are asked
	// there during the load, from when hush is set, which ends that.
	direct  env.Namespace
	sources []telemetry.Source
	meter   *telemetry.Processor
	hush    func() rundir.Telemetry
	// proxies are those of roles that a fault cuts off from a store.
	proxies *roleProxies
	// log is what the instance and its roles had to say, nil for a target.
	log *os.File
}

// keepLog lets the variant and its roles log into a file.
func (p *place) keepLog(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping the variant's log: %w", err)
	}
	p.log, p.config.Logger = file, slog.New(slog.NewTextHandler(file, nil))
	return nil
}

// keepFiles gives the variant a folder in that of the run, which goes with its database.
func (p *place) keepFiles(r *runner, v sut.Variant) error {
	if !v.KeepsFiles {
		return nil
	}
	folder, err := filepath.Abs(r.dir.File(rundir.FilesName(p.name)))
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return fmt.Errorf("making the variant's folder: %w", err)
	}
	release := p.release
	p.config.Folder = folder
	p.release = func(ctx context.Context) error {
		err := errors.Join(release(ctx), os.RemoveAll(folder))
		_ = os.Remove(filepath.Dir(folder)) // if it was the last one
		return err
	}
	return nil
}

// place makes an empty place for a trial.
func (s *services) place(
	ctx context.Context, r *runner, v sut.Variant, slot rundir.Slot,
) (*place, error) {
	p := &place{release: func(context.Context) error { return nil },
		targets: map[sut.Service]fault.Target{}, config: sut.Config{Params: r.Params,
			MaxConns: r.Scenario.Stores.MaxConns, Timeout: r.Scenario.Load.Timeout.D(),
			RootCAs: r.TargetCAs,
			Kafka:   r.Scenario.Stores.Kafka}, name: fmt.Sprintf("%s_%d", v.Name, slot.Repeat)}
	if s.cluster == nil {
		p.config.Logger = slog.New(slog.DiscardHandler) // a client has nothing to say
		return p, p.keepFiles(r, v)
	}
	ns, err := s.cluster.Namespace(ctx, p.name)
	if err != nil {
		return nil, err
	}
	p.release, p.direct, p.config.Prefix = ns.Release, ns, ns.Prefix
	if err := p.keepLog(r.dir.File(rundir.LogName(p.name))); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	if err := p.keepFiles(r, v); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	if r.Kept != nil {
		p.release = func(context.Context) error { return nil }
		s.keepPlace(Place{Variant: v.Name, Repeat: slot.Repeat,
			PostgresURL: ns.PostgresURL, ReplicaURL: ns.ReplicaURL, RedisURL: ns.RedisURL,
			KafkaBrokers: ns.KafkaBrokers,
			Prefix:       ns.Prefix, Folder: p.config.Folder})
	}
	if err := p.connect(ctx, s, v); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	return p, nil
}

func (s *services) keepPlace(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p)
}

// connect says where the variant finds its stores: behind proxies, if there are any. A
// service that it does not need has no address.
func (p *place) connect(ctx context.Context, s *services, v sut.Variant) (err error) {
	if p.targets, p.fronts, err = s.front(ctx); err != nil {
		return err
	}
	if slices.Contains(v.Needs, sut.Kafka) {
		p.config.KafkaBrokers = s.brokerAddrs(p.direct.KafkaBrokers)
	}
	p.config.PostgresURL, err = p.through(sut.Postgres, p.direct.PostgresURL, v)
	if err == nil {
		p.config.ReplicaURL, err = p.through(sut.Replica, p.direct.ReplicaURL, v)
	}
	if err == nil {
		p.config.RedisURL, err = p.through(sut.Redis, p.direct.RedisURL, v)
	}
	return err
}

// through leads a URL through the store's proxy, if there is one.
func (p *place) through(service sut.Service, direct string, v sut.Variant) (string, error) {
	if !slices.Contains(v.Needs, service) {
		return "", nil
	}
	target, ok := p.targets[service]
	if !ok {
		return direct, nil
	}
	return fault.Rewrite(direct, target.Proxies[0].Addr())
}

// close removes what was made for the trial.
func (p *place) close(ctx context.Context) error {
	var problems []error
	if p.gauge != nil {
		problems = append(problems, closing("the gauge", p.gauge.Close))
	}
	if p.hush != nil {
		p.hush() // which closes them
	} else {
		p.closeTelemetry()
	}
	problems = append(problems, p.proxies.close(), p.fronts.Close())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := p.release(ctx); err != nil {
		problems = append(problems, fmt.Errorf("removing the variant's database: %w", err))
	}
	if p.log != nil {
		if err := p.log.Close(); err != nil {
			problems = append(problems, fmt.Errorf("closing the variant's log: %w", err))
		}
	}
	return errors.Join(problems...)
}

// breaking is the scenario's faults under way.
type breaking struct {
	done    chan struct{}
	windows []history.Window
	err     error
}

// startFaults lets the scenario's faults happen at their times after start.
func (r *runner) startFaults(
	ctx context.Context, base time.Time, p *place, t *trial,
) *breaking {
	b := &breaking{done: make(chan struct{})}
	go func() {
		defer close(b.done)
		if len(p.targets) > 0 || len(p.absent) > 0 {
			b.windows, b.err = fault.Schedule{Faults: r.Scenario.Faults, Targets: p.targets,
				Absent: p.absent, Base: base, Start: start, Seed: r.Seed,
				OnChange: t.teller.faults, Joint: t.together.joint}.Run(ctx)
		}
	}()
	return b
}

// wait returns when every fault is healed.
func (b *breaking) wait() ([]history.Window, error) {
	<-b.done
	return b.windows, b.err
}
