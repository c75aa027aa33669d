package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stampede/harness/env"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Kafka administers one broker, or a cluster of them.
type Kafka struct {
	// Brokers are host:port; they are asked for at each call, because a broker
	// may come back at another port.
	Brokers func() []string
	// Node is the broker that is asked about; 0 means the whole cluster.
	Node int
	// Probe is the topic in which readiness is proved; without one, nothing is
	// written. Replicas is how many brokers there are to keep it, 0 as many as
	// the cluster itself says.
	Probe    string
	Replicas int
}

var _ Store = Kafka{}

// ProbeTopic is the topic in which readiness of a cluster of our own is proved.
const ProbeTopic = "stampede-ready"

// KafkaClusterID names every cluster that stampede starts; each has folders of
// its own.
const KafkaClusterID = "c3RhbXBlZGUta2Fma2EtMQ"

// KafkaHeap is what a broker's Java may use beside the page cache, and
// KafkaHeapFlags how the broker's own scripts start it, with that.
const (
	KafkaHeap      = "512m"
	KafkaHeapFlags = "-Xms" + KafkaHeap + " -Xmx" + KafkaHeap + " -XX:+UseG1GC " +
		"-XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 " +
		"-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
)

// kafkaReadyTimeout bounds one question whether a broker is ready, the making
// of the topic of readiness included.
const kafkaReadyTimeout = 5 * time.Second

// client opens a client without hidden retries, whose connections end with
// ctx: the driver itself waits ten seconds for the first answer of a broker
// that is silent, whatever its caller's deadline.
func (k Kafka) client(
	ctx context.Context, brokers []string, opts ...kgo.Opt,
) (*kgo.Client, error) {
	dial := func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: readyTimeout}).DialContext(ctx, network, addr)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() }) // it may have been closed before
		}
		return conn, err
	}
	base := []kgo.Opt{
		kgo.Dialer(dial),
		kgo.SeedBrokers(brokers...),
		kgo.ClientID("stampede-admin"),
		kgo.DisableClientMetrics(),
		kgo.RequestRetries(1),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client of kafka: %w", err)
	}
	return client, nil
}

// with runs f on a client that is closed afterwards.
func (k Kafka) with(ctx context.Context, f func(context.Context, *kgo.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	client, err := k.client(ctx, k.Brokers())
	if err != nil {
		return err
	}
	defer client.Close()
	return inTime(ctx, f(ctx, client))
}

// inTime says of an error that it came because time was up: what the driver
// says then is that its connection was closed.
func inTime(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("ask kafka: %w (%w)", ctx.Err(), err)
	}
	return err
}

// Ready implements Store.
func (k Kafka) Ready(ctx context.Context) error { return k.ready(ctx, k.Brokers()) }

// ReadyAt implements Store: the broker at addr knows the cluster, is in sync
// with what it replicates, and a record that is produced can be read again.
func (k Kafka) ReadyAt(ctx context.Context, addr string) error {
	return k.ready(ctx, []string{addr})
}

func (k Kafka) ready(ctx context.Context, brokers []string) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaReadyTimeout)
	defer cancel()
	client, err := k.client(ctx, brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	return inTime(ctx, k.proven(ctx, client, brokers))
}

// proven asks by a client that is connected to some of the brokers.
func (k Kafka) proven(ctx context.Context, client *kgo.Client, brokers []string) error {
	// A seed that cannot be reached says so here; metadata would be asked for
	// again and again.
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("ask kafka: %w", err)
	}
	if k.Probe == "" {
		return nil
	}
	if err := k.inSync(ctx, client); err != nil {
		return err
	}
	return k.echo(ctx, brokers)
}

// inSync returns nil if the topic of readiness is there and the broker, or
// each one of the cluster, has all of it.
func (k Kafka) inSync(ctx context.Context, client *kgo.Client) error {
	admin := kadm.NewClient(client)
	found, err := admin.Metadata(ctx, k.Probe)
	if err != nil {
		return fmt.Errorf("ask kafka for its metadata: %w", err)
	}
	topic := found.Topics[k.Probe]
	if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
		err := k.makeProbe(ctx, admin)
		if err != nil {
			return err
		}
		return fmt.Errorf("topic %s has just been made", k.Probe)
	}
	if topic.Err != nil {
		return fmt.Errorf("ask kafka for topic %s: %w", k.Probe, topic.Err)
	}
	if k.Node > 0 && !slices.ContainsFunc(found.Brokers, k.isNode) {
		return fmt.Errorf("broker %d is not part of the cluster", k.Node)
	}
	for _, p := range topic.Partitions.Sorted() {
		switch {
		case p.Err != nil:
			return fmt.Errorf("ask kafka for topic %s: %w", k.Probe, p.Err)
		case p.Leader < 0:
			return fmt.Errorf("partition %d of topic %s has no leader", p.Partition, k.Probe)
		case k.Node == 0 && len(p.ISR) < k.Replicas:
			return fmt.Errorf("only brokers %v are in sync", p.ISR)
		case k.Node > 0 && !slices.Contains(p.ISR, int32(k.Node)):
			return fmt.Errorf("broker %d is not in sync", k.Node)
		}
	}
	return nil
}

