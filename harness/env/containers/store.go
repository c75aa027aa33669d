package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// Bounds of starting, stopping and asking about a container.
const (
	startBound = 2 * time.Minute
	// Java's start is mostly computing, which other work may hold up.
	brokerStartBound = 4 * time.Minute
	stopBound        = time.Minute
	commandBound     = 30 * time.Second
	readyEvery       = 20 * time.Millisecond
)

// store is one store in a container, its data on a volume.
type store struct {
	recipe
	admin.Replaying
	engine *engine
	image  choice
	labels map[string]string
	flush  func() (time.Duration, error)

	// addr is where it listens now, "" while it is down: it may change at each start,
	// and in between the engine may give it to somebody else's container. id is the
	// container, which a wipe replaces.
	addr, id atomic.Value

	// pair is the primary and the replica, of which this is one; else nil.
	pair *admin.Pair

	// mu is held while the container is being made, started or stopped.
	mu     sync.Mutex
	volume string
	// direct is set when the container's own address can be reached.
	direct bool
	// journal is the folder of the append-only file once it is watched.
	journal string
	// usage is a usageFile, once it was found.
	usage atomic.Value
}

var (
	_ env.Journaled = (*store)(nil)
	_ env.Fronted   = (*store)(nil)
	_ env.Metered   = (*store)(nil)

	_ env.Replicating = (*store)(nil)
)

// newStore makes the volume and the container and waits until it is ready.
func newStore(ctx context.Context, e *engine, c choice, r recipe, labels map[string]string) (
	*store, error) {
	s := &store{recipe: r, engine: e, image: c, labels: labels}
	s.addr.Store("")
	s.id.Store("")
	s.Store = r.store(s.Addr)
	s.flush = sync.OnceValues(s.measureFlush)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.create(ctx)
}

// create makes a fresh volume and a container on it.
func (s *store) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	volume, err := s.engine.VolumeCreate(ctx, client.VolumeCreateOptions{
		Labels: maps.Clone(s.labels)})
	if err != nil {
		return fmt.Errorf("make a volume for %s: %w", s.service, err)
	}
	s.volume = volume.Volume.Name
	if err := s.findPrimary(ctx); err != nil {
		return fmt.Errorf("start %s: %w", s.service, err)
	}
	made, err := testcontainers.GenericContainer(ctx, s.request())
	if made != nil {
		s.id.Store(made.GetContainerID())
	}
	if err != nil {
		return fmt.Errorf("start %s from %s: %w%s", s.service, s.image.ref, err,
			admin.QuoteLog(s.LogTail(admin.LogLines)))
	}
	return s.awaitReady(ctx)
}

// request copies what is shared: testcontainers adds to the maps that it gets.
func (s *store) request() testcontainers.GenericContainerRequest {
	request := testcontainers.ContainerRequest{
		Image: s.image.ref, Env: maps.Clone(s.environ), Cmd: s.command, Entrypoint: s.entry,
		Labels: maps.Clone(s.labels), Files: []testcontainers.ContainerFile{fileOf(confPath, s.conf)},
		HostConfigModifier: s.configureHost,
	}
	for path, content := range s.files {
		request.Files = append(request.Files, fileOf(path, content))
	}
	if s.kafka != nil {
		request.Files = append(request.Files, fileOf(loggingPath, docker.KafkaLogging))
	} else {
		request.ExposedPorts = []string{s.port + "/tcp"}
	}
	return testcontainers.GenericContainerRequest{Started: true, ContainerRequest: request}
}

func fileOf(path string, content []byte) testcontainers.ContainerFile {
	return testcontainers.ContainerFile{
		Reader: bytes.NewReader(content), ContainerFilePath: path, FileMode: 0o644}
}

// bound is how long the store may take to start.
func (s *store) bound() time.Duration {
	if s.kafka != nil {
		return brokerStartBound
	}
	return startBound
}

// configureHost mounts the volume and publishes the port, to this machine
// alone if the engine is on it.
func (s *store) configureHost(hc *container.HostConfig) {
	hc.ShmSize = sharedMemory
	hc.Mounts = append(hc.Mounts, mount.Mount{
		Type: mount.TypeVolume, Source: s.volume, Target: s.data})
	if s.kafka != nil {
		hc.NetworkMode = "host"
		return
	}
	binding := network.PortBinding{}
	override := os.Getenv(overrideVariable)
	if s.engine.local() && (override == "" || override == "127.0.0.1") {
		binding.HostIP = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	hc.PortBindings = network.PortMap{network.MustParsePort(s.port + "/tcp"): {binding}}
}

// inspect returns the container's state.
func (s *store) inspect(ctx context.Context) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	found, err := s.engine.ContainerInspect(ctx, s.container(), client.ContainerInspectOptions{})
	if err != nil {
		return container.InspectResponse{}, fmt.Errorf("inspect the container of %s: %w", s.service, err)
	}
	return found.Container, nil
}

