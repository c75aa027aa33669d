package admin

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// Superuser is the name of the first user of every Postgres that stampede
// starts. It has no password: the server lives for a run, on the loopback
// address of one machine.
const Superuser = "stampede"

// PostgresAt administers a Postgres that stampede started, at an address,
// host:port, which is asked for at each call.
func PostgresAt(addr func() string) Store {
	return Postgres{URL: func() string { return PostgresURL(addr()) }}
}

// PostgresURL is the URL of a Postgres that stampede started.
func PostgresURL(addr string) string {
	return "postgres://" + Superuser + "@" + addr + "/postgres?sslmode=disable"
}

// RedisAt administers a Redis that stampede started, as PostgresAt does.
func RedisAt(addr func() string) Store {
	return Redis{URL: func() string { return RedisURL(addr()) }}
}

// RedisURL is the URL of a Redis that stampede started.
func RedisURL(addr string) string { return "redis://" + addr + "/0" }

// Stores is what the clusters of all local backends have in common: the
// started stores, and the empty places in them.
type Stores struct {
	Namespaces

	components []env.Component

	closing sync.Mutex
	closed  bool
}

// Add takes a started store and its administrator.
func (s *Stores) Add(c env.Component, administrator Store) {
	s.components = append(s.components, c)
	switch store := administrator.(type) {
	case Postgres:
		s.Postgres = &store
	case Replica:
		s.Replica = &store
	case Redis:
		s.Redis = &store
	case Kafka:
		s.Kafka = &store
	}
}

// Component implements env.Cluster.
func (s *Stores) Component(service sut.Service) env.Component {
	for _, c := range s.components {
		if c.Service() == service {
			return c
		}
	}
	return nil
}

// CloseOnce calls end, and after it has succeeded never again.
func (s *Stores) CloseOnce(end func() error) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	err := end()
	s.closed = err == nil
	return err
}

// What of a store's log stands behind an error: of the last LogLines the end, and
// before it what told of an error, which is often followed by a long way out.
const (
	LogLines    = 200
	errorsShown = 6
	endShown    = 8
)

var (
	// stackFrame matches a line of a Java stack trace.
	stackFrame = regexp.MustCompile(`^\s+(at |\.\.\. )`)
	// tellsOfError matches what Postgres, Redis and Kafka write when they give up.
	tellsOfError = regexp.MustCompile(`\b(ERROR|FATAL|PANIC|panic|[Ff]atal|[Ff]ailed|\w*Exception)\b`)
)

// QuoteLog puts what explains it from the last LogLines of a store's log behind an
// error, if there are any.
func QuoteLog(log string) string {
	if log == "" {
		return ""
	}
	lines := slices.DeleteFunc(strings.Split(log, "\n"), stackFrame.MatchString)
	before, end := lines[:max(0, len(lines)-endShown)], lines[max(0, len(lines)-endShown):]
	var quoted []string
	for _, line := range before {
		if tellsOfError.MatchString(line) {
			quoted = append(quoted, line)
		}
	}
	if len(quoted) > 0 {
		quoted = append(quoted[max(0, len(quoted)-errorsShown):], "...")
	}
	return "; its log ends:\n  " + strings.Join(append(quoted, end...), "\n  ")
}
