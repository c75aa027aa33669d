// Package docker holds what the stores stand on: the configuration that
// containers and local processes share, and the files that build the images.
package docker

import _ "embed"

// PostgresConf is postgresql.conf, the same for every backend.
//
//go:embed postgres/postgresql.conf
var PostgresConf []byte

// RedisConf is redis.conf, the same for every backend.
//
//go:embed redis/redis.conf
var RedisConf []byte

// KafkaConf is server.properties, the same for every backend; what depends on
// the run is appended.
//
//go:embed kafka/server.properties
var KafkaConf []byte

// KafkaLogging says what a Kafka broker logs, and that it does so to its
// standard output.
//
//go:embed kafka/log4j2.properties
var KafkaLogging []byte

// KafkaPom pins the jars of the Kafka broker, for Maven.
//
//go:embed kafka/pom.xml
var KafkaPom []byte
