package external

import (
	"strings"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// LabVariable is set in the environment of what uses a lab's stores, to the backend that runs
// them. Without it the addresses are those of the user's own servers.
const LabVariable = "STAMPEDE_LAB"

// variables hold the addresses of servers. The flags --postgres-url, --redis-url and
// --kafka-brokers have them as their defaults.
var variables = map[sut.Service]string{sut.Postgres: "STAMPEDE_POSTGRES_URL",
	sut.Replica: "STAMPEDE_REPLICA_URL", sut.Redis: "STAMPEDE_REDIS_URL",
	sut.Kafka: "STAMPEDE_KAFKA_BROKERS"}

// Environ is the addresses of started services as environment variables, KEY=value, for
// Located to read.
func Environ(services []sut.Service, cluster env.Cluster) (pairs []string) {
	for _, service := range services {
		component := cluster.Component(service)
		address := component.Addr()
		switch service {
		case sut.Postgres, sut.Replica:
			address = admin.PostgresURL(address)
		case sut.Redis:
			address = admin.RedisURL(address)
		}
		pairs = append(pairs, variables[service]+"="+address)
	}
	return pairs
}

// Located adds to a spec the addresses of its services that the environment has, and says
// whether it has all of them.
func Located(spec env.Spec, getenv func(string) string) (env.Spec, bool) {
	for _, service := range spec.Services {
		address := getenv(variables[service])
		if address == "" {
			return spec, false
		}
		switch service {
		case sut.Postgres:
			spec.PostgresURL = address
		case sut.Replica:
			spec.ReplicaURL = address
		case sut.Redis:
			spec.RedisURL = address
		case sut.Kafka:
			spec.KafkaBrokers = strings.Split(address, ",")
		}
	}
	return spec, true
}