func (k Kafka) isNode(b kadm.BrokerDetail) bool { return b.NodeID == int32(k.Node) }

// makeProbe makes the topic of readiness; that another broker's question has
// made it meanwhile is no error.
func (k Kafka) makeProbe(ctx context.Context, admin *kadm.Client) error {
	partitions, replicas := int32(k.Replicas), int16(k.Replicas)
	if k.Replicas == 0 {
		partitions, replicas = 1, -1
	}
	_, err := admin.CreateTopic(ctx, partitions, replicas, nil, k.Probe)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("make topic %s: %w", k.Probe, err)
	}
	return nil
}

// echo produces a record that was never seen before and reads it again.
func (k Kafka) echo(ctx context.Context, brokers []string) error {
	word := []byte(rand.Text())
	partition := int32(max(k.Node-1, 0))
	record := &kgo.Record{Topic: k.Probe, Partition: partition, Value: word}
	writer, err := k.client(ctx, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordRetries(1))
	if err != nil {
		return err
	}
	defer writer.Close()
	if err := writer.ProduceSync(ctx, record).FirstErr(); err != nil {
		return fmt.Errorf("produce a record: %w", err)
	}
	reader, err := k.client(ctx, brokers, kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			k.Probe: {partition: kgo.NewOffset().At(record.Offset)},
		}))
	if err != nil {
		return err
	}
	defer reader.Close()
	fetched := reader.PollRecords(ctx, 1)
	if err := fetched.Err(); err != nil {
		return fmt.Errorf("read a record again: %w", err)
	}
	for _, got := range fetched.Records() {
		if got.Offset == record.Offset && bytes.Equal(got.Value, word) {
			return nil
		}
	}
	return errors.New("read a record again: it is a different one")
}

// Identity implements Store by the id of the cluster, which is all that the
// protocol tells; a backend knows the broker's process.
func (k Kafka) Identity(ctx context.Context) (id string, err error) {
	err = k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		found, err := kadm.NewClient(client).BrokerMetadata(ctx)
		if err != nil {
			return fmt.Errorf("ask kafka for its metadata: %w", err)
		}
		id = found.Cluster
		return nil
	})
	return id, err
}

// kafkaSettings decide what Kafka's numbers mean.
var kafkaSettings = []string{
	"min.insync.replicas", "default.replication.factor", "log.flush.interval.messages",
	"log.flush.interval.ms", "unclean.leader.election.enable", "broker.session.timeout.ms",
	"group.initial.rebalance.delay.ms", "num.io.threads", "num.network.threads",
}

// never is how Kafka writes that it flushes after no number of records.
const never = "9223372036854775807"

// Info implements Store. An unknown setting is an error.
func (k Kafka) Info(ctx context.Context, also []string) (env.Info, error) {
	info := env.Info{Kind: "kafka", Settings: map[string]string{}}
	err := k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		found, err := admin.BrokerMetadata(ctx)
		if err != nil {
			return fmt.Errorf("ask kafka for its metadata: %w", err)
		}
		info.Settings["brokers"] = strconv.Itoa(len(found.Brokers))
		node := found.Brokers[0].NodeID
		if k.Node > 0 {
			node = int32(k.Node)
		}
		if info.Version, err = versionOf(ctx, admin, node); err != nil {
			return err
		}
		return describe(ctx, client, node, slices.Concat(kafkaSettings, also), info.Settings)
	})
	info.Settings["flush_policy"] = flushPolicy(info.Settings)
	return info, err
}

// versionOf guesses the version from the requests that a broker takes.
func versionOf(ctx context.Context, admin *kadm.Client, node int32) (string, error) {
	all, err := admin.ApiVersions(ctx)
	if err != nil {
		return "", fmt.Errorf("ask kafka for its version: %w", err)
	}
	one, ok := all[node]
	if !ok || one.Err != nil {
		return "", fmt.Errorf("ask kafka for its version: broker %d: %w", node, one.Err)
	}
	return strings.TrimPrefix(one.VersionGuess(), "v"), nil
}