// awaitReady finds the address and polls until the store answers there, its
// container ends or ctx is over.
func (s *store) awaitReady(ctx context.Context) error {
	for {
		state, err := s.inspect(ctx)
		if err != nil {
			return err
		}
		if !state.State.Running {
			return fmt.Errorf("the container of %s ended at start (exit code %d)%s",
				s.service, state.State.ExitCode, admin.QuoteLog(s.LogTail(admin.LogLines)))
		}
		if err = s.locate(state); err == nil {
			err = s.listening(ctx)
		}
		if err == nil {
			err = s.Ready(ctx)
		}
		if err == nil {
			return nil
		}
		if !sut.Pause(ctx, readyEvery) {
			return fmt.Errorf("wait for %s: %w (last answer: %w)%s",
				s.service, ctx.Err(), err, admin.QuoteLog(s.LogTail(admin.LogLines)))
		}
	}
}

// listening returns nil if somebody takes a connection at once. While a
// container's network is coming up the kernel drops the first packet and
// sends it again after a second, which would be measured as the store's
// time to recover; a fresh connection gets through as soon as it can.
func (s *store) listening(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 50 * time.Millisecond}
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

// locate finds where the store listens. The container's own address spares
// the engine's port forwarding, which doubles the time of a round trip; where
// it cannot be reached the published port is used.
func (s *store) locate(state container.InspectResponse) error {
	if s.kafka != nil {
		s.addr.Store(s.kafka.Direct)
		return nil
	}
	if state.NetworkSettings == nil {
		return errors.New("the container has no network yet")
	}
	if own := s.ownAddr(state); own != "" && (s.direct || reachable(own)) {
		s.direct = true
		s.addr.Store(own)
		return nil
	}
	for _, b := range state.NetworkSettings.Ports[network.MustParsePort(s.port+"/tcp")] {
		if b.HostPort != "" && !b.HostIP.Is6() {
			s.addr.Store(net.JoinHostPort(s.engine.hostName(), b.HostPort))
			return nil
		}
	}
	return errors.New("the container's port is not published yet")
}

// ownAddr is the container's address in its network, if the engine is local.
func (s *store) ownAddr(state container.InspectResponse) string {
	if !s.engine.local() {
		return ""
	}
	return s.networkAddr(state)
}

// networkAddr is the container's address in its network, "" if it has none.
func (s *store) networkAddr(state container.InspectResponse) string {
	if state.NetworkSettings == nil {
		return ""
	}
	for _, n := range state.NetworkSettings.Networks {
		if n.IPAddress.IsValid() {
			return net.JoinHostPort(n.IPAddress.String(), s.port)
		}
	}
	return ""
}

// reachable says whether there is a host behind an address: one that refuses
// the connection is there as well.
func reachable(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED)
	}
	conn.Close()
	return true
}

// hostName is where the engine publishes ports.
func (e *engine) hostName() string {
	if override := os.Getenv(overrideVariable); override != "" {
		return override
	}
	if e.local() {
		return "127.0.0.1"
	}
	host, _, err := net.SplitHostPort(strings.TrimPrefix(e.host, "tcp://"))
	if err != nil {
		return "127.0.0.1"
	}
	return host
}

// container is the container's id, empty before there is one.
func (s *store) container() string { return s.id.Load().(string) }

func (s *store) Service() sut.Service { return s.service }

// Addr implements env.Component. It is empty while the store is down.
func (s *store) Addr() string { return s.addr.Load().(string) }

// leave gives the address up before the store goes down, so that nobody who looks for
// it there finds another one. A broker's is its own for good.
func (s *store) leave() (back func()) {
	if s.kafka != nil {
		return func() {}
	}
	addr := s.addr.Swap("")
	return func() { s.addr.Store(addr) }
}

// Info implements env.Component. Flush is measured once, at the first call.
func (s *store) Info(ctx context.Context) (env.Info, error) {
	info, err := s.Store.Info(ctx, s.settings)
	if err != nil {
		return env.Info{}, err
	}
	if info.Source, err = s.engine.digest(ctx, s.image.ref); err != nil {
		return env.Info{}, err
	}
	info.Settings["container_network"] = "published port"
	if s.direct {
		info.Settings["container_network"] = "direct"
	}
	if s.kafka != nil {
		if err := s.kafkaInfo(ctx, &info); err != nil {
			return env.Info{}, err
		}
	}
	if info.Flush, err = s.flush(); err != nil {
		return env.Info{}, err
	}
	return info, nil
}

func (s *store) LogTail(lines int) string {
	ctx, cancel := context.WithTimeout(context.Background(), commandBound)
	defer cancel()
	log, err := s.log(ctx, strconv.Itoa(lines))
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return strings.TrimRight(string(log), "\n")
}

// log reads the last lines of the container's log, or "all".
func (s *store) log(ctx context.Context, tail string) ([]byte, error) {
	if s.container() == "" {
		return nil, errors.New("there is no container")
	}
	stream, err := s.engine.ContainerLogs(ctx, s.container(), client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: tail})
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", s.service, err)
	}
	defer stream.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, stream); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the log of %s: %w", s.service, err)
	}
	return out.Bytes(), nil
}

// remove ends the container and removes it with its data.
func (s *store) remove(ctx context.Context) error {
	var errs []error
	if id := s.container(); id != "" {
		errs = append(errs, s.engine.removeContainer(ctx, id))
	}
	if s.volume != "" {
		errs = append(errs, s.engine.removeVolume(ctx, s.volume))
	}
	return errors.Join(errs...)
}

func (e *engine) removeContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{
		Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
	return nil
}

func (e *engine) removeVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	_, err := e.VolumeRemove(ctx, name, client.VolumeRemoveOptions{Force: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove volume %.12s: %w", name, err)
	}
	return nil
}
