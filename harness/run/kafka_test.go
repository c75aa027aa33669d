package run

import (
	"net"
	"slices"
	"testing"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/rundir"
	"stampede/harness/sut"
)

// listening is a broker that is nothing but an address.
type listening struct {
	env.Reachable
	service sut.Service
	front   string
}

func (l *listening) Service() sut.Service { return l.service }
func (l *listening) FrontAddr() string    { return l.front }

// cluster is several of them.
type cluster struct {
	env.Component
	members []env.Component
}

func (c *cluster) Service() sut.Service     { return sut.Kafka }
func (c *cluster) Members() []env.Component { return c.members }

// fronted makes proxies for some brokers as a run with faults does.
func fronted(t *testing.T, brokers int) (*services, env.Spec) {
	t.Helper()
	s := &services{targets: map[sut.Service]fault.Target{},
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
		members = append(members, &listening{service: sut.KafkaBroker(i + 1),
			front: listener.Addr().String()})
	}
	s.targetKafka(&cluster{members: members})
	if got := s.brokerAddrs([]string{"direct:1"}); !slices.Equal(got, spec.KafkaFronts) {
		t.Errorf("clients start from %v, the proxies are %v", got, spec.KafkaFronts)
	}
	for i, addr := range spec.KafkaFronts {
		if proxies := s.targets[sut.KafkaBroker(i+1)].Proxies; proxies.Addrs()[0] != addr {
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
	s.targetKafka(&cluster{})
	if got := s.brokerAddrs([]string{"direct:1"}); !slices.Equal(got, []string{"direct:1"}) {
		t.Errorf("clients start from %v", got)
	}
	partition := fault.Fault{Kind: fault.Partition, Target: sut.Kafka}
	if err := partition.Available(s.targets[sut.Kafka]); err == nil {
		t.Error("a partition is available where no proxy stands")
	}
}
