package run

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/sut"
)

// front is the proxy before one broker. It is there before the broker, which
// tells its clients the proxy's address from its first start on.
type front struct {
	proxy  *fault.Proxy
	broker atomic.Pointer[env.Fronted]
}

// upstream is where the broker listens now. Before there is one, nobody can
// have the proxy's address.
func (f *front) upstream() string {
	broker := f.broker.Load()
	if broker == nil {
		return ""
	}
	return (*broker).FrontAddr()
}

// frontKafka makes a proxy for each broker if anything is to be broken. The
// proxies outlive a first Ctrl-C: the drain still needs them.
func (s *services) frontKafka(ctx context.Context, spec *env.Spec) error {
	if !s.environment.Proxied || !slices.Contains(spec.Services, sut.Kafka) {
		return nil
	}
	for i := range max(spec.Kafka.Brokers, 1) {
		f := &front{}
		name := fmt.Sprintf("kafka-%d", i+1)
		proxy, err := fault.NewProxy(context.WithoutCancel(ctx), name, f.upstream)
		if err != nil {
			return err
		}
		f.proxy = proxy
		s.brokers = append(s.brokers, f)
		spec.KafkaFronts = append(spec.KafkaFronts, proxy.Addr())
	}
	return nil
}

// targetKafka makes targets of the cluster and of each of several brokers.
// Brokers that are the user's own tell clients their own addresses: no proxy
// stands before them.
func (s *services) targetKafka(whole env.Component) {
	members := []env.Component{whole}
	if several, ok := whole.(env.Clustered); ok {
		members = several.Members()
	}
	all := fault.Target{Component: whole}
	for i, member := range members {
		one := fault.Target{Component: member}
		broker, ok := member.(env.Fronted)
		if ok && i < len(s.brokers) && broker.FrontAddr() != "" {
			s.brokers[i].broker.Store(&broker)
			one.Proxies = fault.Proxies{s.brokers[i].proxy}
			all.Proxies = append(all.Proxies, s.brokers[i].proxy)
		}
		s.kafka[member.Service()] = one
	}
	s.kafka[whole.Service()] = all
}

// brokerAddrs are the addresses that clients start from: those of the proxies,
// if there are any.
func (s *services) brokerAddrs(direct []string) []string {
	if proxies := s.kafka[sut.Kafka].Proxies; len(proxies) > 0 {
		return proxies.Addrs()
	}
	return direct
}
