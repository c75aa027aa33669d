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
	"sync"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
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
	c := &cluster{runID: spec.RunID, signature: signature}
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
		c.components = append(c.components, one)
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
	sut.Redis:    "redis://:password@host:6379/0",
}

func settingsOf(service sut.Service, spec env.Spec) map[string]string {
	if service == sut.Postgres {
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

// Service implements env.Component.
func (c *component) Service() sut.Service { return c.service }

// Addr implements env.Component.
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
type cluster struct {
	runID string
	// signature says who made what is ours.
	signature  string
	components []*component

	mu   sync.Mutex
	made int
	open map[int]func(context.Context) error
}

// Component implements env.Cluster.
func (c *cluster) Component(service sut.Service) env.Component {
	for _, one := range c.components {
		if one.service == service {
			return one
		}
	}
	return nil
}

// Namespace implements env.Cluster: a database of its own where the user may
// create one, else a schema of its own, and a key prefix.
func (c *cluster) Namespace(ctx context.Context, name string) (env.Namespace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	number := c.made
	space := env.Namespace{Prefix: fmt.Sprintf("%s:%d:", runKey(c.runID), number)}
	var drops []func(context.Context) error
	for _, one := range c.components {
		drop, err := c.carve(ctx, one, &space, admin.DatabaseName(c.runID, number, name))
		if err != nil {
			return env.Namespace{}, errors.Join(err, dropAll(context.WithoutCancel(ctx), drops))
		}
		drops = append(drops, drop)
	}
	if c.open == nil {
		c.open = map[int]func(context.Context) error{}
	}
	c.open[number] = func(ctx context.Context) error { return dropAll(ctx, drops) }
	space.Release = func(ctx context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.release(ctx, number)
	}
	return space, nil
}

// release drops one namespace, once.
func (c *cluster) release(ctx context.Context, number int) error {
	drop, ok := c.open[number]
	if !ok {
		return nil
	}
	if err := drop(ctx); err != nil {
		return err
	}
	delete(c.open, number)
	return nil
}

func dropAll(ctx context.Context, drops []func(context.Context) error) error {
	var errs []error
	for _, drop := range drops {
		errs = append(errs, drop(ctx))
	}
	return errors.Join(errs...)
}

// carve makes a place of our own in a server and returns how to drop it.
func (c *cluster) carve(ctx context.Context, in *component, space *env.Namespace, name string) (
	drop func(context.Context) error, err error) {
	switch store := in.Store.(type) {
	case admin.Postgres:
		return c.carvePostgres(ctx, store, space, name)
	case admin.Redis:
		space.RedisURL = in.url
		prefix := space.Prefix
		if err := store.Put(ctx, in.signatureName(c.runID), c.signature); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, err := store.DeletePrefix(ctx, prefix)
			return err
		}, nil
	case admin.Kafka:
		drop, err := carveKafka(ctx, store, space)
		if err != nil {
			return nil, err
		}
		return drop, store.Put(ctx, in.signatureName(c.runID), c.signature)
	default:
		return nil, fmt.Errorf("no way to make a namespace in %s", in.service)
	}
}

func (c *cluster) carvePostgres(
	ctx context.Context, store admin.Postgres, space *env.Namespace, name string,
) (drop func(context.Context) error, err error) {
	may, err := store.CanCreateDatabases(ctx)
	if err != nil {
		return nil, err
	}
	if may {
		space.PostgresURL, err = store.CreateDatabase(ctx, name, c.signature)
		return func(ctx context.Context) error { return store.DropDatabase(ctx, name) }, err
	}
	space.PostgresURL, err = store.CreateSchema(ctx, name, c.signature)
	return func(ctx context.Context) error { return store.DropSchema(ctx, name) }, err
}

// Close implements env.Cluster: it drops the namespaces that nobody has
// released, and leaves the servers as they were.
func (c *cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for number := range c.open {
		errs = append(errs, c.release(ctx, number))
	}
	if len(c.open) == 0 && c.made > 0 {
		errs = append(errs, c.unsign(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("external: close: %w", err)
	}
	return nil
}
