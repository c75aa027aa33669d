package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// Bounds of starting and stopping a store. Recovering from a kill replays
// what the store had logged, which may take a while after heavy load.
const (
	startBound = 2 * time.Minute
	// Java's start is mostly computing, which other work may hold up.
	brokerStartBound = 4 * time.Minute
	stopBound        = time.Minute
	// Postgres kills what has not ended five seconds after its last signal.
	lastBound  = 10 * time.Second
	readyEvery = 10 * time.Millisecond
	portTries  = 5
)

// recipe is what is particular about one kind of store.
type recipe struct {
	service sut.Service
	program Program
	who     *syscall.Credential
	// prepare fills an empty data folder.
	prepare func(ctx context.Context, dir string) error
	// command starts the store on a port.
	command func(dir string, port int) (*exec.Cmd, error)
	// store makes the administrator of the store at an address.
	store func(addr func() string) admin.Store
	// orderly is the signal that ends the store with nothing left to recover.
	orderly syscall.Signal
	// last is the signal that ends the store at once, when its data is about to go,
	// and leaves nothing of it in the kernel.
	last syscall.Signal
	// primary is what a replica is a copy of, nil for others.
	primary *admin.Primary
	// settings are what the scenario changed.
	settings []string
	// kafka is what only a broker has, else nil.
	kafka *broker
	// ports are those of all brokers of a cluster; nil gives a server its own.
	ports *admin.Ports
}

// server is one store as a child process.
type server struct {
	recipe
	admin.Replaying
	dir string
	log string

	port  atomic.Int32
	flush func() (time.Duration, error)

	// mu is held while the process is being started, stopped or frozen.
	mu    sync.Mutex
	child *child
	// logged is how long the log was when the process was started.
	logged int64
	// journal is the folder of the append-only file once it is watched.
	journal string
	// pair is the primary and the replica, of which this is one; else nil.
	pair *admin.Pair
}

var (
	_ env.Journaled = (*server)(nil)
	_ env.Fronted   = (*server)(nil)
	_ env.Metered   = (*server)(nil)

	_ env.Replicating = (*server)(nil)
)

// newServer makes the data folder and starts the store.
func newServer(ctx context.Context, r recipe, home, log string) (*server, error) {
	s := &server{recipe: r, dir: filepath.Join(home, string(r.service)), log: log}
	if s.ports == nil {
		s.ports = admin.NewPorts()
	}
	s.Store = r.store(s.Addr)
	s.flush = sync.OnceValues(func() (time.Duration, error) { return FlushTime(s.dir) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// fresh replaces the data folder by a new one.
func (s *server) fresh(ctx context.Context) error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the data of %s: %w", s.service, err)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return fmt.Errorf("make a data folder for %s: %w", s.service, err)
	}
	if err := own(s.dir, s.who); err != nil {
		return err
	}
	return s.prepare(ctx, s.dir)
}

// errClash says that somebody took the port before the store could.
var errClash = errors.New("the port is taken")

// start starts the process, on its old port if it had one, and waits until
// the store is ready. On error no process is left.
func (s *server) start(ctx context.Context) error {
	bound := startBound
	if s.broker() {
		bound = brokerStartBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for try := range portTries {
		if s.port.Load() == 0 || try > 0 {
			port, err := s.ports.Free()
			if err != nil {
				return err
			}
			s.port.Store(int32(port))
		}
		err := s.startOnce(ctx)
		if err == nil {
			return nil
		}
		if _, kill := s.kill(context.WithoutCancel(ctx)); kill != nil {
			return errors.Join(err, kill)
		}
		if !errors.Is(err, errClash) {
			return err
		}
	}
	return fmt.Errorf("start %s: found no free port in %d tries", s.service, portTries)
}

func (s *server) startOnce(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", s.service, err)
	}
	defer log.Close() // the child keeps its own
	if s.logged, err = log.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("find the end of the log of %s: %w", s.service, err)
	}
	cmd, err := s.command(s.dir, int(s.port.Load()))
	if err != nil {
		return err
	}
	cmd.Dir, cmd.Env = s.dir, environment()
	cmd.Stdout, cmd.Stderr = log, log
	if s.child, err = spawn(cmd, s.who, s.last); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// awaitReady polls until the store answers, its process ends or ctx is over.
func (s *server) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		ready := s.Ready(ctx)
		if ready == nil && !env.Ended(s.child.done) {
			return nil
		}
		select {
		case <-s.child.done:
			return s.died()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last answer: %w)%s",
				s.service, ctx.Err(), ready, admin.QuoteLog(s.LogTail(admin.LogLines)))
		case <-tick.C:
		}
	}
}

