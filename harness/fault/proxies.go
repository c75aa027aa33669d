package fault

import "errors"

// Proxies are those before one store, which has one address or several. What
// is done to them is done to each.
type Proxies []*Proxy

// Addrs are where clients connect, host:port.
func (p Proxies) Addrs() []string {
	var addrs []string
	for _, one := range p {
		addrs = append(addrs, one.Addr())
	}
	return addrs
}

// Impose puts a condition in force, in place of the one before.
func (p Proxies) Impose(c Condition) {
	for _, one := range p {
		one.Impose(c)
	}
}

// Heal lets everything through again.
func (p Proxies) Heal() { p.Impose(Condition{}) }

// Stats adds up what has passed so far.
func (p Proxies) Stats() Stats {
	var sum Stats
	for _, one := range p {
		sum = sum.Add(one.Stats())
	}
	return sum
}

// Close ends every connection. It is idempotent.
func (p Proxies) Close() error {
	var errs []error
	for _, one := range p {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
