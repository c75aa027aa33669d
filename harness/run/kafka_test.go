package run

import (
	"encoding/json"
	"net"
	"slices"
	"testing"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// brokerAt is a broker that is nothing but an address.
type brokerAt struct {
	env.Reachable
	service sut.Service
	front   string
}

func (l *brokerAt) Service() sut.Service { return l.service }
func (l *brokerAt) FrontAddr() string    { return l.front }

// brokersAt is several of them.
type brokersAt struct {
	env.Component
	members []env.Component
}

func (c *brokersAt) Service() sut.Service     { return sut.Kafka }
func (c *brokersAt) Members() []env.Component { return c.members }

// fronted makes proxies for some brokers as a run with faults does.
func fronted(t *testing.T, brokers int) (*services, env.Spec) {
	t.Helper()
	s := &services{kafka: map[sut.Service]fault.Target{},
		environment: rundir.Environment{Proxied: true}}
	spec := env.Spec{Services: []sut.Service{sut.Kafka}}
	spec.Kafka.Brokers = brokers
	if err := s.frontKafka(t.Context(), &spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.closeProxies() })
	return s, spec
}

func TestEveryBrokerHasItsProxy(t *testing.T) {
	s, spec := fronted(t, 2)
	var members []env.Component
	accepted := make(chan int, 2)
	for i := range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
				accepted <- i
			}
		}()
		members = append(members, &brokerAt{service: sut.KafkaBroker(i + 1),
			front: listener.Addr().String()})
	}
	s.targetKafka(&brokersAt{members: members})
	if got := s.brokerAddrs([]string{"direct:1"}); !slices.Equal(got, spec.KafkaFronts) {
		t.Errorf("clients start from %v, the proxies are %v", got, spec.KafkaFronts)
	}
	for i, addr := range spec.KafkaFronts {
		if proxies := s.kafka[sut.KafkaBroker(i+1)].Proxies; proxies.Addrs()[0] != addr {
			t.Errorf("before broker %d stand %v, want %s", i+1, proxies.Addrs(), addr)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-accepted; got != i {
			t.Errorf("%s leads to broker %d, want %d", addr, got+1, i+1)
		}
		conn.Close()
	}
}

// TestForeignBrokersHaveNoProxy: they would tell clients their own addresses.
func TestForeignBrokersHaveNoProxy(t *testing.T) {
	s, _ := fronted(t, 1)
	s.targetKafka(&brokersAt{})
	if got := s.brokerAddrs([]string{"direct:1"}); !slices.Equal(got, []string{"direct:1"}) {
		t.Errorf("clients start from %v", got)
	}
	partition := fault.Fault{Kind: fault.Partition, Target: sut.Kafka}
	if err := partition.Available(s.kafka[sut.Kafka]); err == nil {
		t.Error("a partition is available where no proxy stands")
	}
}

// TestABrokersFaultExplainsItsIdentity: what was done to one broker, or to all,
// is what the cluster's identity may have changed by.
func TestABrokersFaultExplainsItsIdentity(t *testing.T) {
	window := func(name, before, after string) history.Window {
		effects, err := json.Marshal(fault.Effects{IdentityBefore: before, IdentityAfter: after})
		if err != nil {
			t.Fatal(err)
		}
		return history.Window{Fault: name, Effects: effects}
	}
	for name, c := range map[string]struct {
		faults []history.Window
		want   string
		met    bool
	}{
		"nothing": {nil, "a; b; c", true},
		"one":     {[]history.Window{window("kill kafka-2", "b", "x")}, "a; x; c", true},
		"all":     {[]history.Window{window("kill kafka", "a; b; c", "x; y; z")}, "x; y; z", true},
		"in turn": {[]history.Window{window("kill kafka-2", "b", "x"),
			window("restart kafka-2", "x", "y")}, "a; y; c", true},
		"another": {[]history.Window{window("kill kafka-2", "q", "x")}, "", false},
		"not it":  {[]history.Window{window("kill redis", "b", "x")}, "a; b; c", true},
	} {
		if got, met := after("a; b; c", sut.Kafka, c.faults); got != c.want || met != c.met {
			t.Errorf("%s: got %s, %v", name, got, met)
		}
	}
}