// clashed matches what every store says when its port is taken.
var clashed = regexp.MustCompile("(?i)address already in use")

// died explains why the process ended before it was ready.
func (s *server) died() error {
	said, err := os.ReadFile(s.log)
	if err == nil && clashed.Match(said[min(s.logged, int64(len(said))):]) {
		return fmt.Errorf("start %s: %w", s.service, errClash)
	}
	end := cmp.Or(s.child.err, errors.New("exit status 0"))
	return fmt.Errorf("%s ended at start (%w)%s", s.service, end,
		admin.QuoteLog(s.LogTail(admin.LogLines)))
}

func (s *server) Service() sut.Service { return s.service }

func (s *server) Addr() string {
	return admin.Loopback(int(s.port.Load()))
}

// Info implements env.Component. Flush is measured once, at the first call.
func (s *server) Info(ctx context.Context) (env.Info, error) {
	info, err := s.describe(ctx)
	if err != nil {
		return env.Info{}, err
	}
	info.Settings["data_file_system"] = fileSystem(s.dir)
	if info.Flush, err = s.flush(); err != nil {
		return env.Info{}, err
	}
	return info, nil
}

// describe asks the store, and adds what only its starter knows.
func (s *server) describe(ctx context.Context) (env.Info, error) {
	if s.broker() && s.kafka.fake {
		return kfakeInfo(s.program), nil
	}
	info, err := s.Store.Info(ctx, s.settings)
	if err != nil {
		return env.Info{}, err
	}
	info.Source = s.program.Path
	if s.broker() {
		err = kafkaInfo(ctx, s.program, &info)
	}
	return info, err
}

func (s *server) LogTail(lines int) string { return env.LogTail(s.log, lines) }

// running returns the live child, or an error if there is none.
func (s *server) running() (*child, error) {
	if s.child == nil || env.Ended(s.child.done) {
		return nil, fmt.Errorf("%s is not running", s.service)
	}
	return s.child, nil
}

func (s *server) Kill(ctx context.Context) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.running(); err != nil {
		return nil, err
	}
	return s.kill(ctx)
}

// kill ends whatever works in the data folder, and the child, if any.
func (s *server) kill(ctx context.Context) ([]int, error) {
	first := 0
	if s.child != nil && !env.Ended(s.child.done) {
		first = s.child.pid
	}
	pids, err := killAll(ctx, first, s.dir)
	if err != nil {
		return pids, err
	}
	if s.child == nil {
		return pids, nil
	}
	select {
	case <-s.child.done: // SIGKILL was delivered: this is the reaping only
		return pids, nil
	case <-time.After(stateBound):
		return pids, fmt.Errorf("%s, process %d, is not over %v after SIGKILL",
			s.service, s.child.pid, stateBound)
	}
}

func (s *server) Start(ctx context.Context, wipe bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.running(); err == nil {
		return fmt.Errorf("start %s: %w", s.service, env.ErrRunning)
	}
	// Of a process that died by itself, backends may be left.
	if _, err := s.kill(ctx); err != nil {
		return err
	}
	if wipe {
		if err := s.fresh(ctx); err != nil {
			return err
		}
	}
	return s.back(ctx)
}

// back starts a store again.
func (s *server) back(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		s.pair.Reunite(ctx)
	}
	return err
}

func (s *server) Pause(ctx context.Context) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	child, err := s.running()
	if err != nil {
		return nil, err
	}
	return stopAll(ctx, child.pid, s.dir)
}

// Resume implements env.Breakable. Resuming what runs changes nothing.
func (s *server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.running(); err != nil {
		return err
	}
	err := continueAll(s.dir)
	if err == nil {
		s.pair.Reunite(ctx)
	}
	return err
}

func (s *server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(ctx); err != nil {
		return err
	}
	return s.back(ctx)
}

// stop ends the store in an orderly way.
func (s *server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	child, err := s.running()
	if err != nil {
		return err
	}
	if err := signalAll([]int{child.pid}, s.orderly); err != nil {
		return err
	}
	select {
	case <-child.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s in an orderly way: %w", s.service, ctx.Err())
	}
}

// close ends the store without ceremony: its data is about to be removed. Whatever
// its last signal leaves, frozen processes of it too, is killed.
func (s *server) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	if child, err := s.running(); err == nil {
		failed = errors.Join(signalAll([]int{child.pid}, s.last), continueAll(s.dir))
		select {
		case <-child.done:
		case <-ctx.Done():
		case <-time.After(lastBound):
		}
	}
	_, err := s.kill(ctx)
	return errors.Join(failed, err)
}
