package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
)

// Where the images of Kafka, the official one and ours, have their things.
const (
	kafkaLibs   = "/opt/kafka/libs"
	kafkaData   = "/var/lib/kafka/data"
	loggingPath = "/etc/stampede/log4j2.properties"
)

// brokerScript formats an empty volume and becomes the broker. The flags are
// those of local processes and the script's arguments; an archive of classes that
// an image does not have, or that does not fit, is passed over in silence.
const brokerScript = `set -e
flags="-XX:-UsePerfData -XX:SharedArchiveFile=/opt/kafka/kafka.jsa -Xshare:auto -Xlog:cds*=off
  -Dlog4j2.configurationFile=file:` + loggingPath + `"
if [ ! -f ` + kafkaData + `/log/meta.properties ]; then
  java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $flags -cp '` + kafkaLibs + `/*' \
    kafka.tools.StorageTool format --cluster-id ` + admin.KafkaClusterID + ` --config ` + confPath + `
fi
exec java ` + admin.KafkaHeapFlags + ` $flags "$@" -cp '` + kafkaLibs + `/*' kafka.Kafka ` + confPath

// kafkaRecipes says how to run the brokers of a cluster.
func kafkaRecipes(spec env.Spec, flags []string) ([]recipe, error) {
	brokers, ports, err := admin.KafkaBrokers(spec)
	recipes := make([]recipe, len(brokers))
	for i := range brokers {
		if err == nil {
			recipes[i], err = kafkaRecipe(&brokers[i], spec, ports, flags)
		}
	}
	return recipes, err
}

// kafkaRecipe says how to run one broker. It shares
// the network of this machine: its clients must reach it by the very address
// that it tells them, which the engine's forwarding knows only afterwards.
func kafkaRecipe(
	b *admin.KafkaBroker, spec env.Spec, ports *admin.Ports, flags []string,
) (r recipe, err error) {
	b.Data = kafkaData + "/log"
	if b.Direct, err = ports.FreeAddr(); err != nil {
		return recipe{}, err
	}
	if b.Told != "" {
		if b.Front, err = ports.FreeAddr(); err != nil {
			return recipe{}, err
		}
	}
	conf, err := admin.KafkaConf(docker.KafkaConf, spec.Kafka, *b)
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		service: b.Service(), kafka: b, data: kafkaData, conf: conf,
		entry: append([]string{"/bin/sh", "-c", brokerScript, "broker"}, flags...),
		store: b.At, settings: slices.Sorted(maps.Keys(spec.Kafka.Settings)),
	}, nil
}

// sharesNetwork returns nil if containers can have this machine's network: the
// engine runs on this kernel and as its root.
func (e *engine) sharesNetwork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineBound)
	defer cancel()
	found, err := e.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("ask the engine about itself: %w", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("ask the kernel for its release: %w", err)
	}
	rootless := slices.ContainsFunc(found.Info.SecurityOptions, func(option string) bool {
		return strings.Contains(option, "rootless")
	})
	if !e.local() || rootless || found.Info.KernelVersion != unix.ByteSliceToString(name.Release[:]) {
		return errors.New("kafka in a container needs an engine that runs on this machine as root, " +
			"so that brokers can share its network")
	}
	return nil
}

// FrontAddr implements env.Fronted. Where a store's clients find it by
// whatever address they were given, the front is its own address.
func (s *store) FrontAddr() string {
	if s.kafka == nil {
		return s.Addr()
	}
	return s.kafka.Front
}

// Identity implements env.Component. A broker's protocol does not tell one
// start from the next, so its container does.
func (s *store) Identity(ctx context.Context) (string, error) {
	if s.kafka == nil {
		return s.Store.Identity(ctx)
	}
	state, err := s.inspect(ctx)
	if err != nil {
		return "", err
	}
	if !state.State.Running {
		return "", fmt.Errorf("%s is not running", s.service)
	}
	return fmt.Sprintf("container %.12s, process %d, started at %s", s.container(), state.State.Pid,
		state.State.StartedAt), nil
}

// clientsJar names the jar that has the version in its name.
var clientsJar = regexp.MustCompile(`kafka-clients-([0-9.]+[0-9])\.jar`)

// kafkaInfo adds what only the image knows.
func (s *store) kafkaInfo(ctx context.Context, info *env.Info) error {
	listed, err := s.exec(ctx, "ls", kafkaLibs)
	if err != nil {
		return err
	}
	if found := clientsJar.FindSubmatch(listed); found != nil {
		info.Version = string(found[1])
	}
	info.Settings["java_heap"] = admin.KafkaHeap
	info.Settings["container_network"] = "host"
	return nil
}
