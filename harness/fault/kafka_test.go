package fault_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/envtest"
	"stampede/harness/fault"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// kafkaTargets starts brokers that tell their clients the addresses of the
// proxies before them.
func kafkaTargets(t *testing.T, brokers int) map[sut.Service]fault.Target {
	t.Helper()
	settings := sut.DefaultKafka()
	settings.Brokers = brokers
	spec := env.Spec{Services: []sut.Service{sut.Kafka}, Kafka: settings}
	members := make([]atomic.Pointer[env.Fronted], brokers)
	var proxies fault.Proxies
	for i := range brokers {
		upstream := func() string { return (*members[i].Load()).FrontAddr() }
		proxies = append(proxies, startProxy(t, upstream))
	}
	spec.KafkaFronts = proxies.Addrs()
	cluster := envtest.StartSpec(t, spec)
	whole := cluster.Component(sut.Kafka)
	made := map[sut.Service]fault.Target{sut.Kafka: {Component: whole, Proxies: proxies}}
	if brokers == 1 {
		members[0].Store(new(whole.(env.Fronted)))
		return made
	}
	for i, member := range whole.(env.Clustered).Members() {
		members[i].Store(new(member.(env.Fronted)))
		made[member.Service()] = fault.Target{Component: member, Proxies: proxies[i : i+1]}
	}
	return made
}

// TestEveryFaultOnABroker runs each kind on a broker whose clients know its
// proxy alone.
func TestEveryFaultOnABroker(t *testing.T) {
	made := kafkaTargets(t, 1)
	traffic(t, made)
	for _, kind := range fault.Kinds() {
		if len(kind.Targets([]string{"kafka"})) == 0 {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			firesAndHeals(t, made, scenario.Fault{Kind: string(kind), Target: "kafka"})
		})
	}
	if stats := made[sut.Kafka].Proxies.Stats(); stats.Delayed == 0 {
		t.Errorf("nothing passed the proxy: %+v", stats)
	}
}

// TestOneBrokerOfThree breaks one broker while the others work, and then what
// all of them are reached by.
func TestOneBrokerOfThree(t *testing.T) {
	made := kafkaTargets(t, 3)
	traffic(t, map[sut.Service]fault.Target{sut.Kafka: made[sut.Kafka]})
	for _, f := range []scenario.Fault{
		{Kind: "kill", Target: "kafka-2"}, {Kind: "pause", Target: "kafka-3"},
		{Kind: "lost-request", Target: "kafka"},
	} {
		t.Run(f.Kind+" "+f.Target, func(t *testing.T) { firesAndHeals(t, made, f) })
	}
}

func TestBrokersShareTheirCluster(t *testing.T) {
	half := scenario.Duration(time.Second / 2)
	for name, c := range map[string]struct {
		a, b string
		want bool
	}{
		"the same broker": {"kafka-1", "kafka-1", true},
		"all and one":     {"kafka", "kafka-2", true},
		"two of them":     {"kafka-1", "kafka-2", false},
		"another store":   {"kafka", "redis", false},
	} {
		err := fault.Schedule{Faults: []scenario.Fault{
			{Name: "a", Kind: "pause", Target: c.a, For: half},
			{Name: "b", Kind: "pause", Target: c.b, For: half}}}.Check()
		if got := strings.Contains(err.Error(), "overlap"); got != c.want {
			t.Errorf("%s: got %v, want overlap %v", name, err, c.want)
		}
	}
}
