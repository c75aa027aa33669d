package processes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// kfakeName is what it is called wherever a result names it.
const kfakeName = "kfake"

// kfakeModule is where it comes from.
const kfakeModule = "github.com/twmb/franz-go/pkg/kfake"

// find is Find, with kfake in the place of a Kafka that has no Java.
func find(ctx context.Context, service sut.Service, spec env.Spec) (Program, error) {
	program, err := Find(ctx, service)
	if service == sut.Kafka && errors.Is(err, errNoJava) && len(spec.Kfake) > 0 {
		return Program{Name: kfakeName, Version: kfakeVersion(), Path: spec.Kfake[0]}, nil
	}
	return program, err
}

// kfakeVersion is the version of the module that this program was built with.
func kfakeVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == kfakeModule })
	if i < 0 {
		return "unknown"
	}
	return info.Deps[i].Version
}

// kfakeRecipe says how to run kfake in a process of its own. It runs as we do:
// it is this very program, which another user might not be able to read.
func kfakeRecipe(program Program, spec env.Spec) (recipe, error) {
	if spec.Kafka.Brokers > 1 {
		return recipe{}, fmt.Errorf("%d brokers need the real kafka, and there is %w; "+
			"`stampede doctor --fix` installs it", spec.Kafka.Brokers, errNoJava)
	}
	if len(spec.Kafka.Settings) > 0 {
		return recipe{}, fmt.Errorf("stores.kafka.settings are the real kafka's, and there is %w; "+
			"`stampede doctor --fix` installs it", errNoJava)
	}
	brokers, _, err := admin.KafkaBrokers(spec)
	if err != nil {
		return recipe{}, err
	}
	b := &broker{KafkaBroker: brokers[0], settings: spec.Kafka, fake: true}
	return recipe{
		service: sut.Kafka, program: program, orderly: syscall.SIGTERM,
		last: syscall.SIGKILL, kafka: b,
		prepare: func(context.Context, string) error { return nil },
		command: func(dir string, port int) (*exec.Cmd, error) {
			// It has one address, and names the proxy to everybody.
			b.front.Store(int32(port))
			args := append(slices.Clone(spec.Kfake[1:]), filepath.Join(dir, brokerData),
				strconv.Itoa(port), b.Told)
			return exec.Command(program.Path, args...), nil
		},
		store: b.At,
	}, nil
}

// kfakeInfo is what is known of kfake, none of which it tells itself.
func kfakeInfo(program Program) env.Info {
	return env.Info{Kind: kfakeName, Version: program.Version, Source: program.Path,
		Settings: map[string]string{
			"brokers":      "1",
			"flush_policy": "a record is on disk before it is acknowledged",
			"caution":      "a fake in one thread, without replication: its numbers are not Kafka's",
		}}
}

// ServeKfake serves kfake with its data in a folder, on a port of the loopback
// address, until ctx is over. It tells clients its own address, or that of the
// proxy before it if told is not empty. Each record is on disk before it is
// acknowledged.
func ServeKfake(ctx context.Context, dir string, port int, told string) error {
	listen := func(network, _ string) (net.Listener, error) {
		listener, err := net.Listen(network, admin.Loopback(port))
		if err != nil || told == "" {
			return listener, err
		}
		proxy, err := net.ResolveTCPAddr("tcp", told)
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		return &elsewhere{Listener: listener, addr: proxy}, nil
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(listen),
		kfake.DataDir(dir), kfake.SyncWrites(), kfake.ClusterID(admin.KafkaClusterID),
		kfake.GroupMinSessionTimeout(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("serve kfake: %w", err)
	}
	<-ctx.Done()
	cluster.Close()
	return nil
}

// elsewhere is a listener that names another address as its own.
type elsewhere struct {
	net.Listener
	addr net.Addr
}

// Addr returns the other address.
func (e *elsewhere) Addr() net.Addr { return e.addr }
