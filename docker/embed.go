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
