package sut

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KafkaSettings say how Kafka is set up, how topics are made and how clients
// speak to them.
type KafkaSettings struct {
	// Brokers is how many brokers the cluster has, 1 or 3. Of three, each can
	// be broken alone, as kafka-1, kafka-2 and kafka-3.
	Brokers int `json:"brokers,omitempty" enum:"1,3"`
	// Partitions is how many partitions a topic has, 1 to 100, unless the
	// system gives it a number of its own.
	Partitions int `json:"partitions,omitempty" min:"1" max:"100"`
	// Replication is how many brokers keep a partition; 0 means all of them.
	Replication int `json:"replication,omitempty" min:"0" max:"3"`
	// MinInSync is how many brokers must have a record that is acknowledged
	// to acks all; 0 means one less than Replication, but one at least.
	MinInSync int `json:"min_insync,omitempty" min:"0" max:"3"`
	// Acks is who must have a record before it is acknowledged: all, leader or
	// none.
	Acks string `json:"acks,omitempty" enum:"all,leader,none"`
	// Idempotence keeps a producer's retries from writing a record twice. It
	// needs acks all.
	Idempotence bool `json:"idempotence"`
	// Compression of batches is none, gzip, snappy, lz4 or zstd.
	Compression string `json:"compression,omitempty" enum:"none,gzip,snappy,lz4,zstd"`
	// Linger is how long a producer waits for a batch to fill.
	Linger Duration `json:"linger" min:"0s" max:"1m"`
	// FetchMinBytes is how much a broker gathers for a consumer before it
	// answers, but no longer than FetchMaxWait.
	FetchMinBytes int      `json:"fetch_min_bytes,omitempty" min:"1" max:"1073741824"`
	FetchMaxWait  Duration `json:"fetch_max_wait,omitempty" min:"10ms" max:"1m"`
	// FetchMaxBytes bounds one answer to a consumer, FetchPartitionBytes what
	// one partition adds to it.
	FetchMaxBytes       int `json:"fetch_max_bytes,omitempty" min:"1" max:"1073741824"`
	FetchPartitionBytes int `json:"fetch_partition_bytes,omitempty" min:"1" max:"1073741824"`
	// Settings override settings of the brokers' committed configuration.
	Settings map[string]string `json:"settings,omitempty"`
}

// DefaultKafka is one broker, topics of 12 partitions, and clients that lose
// and double nothing of what was acknowledged.
func DefaultKafka() KafkaSettings {
	return KafkaSettings{
		Brokers: 1, Partitions: 12, Acks: "all", Idempotence: true, Compression: "snappy",
		Linger: Duration(5 * time.Millisecond), FetchMinBytes: 1,
		FetchMaxWait:  Duration(500 * time.Millisecond),
		FetchMaxBytes: 50 << 20, FetchPartitionBytes: 1 << 20,
	}
}

// Replicas is Replication with its default filled in.
func (k KafkaSettings) Replicas() int { return cmp.Or(k.Replication, max(k.Brokers, 1)) }

// InSync is MinInSync with its default filled in.
func (k KafkaSettings) InSync() int { return cmp.Or(k.MinInSync, max(1, k.Replicas()-1)) }

// leastDelivery is the shortest time that the driver takes for the delivery of a record.
const leastDelivery = time.Second

// Delivery is how long a producer tries to have a record stored.
func (c Config) Delivery() time.Duration { return max(c.Timeout, leastDelivery) }

// followers is how many followers must have a record before it is acknowledged.
func (k KafkaSettings) followers() int {
	if k.Acks != "all" {
		return 0
	}
	return k.Replicas() - 1
}

// KafkaBroker is one broker of a cluster of several, from 1: kafka-2. Faults
// may aim at it; no variant needs it alone.
func KafkaBroker(number int) Service {
	return Kafka + Service("-"+strconv.Itoa(number))
}

// Split is what a numbered part, such as the broker kafka-2 or the replica
// counter-2 of a role, is part of, and its number from 1; anything else is whole
// and has number 0.
func (s Service) Split() (whole Service, number int) {
	i := strings.LastIndexByte(string(s), '-')
	if i <= 0 {
		return s, 0
	}
	n, err := strconv.ParseUint(string(s[i+1:]), 10, 16)
	if err != nil || n == 0 {
		return s, 0
	}
	return s[:i], int(n)
}

// Whole is what a numbered part is part of, and anything else itself.
func (s Service) Whole() Service {
	whole, _ := s.Split()
	return whole
}

// Stores lists the stores and brokers.
func Stores() []Service { return []Service{Postgres, Replica, Redis, Kafka} }

// Store says whether it is a store or a broker, and not a role.
func (s Service) Store() bool {
	whole := s.Whole()
	return slices.Contains(Stores(), whole)
}

// Shares says whether two targets of faults have a process in common.
func (s Service) Shares(other Service) bool {
	return s == other || s.Whole() == other || other.Whole() == s
}
