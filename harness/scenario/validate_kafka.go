package scenario

import (
	"fmt"
	"slices"
	"time"

	"stampede/harness/schema"
	"stampede/harness/sut"
)

// Limits of Kafka's settings.
const (
	maxBrokers    = 3
	maxPartitions = 100
	maxLinger     = time.Minute
	minFetchWait  = 10 * time.Millisecond
	maxFetchWait  = time.Minute
	maxFetchBytes = 1 << 30
)

// brokerCounts are how many brokers a cluster may have: alone, or as many as
// can lose one of them.
func brokerCounts() []int { return []int{1, maxBrokers} }

func acknowledgements() []string { return []string{"all", "leader", "none"} }

func compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// kafka checks the settings of Kafka, and leaves them out where nothing uses
// them.
func (v *validation) kafka() {
	k := &v.sc.Stores.Kafka
	path := func(name string) []string { return []string{"stores", "kafka", name} }
	if v.known && !v.systemNeeds(sut.Kafka) {
		if _, found := v.at("stores", "kafka"); found {
			v.reject(fmt.Sprintf("no design of %s needs kafka", v.sys.Name), "no stores.kafka",
				"stores", "kafka")
		}
		*k = sut.KafkaSettings{}
		return
	}
	if !slices.Contains(brokerCounts(), k.Brokers) {
		v.reject(fmt.Sprintf("a cluster of %d brokers", k.Brokers), "1 or 3", path("brokers")...)
		return
	}
	v.between(k.Partitions, 1, maxPartitions, path("partitions")...)
	v.between(k.Replication, 0, k.Brokers, path("replication")...)
	v.between(k.MinInSync, 0, k.Replicas(), path("min_insync")...)
	v.word(k.Acks, acknowledgements(), path("acks"))
	v.word(k.Compression, compressions(), path("compression"))
	if k.Idempotence && k.Acks != "all" {
		v.rejectTogether("idempotence needs acks all", "idempotence false, or acks all", path("acks"),
			"stores.kafka.idempotence")
	}
	v.kafkaClients(k, path)
}

// kafkaClients checks what producers and consumers are set to.
func (v *validation) kafkaClients(k *sut.KafkaSettings, path func(string) []string) {
	v.lasting(k.Linger, 0, maxLinger, path("linger"))
	v.lasting(k.FetchMaxWait, minFetchWait, maxFetchWait, path("fetch_max_wait"))
	v.between(k.FetchMinBytes, 1, maxFetchBytes, path("fetch_min_bytes")...)
	v.between(k.FetchMaxBytes, 1, maxFetchBytes, path("fetch_max_bytes")...)
	v.between(k.FetchPartitionBytes, 1, maxFetchBytes, path("fetch_partition_bytes")...)
	if k.FetchMinBytes > k.FetchMaxBytes {
		v.rejectTogether(
			fmt.Sprintf("a fetch of at least %d bytes is more than the most", k.FetchMinBytes),
			fmt.Sprintf("at most %d", k.FetchMaxBytes), path("fetch_min_bytes"),
			"stores.kafka.fetch_max_bytes")
	}
}

// systemNeeds says whether any variant of the system needs a service.
func (v *validation) systemNeeds(service sut.Service) bool {
	return slices.ContainsFunc(v.sys.Variants, func(variant sut.Variant) bool {
		return slices.Contains(variant.Needs, service)
	})
}

// word checks a value that is one of a few.
func (v *validation) word(value string, known []string, path []string) {
	if !slices.Contains(known, value) {
		v.unknownName(path[len(path)-1], value, known, path...)
	}
}

// lasting checks a duration between two others.
func (v *validation) lasting(value Duration, low, high time.Duration, path []string) {
	if value.D() < low || value.D() > high {
		v.reject(fmt.Sprintf("%s is out of range", value), fmt.Sprintf("%s to %s", low, high), path...)
	}
}

// refineKafka says in the schema what kafka checks.
func refineKafka(kafka schema.Schema) {
	d := sut.DefaultKafka()
	kafka.Property("brokers").With(schema.Schema{"enum": brokerCounts(), "default": d.Brokers})
	kafka.Property("partitions").With(bounds(1, maxPartitions))["default"] = d.Partitions
	kafka.Property("replication").With(bounds(0, maxBrokers))
	kafka.Property("min_insync").With(bounds(0, maxBrokers))
	kafka.Property("acks").With(enum(acknowledgements()))["default"] = d.Acks
	kafka.Property("idempotence")["default"] = d.Idempotence
	kafka.Property("compression").With(enum(compressions()))["default"] = d.Compression
	kafka.Property("linger")["default"] = d.Linger
	kafka.Property("fetch_max_wait")["default"] = d.FetchMaxWait
	kafka.Property("fetch_min_bytes").With(bounds(1, maxFetchBytes))["default"] = d.FetchMinBytes
	kafka.Property("fetch_max_bytes").With(bounds(1, maxFetchBytes))["default"] = d.FetchMaxBytes
	kafka.Property("fetch_partition_bytes").With(bounds(1, maxFetchBytes))["default"] =
		d.FetchPartitionBytes
}
