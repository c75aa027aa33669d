package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// kafkaOf is the user's own cluster, known by some of its brokers. Nothing is
// written to find out whether it is ready.
func kafkaOf(spec env.Spec) (*component, error) {
	seeds := spec.KafkaBrokers
	if len(seeds) == 0 {
		return nil, errors.New("kafka has no brokers: give --kafka-brokers")
	}
	for _, seed := range seeds {
		if host, port, err := net.SplitHostPort(seed); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("a broker of kafka is %q: expected host:port", seed)
		}
	}
	if len(spec.Kafka.Settings) > 0 {
		return nil, errors.New("the scenario changes settings of kafka, which stampede does not change " +
			"on your own brokers: set them there and remove stores.kafka.settings")
	}
	return &component{service: sut.Kafka, addr: seeds[0], url: "kafka://" + strings.Join(seeds, ","),
		Store: admin.Kafka{Brokers: func() []string { return seeds }}}, nil
}

// proveBound is how long a record may take that proves a cluster to be ready.
const proveBound = 30 * time.Second

// prove produces a record and reads it again, in a topic of the run's own that
// is gone afterwards.
func prove(ctx context.Context, store admin.Kafka, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, proveBound)
	defer cancel()
	store.Probe = topics.Prefix("stampede:" + runID + ":ready")
	if err := store.Untaken(ctx, store.Probe); err != nil {
		return err
	}
	for {
		err := store.Ready(ctx)
		if err == nil {
			return store.DeletePrefix(ctx, store.Probe)
		}
		if !sut.Pause(ctx, proveEvery) {
			return errors.Join(fmt.Errorf("produce a record to kafka: %w", err),
				store.DeletePrefix(context.WithoutCancel(ctx), store.Probe))
		}
	}
}

// proveEvery is how often a cluster is asked whether it is ready.
const proveEvery = 50 * time.Millisecond
