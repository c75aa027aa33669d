package external_test

import (
	"slices"
	"strings"
	"testing"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/external"
	"stampede/harness/sut"
)

// at is a cluster of which only the addresses are known.
type at struct{ env.Cluster }

func (at) Component(service sut.Service) env.Component { return placed{service: service} }

type placed struct {
	env.Component
	service sut.Service
}

func (p placed) Addr() string {
	return map[sut.Service]string{sut.Postgres: "127.0.0.1:1", sut.Redis: "127.0.0.1:2",
		sut.Kafka: "127.0.0.1:3"}[p.service]
}

// TestLocatedReadsEnviron: what Environ wrote is what Located finds, if nothing is missing.
func TestLocatedReadsEnviron(t *testing.T) {
	some := []sut.Service{sut.Kafka, sut.Postgres, sut.Redis}
	pairs := external.Environ(some, at{})
	getenv := func(name string) string {
		for _, pair := range pairs {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
	found, ok := external.Located(env.Spec{Services: some, RunID: "x"}, getenv)
	if !ok || found.RunID != "x" || found.PostgresURL != admin.PostgresURL("127.0.0.1:1") ||
		found.RedisURL != admin.RedisURL("127.0.0.1:2") ||
		!slices.Equal(found.KafkaBrokers, []string{"127.0.0.1:3"}) {
		t.Errorf("%q became %+v, %v", pairs, found, ok)
	}
	pairs = pairs[1:]
	if _, ok := external.Located(env.Spec{Services: some}, getenv); ok {
		t.Error("there is no Kafka, and all of it was found")
	}
	if _, ok := external.Located(env.Spec{Services: some[1:]}, getenv); !ok {
		t.Error("what is missing is not needed")
	}
}
