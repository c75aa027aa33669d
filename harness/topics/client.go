package topics

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

const (
	// leastRequest is the shortest time that the driver takes for an answer.
	leastRequest = 100 * time.Millisecond
	// mostRest is how long the driver waits at most before it tries again.
	mostRest = time.Second
)

// backOff is how long the driver waits after so many failures.
func backOff(fails int) time.Duration { return mostRest >> max(3-fails, 0) }

// Options are what every client of a run starts from: the brokers, and what
// the scenario says about acknowledgement, batches and fetches. A record that
// is not delivered within cfg.Timeout, or a second if that is longer, fails,
// with its outcome unknown. An unknown word in the settings is an error.
//
// A producer that waited for the fate of what it has sent would wait for ever
// where too few brokers are left, deadline or not. So it gives up, with a new
// epoch: its own retries still write nothing twice, the caller's may.
func Options(cfg sut.Config) ([]kgo.Opt, error) {
	opts, err := options(cfg)
	if err == nil && cfg.Kafka.Idempotence {
		opts = append(opts, kgo.AllowIdempotentProduceCancellation())
	}
	return opts, err
}

// Open makes a client of Options and more. It connects when it is used first, and asks again
// until a broker answers.
func Open(cfg sut.Config, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := Options(cfg)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	return client, nil
}

// Transactional are Options of a client that writes in transactions under an identity of its own.
// The broker aborts one that lasts for longer than timeout. Its writes cannot be given up one by
// one, as those of Options are: they end with their transaction.
func Transactional(cfg sut.Config, id string, timeout time.Duration) ([]kgo.Opt, error) {
	if !cfg.Kafka.Idempotence {
		return nil, fmt.Errorf("transactions need a producer with idempotence")
	}
	opts, err := options(cfg)
	return append(opts, kgo.TransactionalID(Name(cfg, id)), kgo.TransactionTimeout(timeout)), err
}

func options(cfg sut.Config) ([]kgo.Opt, error) {
	if len(cfg.KafkaBrokers) == 0 {
		return nil, fmt.Errorf("there is no kafka: the variant must list it among its needs")
	}
	k := cfg.Kafka
	codec, err := codecOf(k.Compression)
	if err != nil {
		return nil, err
	}
	acks, err := acksOf(k.Acks)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.KafkaBrokers...),
		kgo.ClientID("stampede"),
		// Statistics of the driver's own would be traffic that no variant sent.
		kgo.DisableClientMetrics(),
		kgo.RequiredAcks(acks),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(k.Linger.D()),
		// A broker that is silent is given up, and its connection with it.
		kgo.RequestTimeoutOverhead(max(cfg.Timeout, leastRequest)),
		kgo.RecordDeliveryTimeout(cfg.Delivery()),
		kgo.ProduceRequestTimeout(cfg.Delivery()),
		// A broker that is back is found soon.
		kgo.RetryBackoffFn(backOff), kgo.MetadataMinAge(mostRest),
		kgo.FetchMinBytes(int32(max(k.FetchMinBytes, 1))),
		kgo.FetchMaxWait(k.FetchMaxWait.D()),
		kgo.FetchMaxBytes(int32(k.FetchMaxBytes)),
		kgo.FetchMaxPartitionBytes(int32(k.FetchPartitionBytes)),
	}
	if !k.Idempotence {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if cfg.Dial != nil {
		opts = append(opts, kgo.Dialer(cfg.Dial))
	}
	return opts, nil
}

func acksOf(word string) (kgo.Acks, error) {
	switch word {
	case "all":
		return kgo.AllISRAcks(), nil
	case "leader":
		return kgo.LeaderAck(), nil
	case "none":
		return kgo.NoAck(), nil
	}
	return kgo.Acks{}, fmt.Errorf("acks %q: expected all, leader or none", word)
}

func codecOf(word string) (kgo.CompressionCodec, error) {
	switch word {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("compression %q: expected none, gzip, snappy, "+
		"lz4 or zstd", word)
}