// describe asks a broker for settings. One that is not Kafka's own has a value
// all the same, that of the file, but no type.
func describe(
	ctx context.Context, client *kgo.Client, node int32, wanted []string, into map[string]string,
) error {
	ask := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	resource.ResourceName = strconv.Itoa(int(node))
	ask.Resources = append(ask.Resources, resource)
	answer, err := ask.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Resources[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("ask kafka for its settings: %w", err)
	}
	values := map[string]string{}
	for _, config := range answer.Resources[0].Configs {
		if answer.Version < 3 || config.ConfigType != 0 {
			values[config.Name] = text(config.Value)
		}
	}
	for _, name := range wanted {
		value, ok := values[name]
		if !ok {
			return fmt.Errorf("kafka has no setting %s", name)
		}
		into[name] = value
	}
	return nil
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// flushPolicy says in words when a record is on disk.
func flushPolicy(settings map[string]string) string {
	messages, ms := settings["log.flush.interval.messages"], settings["log.flush.interval.ms"]
	switch {
	case messages == "1":
		return "a record is on disk before it is acknowledged"
	case messages != never && messages != "":
		return "flushed after " + messages + " records of a partition"
	case ms != "" && ms != never:
		return "flushed every " + ms + " ms"
	default:
		return "page cache: acknowledged before it is on disk; other brokers keep it"
	}
}

// DeletePrefix removes the topics and groups whose names start with a prefix.
func (k Kafka) DeletePrefix(ctx context.Context, prefix string) error {
	return k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		return topics.DeletePrefix(ctx, client, prefix)
	})
}

// Topics lists the topics and groups whose names start with a prefix.
func (k Kafka) Topics(ctx context.Context, prefix string) (names, groups []string, err error) {
	err = k.with(ctx, func(ctx context.Context, client *kgo.Client) error {
		names, groups, err = topics.List(ctx, client, prefix)
		return err
	})
	return names, groups, err
}

// KafkaBroker is what tells one broker's configuration from another's.
type KafkaBroker struct {
	// Node is its number, from 1, and Voters are the addresses of the
	// controllers by number, its own included.
	Node   int
	Voters []string
	// Direct and Front are where it listens, host:port; Front may be empty.
	// Told is what it tells those who come by the front: the proxy's address.
	Direct, Front, Told string
	// Data is the folder of its log.
	Data string
}

// KafkaBrokers are the brokers that a run is to have, with free addresses of their
// controllers, and what gives out more of them.
func KafkaBrokers(spec env.Spec) (list []KafkaBroker, ports *Ports, err error) {
	voters := make([]string, max(spec.Kafka.Brokers, 1))
	if n := len(spec.KafkaFronts); n > 0 && n != len(voters) {
		return nil, nil, fmt.Errorf("there are %d proxies for %d brokers", n, len(voters))
	}
	ports = NewPorts()
	for i := range voters {
		if voters[i], err = ports.FreeAddr(); err != nil {
			return nil, nil, err
		}
		list = append(list, KafkaBroker{Node: i + 1, Voters: voters})
		if len(spec.KafkaFronts) > 0 {
			list[i].Told = spec.KafkaFronts[i]
		}
	}
	return list, ports, nil
}

// Service names the broker.
func (b *KafkaBroker) Service() sut.Service {
	if len(b.Voters) == 1 {
		return sut.Kafka
	}
	return sut.KafkaBroker(b.Node)
}

// At administers the broker at an address that is asked for at each call. Where there is one
// broker, it is the cluster.
func (b *KafkaBroker) At(addr func() string) Store {
	k := Kafka{Brokers: func() []string { return []string{addr()} }, Replicas: len(b.Voters),
		Probe: ProbeTopic}
	if len(b.Voters) > 1 {
		k.Node = b.Node
	}
	return k
}

// KafkaConf is a broker's configuration: the committed one, what depends on
// the run, and the settings of the scenario; the last line of a name wins.
func KafkaConf(base []byte, settings sut.KafkaSettings, b KafkaBroker) ([]byte, error) {
	if err := checkSettings("kafka.settings", settings.Settings); err != nil {
		return nil, err
	}
	brokers := len(b.Voters)
	var voters []string
	for i, addr := range b.Voters {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, addr))
	}
	listeners := "DIRECT://" + b.Direct
	advertised := listeners
	if b.Front != "" {
		listeners += ",FRONT://" + b.Front
		advertised += ",FRONT://" + b.Told
	}
	out := bytes.NewBuffer(slices.Clone(base))
	line := func(name, value string) { fmt.Fprintf(out, "\n%s=%s", name, escapeProperty(value)) }
	line("node.id", strconv.Itoa(b.Node))
	line("controller.quorum.voters", strings.Join(voters, ","))
	line("listeners", listeners+",CONTROLLER://"+b.Voters[b.Node-1])
	line("advertised.listeners", advertised)
	line("log.dirs", b.Data)
	line("default.replication.factor", strconv.Itoa(settings.Replicas()))
	line("min.insync.replicas", strconv.Itoa(settings.InSync()))
	line("offsets.topic.replication.factor", strconv.Itoa(brokers))
	for _, topic := range []string{"transaction.state.log", "share.coordinator.state.topic"} {
		line(topic+".replication.factor", strconv.Itoa(brokers))
		line(topic+".min.isr", strconv.Itoa(max(1, brokers-1)))
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Settings)) {
		line(name, settings.Settings[name])
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// escapeProperty writes a value as Java reads it: a backslash stands for
// itself only when doubled, and blanks at the front would be lost.
func escapeProperty(value string) string {
	value = strings.ReplaceAll(value, `\`, `\\`)
	if strings.HasPrefix(value, " ") || strings.HasPrefix(value, "\t") {
		value = `\` + value
	}
	return value
}
