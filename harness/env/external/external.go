// Package external uses the servers that the user already has. It makes and
// drops only what carries its own prefix, and it starts and stops nothing.
package external

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// Provider is the external backend.
type Provider struct{}

var _ env.Provider = Provider{}

// New returns the backend.
func New() Provider { return Provider{} }

// Name implements env.Provider.
func (Provider) Name() string { return env.External }

// Available implements env.Provider: there is a URL for each service, and a
// server that answers at it.
func (Provider) Available(ctx context.Context, spec env.Spec) (bool, string) {
	var found []string
	for _, service := range spec.Services {
		c, err := componentOf(service, spec)
		if err == nil {
			err = c.Ready(ctx)
		}
		if err != nil {
			return false, err.Error()
		}
		found = append(found, fmt.Sprintf("%s at %s", service, c.addr))
	}
	return true, strings.Join(found, ", ")
}

// Start implements env.Provider: it checks that the servers answer and are
// empty, and leaves nothing in them. What other runs have made there is no
// hindrance.
func (Provider) Start(ctx context.Context, spec env.Spec) (env.Cluster, error) {
	signature, err := sign(spec.RunID)
	if err != nil {
		return nil, fmt.Errorf("external: %w", err)
	}
	c := &cluster{admin.Stores{
		Namespaces: admin.Namespaces{RunID: spec.RunID, Signature: signature}}}
	for _, service := range spec.Services {
		one, err := componentOf(service, spec)
		if err == nil {
			err = one.Ready(ctx)
		}
		if err == nil && !spec.AllowNonEmpty {
			err = one.checkEmpty(ctx, spec.Log)
		}
		if kafka, ok := one.kafka(); ok && err == nil {
			err = prove(ctx, kafka, spec.RunID)
		}
		if err != nil {
			return nil, fmt.Errorf("external: %w", err)
		}
		c.Add(one, one.Store)
	}
	return c, nil
}

// component is one server. It is not breakable: it is not ours.
type component struct {
	admin.Store
	service sut.Service
	url     string
	addr    string
}

var _ env.Reachable = (*component)(nil)

func componentOf(service sut.Service, spec env.Spec) (*component, error) {
	if service == sut.Kafka {
		return kafkaOf(spec)
	}
	c := &component{service: service}
	get := func() string { return c.url }
	var port, flag string
	switch service {
	case sut.Postgres:
		c.url, c.Store, port, flag = spec.PostgresURL, admin.Postgres{URL: get}, "5432", "--postgres-url"
	case sut.Replica:
		c.url, c.Store, port, flag = spec.ReplicaURL, admin.Replica{Postgres: admin.Postgres{URL: get}},
			"5432", "--replica-url"
	case sut.Redis:
		c.url, c.Store, port, flag = spec.RedisURL, admin.Redis{URL: get}, "6379", "--redis-url"
	default:
		return nil, fmt.Errorf("the external backend cannot provide %s", service)
	}
	if c.url == "" {
		return nil, fmt.Errorf("%s has no URL: give %s", service, flag)
	}
	if len(settingsOf(service, spec)) > 0 {
		return nil, fmt.Errorf("the scenario changes settings of %s, which stampede does not change on "+
			"your own server: set them there and remove stores.%s", service, service)
	}
	u, err := url.Parse(c.url)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return nil, fmt.Errorf("the URL of %s, %s, must name one host, as in %s", service,
			admin.Redact(c.url), exampleURL[service])
	}
	if u.Port() != "" {
		port = u.Port()
	}
	c.addr = net.JoinHostPort(u.Hostname(), port)
	return c, nil
}

// exampleURL is what the URLs of the services look like.
var exampleURL = map[sut.Service]string{
	sut.Postgres: "postgres://user:password@host:5432/database",
	sut.Replica:  "postgres://user:password@host:5432/database",
	sut.Redis:    "redis://:password@host:6379/0",
}

func settingsOf(service sut.Service, spec env.Spec) map[string]string {
	if service == sut.Postgres || service == sut.Replica {
		return spec.Postgres
	}
	return spec.Redis
}

// kafka is the component's administrator if it is a Kafka cluster; one is nil
// if there is no component.
func (c *component) kafka() (k admin.Kafka, ok bool) {
	if c == nil {
		return k, false
	}
	k, ok = c.Store.(admin.Kafka)
	return k, ok
}

// checkEmpty refuses a server that has something of somebody's in it. What
// other runs of stampede have in it is only said, and topics of others do no
// harm: the run's own have a prefix.
func (c *component) checkEmpty(ctx context.Context, log func(format string, args ...any)) error {
	switch store := c.Store.(type) {
	case admin.Postgres:
		tables, err := store.CountTables(ctx, namePrefix)
		if err != nil {
			return err
		}
		if tables > 0 {
			return fmt.Errorf("the database of %s is not empty (%d tables, views or sequences): "+
				"name an empty one, or allow it with --allow-nonempty", admin.Redact(c.url), tables)
		}
	case admin.Redis:
		foreign, err := foreignKey(ctx, store)
		if err != nil {
			return err
		}
		if foreign != "" {
			return fmt.Errorf("the database of %s is not empty (it has the key %q): "+
				"name an empty one, or allow it with --allow-nonempty", admin.Redact(c.url), foreign)
		}
	case admin.Kafka: // a prefix that is taken is found out when it is wanted
	}
	made, err := c.made(ctx)
	if err == nil && len(made) > 0 && log != nil {
		log("%s also holds data of other runs: %s; `stampede clean` with its URL removes that of "+
			"dead runs", admin.Redact(c.url), names(made))
	}
	return err
}

func (c *component) Service() sut.Service { return c.service }

func (c *component) Addr() string { return c.addr }

// LogTail implements env.Component: the log is on the user's server.
func (c *component) LogTail(int) string { return "" }

// Info implements env.Component. Flush is zero: the disk is elsewhere.
func (c *component) Info(ctx context.Context) (env.Info, error) {
	info, err := c.Store.Info(ctx, nil)
	if err != nil {
		return env.Info{}, err
	}
	info.Source = "external: " + admin.Redact(c.url)
	return info, nil
}

// cluster is the user's servers.
type cluster struct{ admin.Stores }

// Close implements env.Cluster: it drops the namespaces that nobody has
// released, and leaves the servers as they were.
func (c *cluster) Close(ctx context.Context) error {
	err := c.CloseOnce(func() error {
		made, err := c.ReleaseAll(ctx)
		if err == nil && made {
			err = c.unsign(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("external: close: %w", err)
	}
	return nil
}

// unsign removes the signatures, when nothing else of the run is left.
func (c *cluster) unsign(ctx context.Context) (err error) {
	if c.Redis != nil {
		err = c.Redis.Delete(ctx, admin.RunKey(c.RunID))
	}
	if c.Kafka != nil {
		err = errors.Join(err, c.Kafka.Delete(ctx, topics.Prefix(admin.RunKey(c.RunID))))
	}
	return err
}
