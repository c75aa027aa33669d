package processes

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// Files in a broker's folder; its log is in a folder below it.
const (
	brokerFile  = "server.properties"
	loggingFile = "log4j2.properties"
	brokerData  = "data"
	checkpoint  = "bootstrap.checkpoint" // in brokerData
)

// broker is what a Kafka broker has beside what every store has.
type broker struct {
	admin.KafkaBroker
	settings sut.KafkaSettings
	// front is the port that the proxy, if there is one, passes connections on to.
	front atomic.Int32
	// flags are Java's, beside those that every broker has.
	flags []string
	ports *admin.Ports
	// fake is set where kfake takes the broker's place.
	fake bool
}

// kafkaRecipes says how to run the brokers of a cluster.
func kafkaRecipes(program Program, spec env.Spec, more []string) ([]recipe, error) {
	who, err := servant("kafka")
	if err != nil {
		return nil, err
	}
	brokers, ports, err := admin.KafkaBrokers(spec)
	recipes := make([]recipe, len(brokers))
	for i, one := range brokers {
		b := &broker{KafkaBroker: one, settings: spec.Kafka, ports: ports,
			flags: slices.Concat(archiveFlags(program), more)}
		if err == nil {
			recipes[i], err = b.recipe(program, who)
		}
	}
	return recipes, err
}

// recipe says how to run one broker. The settings are tried out at once.
func (b *broker) recipe(program Program, who *syscall.Credential) (recipe, error) {
	if _, err := b.conf("/", admin.Loopback(1), ""); err != nil {
		return recipe{}, err
	}
	return recipe{
		service: b.Service(), program: program, who: who, orderly: syscall.SIGTERM,
		last: syscall.SIGKILL, kafka: b,
		ports:    b.ports,
		settings: slices.Sorted(maps.Keys(b.settings.Settings)),
		prepare:  func(ctx context.Context, dir string) error { return b.format(ctx, program, who, dir) },
		command: func(dir string, port int) (*exec.Cmd, error) {
			if err := b.configure(dir, port, who); err != nil {
				return nil, err
			}
			flags := slices.Concat(brokerFlags(dir), b.flags)
			return exec.Command(program.Java, javaArgs(program, flags, "kafka.Kafka", brokerFile)...), nil
		},
		store: b.At,
	}, nil
}

// conf is the broker's configuration.
func (b *broker) conf(dir, direct, front string) ([]byte, error) {
	one := b.KafkaBroker
	one.Direct, one.Front, one.Data = direct, front, filepath.Join(dir, brokerData)
	return admin.KafkaConf(docker.KafkaConf, b.settings, one)
}

// configure writes the configuration for a start on a port. The front's port,
// which nobody but the proxy knows, is a new one each time.
func (b *broker) configure(dir string, port int, who *syscall.Credential) error {
	front := ""
	if b.Told != "" {
		free, err := b.ports.Free()
		if err != nil {
			return err
		}
		b.front.Store(int32(free))
		front = admin.Loopback(free)
	}
	if len(b.Voters) == 1 { // several must know each other's
		addr, err := b.ports.FreeAddr()
		if err != nil {
			return err
		}
		b.Voters[0] = addr
	}
	conf, err := b.conf(dir, admin.Loopback(port), front)
	if err != nil {
		return err
	}
	return writeConf(filepath.Join(dir, brokerFile), conf, who)
}

// format makes the broker's folder into one that a broker can start on.
func (b *broker) format(
	ctx context.Context, program Program, who *syscall.Credential, dir string,
) error {
	if err := writeConf(filepath.Join(dir, loggingFile), docker.KafkaLogging, who); err != nil {
		return err
	}
	conf, err := b.conf(dir, admin.Loopback(1), "") // it listens nowhere yet
	if err != nil {
		return err
	}
	if err := writeConf(filepath.Join(dir, brokerFile), conf, who); err != nil {
		return err
	}
	// The first records of a cluster depend on the jars alone, unless a setting changes them. They
	// are kept, because the tool is a JVM that runs for a second.
	kept, unchanged := program.Path+".checkpoint", len(b.settings.Settings) == 0
	records, err := os.ReadFile(kept)
	if err == nil && unchanged {
		return b.formatAs(records, dir, who)
	}
	flags := slices.Concat(toolFlags(dir), archiveFlags(program))
	args := javaArgs(program, flags, "kafka.tools.StorageTool", "format",
		"--cluster-id", admin.KafkaClusterID, "--config", brokerFile)
	if err := runTool(ctx, who, dir, "format "+dir+" for kafka", program.Java, args...); err != nil {
		return err
	}
	records, err = os.ReadFile(filepath.Join(dir, brokerData, checkpoint))
	if err == nil && unchanged {
		_ = writeWhole(kept, records) // the cache may be read-only
	}
	return nil
}

// formatAs writes the files of kafka.tools.StorageTool: the broker's identity and the first records
// of its cluster.
func (b *broker) formatAs(records []byte, dir string, who *syscall.Credential) error {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	id[0] &= 0x7f        // Kafka avoids an identity that begins with "-"
	data := filepath.Join(dir, brokerData)
	if err := errors.Join(os.MkdirAll(data, 0o700), own(data, who)); err != nil {
		return fmt.Errorf("format %s for kafka: %w", dir, err)
	}
	meta := fmt.Sprintf("version=1\nnode.id=%d\ndirectory.id=%s\ncluster.id=%s\n", b.Node,
		base64.RawURLEncoding.EncodeToString(id), admin.KafkaClusterID)
	return errors.Join(writeConf(filepath.Join(data, "meta.properties"), []byte(meta), who),
		writeConf(filepath.Join(data, checkpoint), records, who))
}

// javaArgs have Java run a class of the broker's jars.
func javaArgs(program Program, flags []string, class string, args ...string) []string {
	return slices.Concat(flags, []string{"-cp", filepath.Join(program.Path, "*"), class}, args)
}

// broker says whether the store is a Kafka broker.
func (s *server) broker() bool { return s.kafka != nil }

// FrontAddr implements env.Fronted. Where a store's clients find it by
// whatever address they were given, the front is its own address.
func (s *server) FrontAddr() string {
	if !s.broker() {
		return s.Addr()
	}
	if s.kafka.Told == "" {
		return ""
	}
	return admin.Loopback(int(s.kafka.front.Load()))
}

// Identity implements env.Component. A broker's protocol does not tell one
// start from the next, so its process does.
func (s *server) Identity(ctx context.Context) (string, error) {
	if !s.broker() {
		return s.Store.Identity(ctx)
	}
	s.mu.Lock()
	child, err := s.running()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	stat, err := env.StatOf(child.pid)
	if err != nil {
		return "", fmt.Errorf("look at the process of %s: %w", s.service, err)
	}
	return fmt.Sprintf("process %d, started at tick %d", child.pid, stat.Started), nil
}
