package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/deploy"
	"stampede/harness/env"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	servers
	variant, role, listen, prefix, folder string
	set                                   []string
	timeout                               time.Duration
	maxConns                              int
	noPrepare, supervised                 bool
}

func newServe(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve <system> --design <design>",
		Short: "Serve one design over HTTP, for curl or any other client",
		Long: `Starts the stores that the design needs, prepares them, runs the design's
background roles and serves the system's HTTP API until it is interrupted.

With --role it runs that one role and serves nothing; the stores are then
those of --postgres-url, --replica-url, --redis-url and --kafka-brokers. The
role "api" is the other half: it serves the API, prepares nothing and runs no
role.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.role == "" {
				if err := f.checkAddresses(cmd.Flags().Changed); err != nil {
					return usage(err)
				}
			}
			return a.serve(args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.variant, "design", "", "the design to serve, by `name`")
	fl.StringVar(&f.role, "role", "", "run this background role instead")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:8080", "address to listen on")
	f.defineBackend(fl)
	f.servers.define(fl)
	fl.StringVar(&f.prefix, "prefix", "", "key prefix of an existing place (with --no-prepare)")
	fl.StringVar(&f.folder, "folder", "", "the folder for a design's own files;\n"+
		"by default a new one that is removed at the end")
	fl.StringArrayVar(&f.set, "set", nil, "a parameter of the system: name=value")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Second, "the longest that one operation on a store "+
		"may take")
	fl.IntVar(&f.maxConns, "max-conns", 32, "connections to each store")
	fl.BoolVar(&f.noPrepare, "no-prepare", false, "use the external stores as they are")
	fl.BoolVar(&f.supervised, "supervised", false, "take the configuration and orders from "+
		"standard input, as the processes that a run deploys do")
	cmd.Flags().Lookup("supervised").Hidden = true
	return cmd
}

func (a *app) serve(system string, f serveFlags) (err error) {
	s, v, params, err := f.resolve(system)
	if err != nil {
		return usage(err)
	}
	if f.supervised {
		return a.serveSupervised(s, v, f.role)
	}
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	cfg := sut.Config{Params: params, MaxConns: f.maxConns, Timeout: f.timeout, Logger: log,
		PostgresURL: f.postgresURL, ReplicaURL: f.replicaURL, RedisURL: f.redisURL,
		KafkaBrokers: f.kafkaBrokers, Kafka: sut.DefaultKafka(), Prefix: f.prefix}
	if cfg.Folder, err = f.makeFolder(v); err != nil {
		return withCode(exitEnvironment, fmt.Errorf("making the design's folder: %w", err))
	}
	if cfg.Folder != "" && f.folder == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(cfg.Folder)) }()
	}
	if f.role != "" && f.role != deploy.API {
		return a.serveRole(v, f.role, cfg)
	}
	// The address comes first: a port in use must not start a store.
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return withCode(exitEnvironment, fmt.Errorf("--listen %s: %w; expected a free host:port, such "+
			"as 127.0.0.1:8080, or port 0 for any", f.listen, err))
	}
	defer listener.Close()
	release, err := a.servePlace(v, f, &cfg)
	if err != nil {
		return a.failed(exitEnvironment, err)
	}
	err = a.serveInstance(s, v, cfg, f, listener)
	return errors.Join(err, release())
}

// resolve finds the system, the variant and the parameters.
func (f *serveFlags) resolve(system string) (sut.System, sut.Variant, any, error) {
	s, ok := findSystem(system)
	if !ok {
		return s, sut.Variant{}, nil, fmt.Errorf("there is no system %q; there is %s%s", system,
			strings.Join(systemNames(), ", "), didYouMean(system, systemNames()))
	}
	if s.Handler == nil && (f.role == "" || f.role == deploy.API) {
		return s, sut.Variant{}, nil, fmt.Errorf("%s has no HTTP API to serve; its System has no Handler",
			system)
	}
	if err := checkBackend(f.backend); err != nil {
		return s, sut.Variant{}, nil, err
	}
	i := slices.IndexFunc(s.Variants, func(v sut.Variant) bool { return v.Name == f.variant })
	if i < 0 {
		known := variantNames(s)
		if f.variant == "" {
			return s, sut.Variant{}, nil, fmt.Errorf("choose a design with --design: %s",
				strings.Join(known, ", "))
		}
		return s, sut.Variant{}, nil, fmt.Errorf("%s has no design %q; choose one with "+
			"--design: %s%s", system, f.variant, strings.Join(known, ", "), didYouMean(f.variant, known))
	}
	f.noPrepare = f.noPrepare || f.role == deploy.API
	if f.noPrepare && f.backend != env.External && !f.supervised {
		return s, s.Variants[i], nil, errors.New("--no-prepare and --role api need --backend external")
	}
	switch v := s.Variants[i]; {
	case f.folder != "" && !v.KeepsFiles:
		return s, v, nil, fmt.Errorf("--folder: %s keeps no files of its own", v.Name)
	case f.folder == "" && v.KeepsFiles && !f.supervised && (f.noPrepare || f.role != ""):
		return s, v, nil, fmt.Errorf("%s keeps files of its own: --folder says where they are", v.Name)
	}
	params, err := scenario.DecodeParams(s, f.set)
	return s, s.Variants[i], params, err
}

// makeFolder makes the folder of a design that keeps files, a new one if none is named.
func (f *serveFlags) makeFolder(v sut.Variant) (path string, err error) {
	switch {
	case !v.KeepsFiles:
		return "", nil
	case f.folder == "":
		return os.MkdirTemp("", "stampede-"+v.Name+"-")
	}
	if path, err = filepath.Abs(f.folder); err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	return path, err
}

// servePlace starts the stores and points cfg at an empty place in them.
func (a *app) servePlace(v sut.Variant, f serveFlags, cfg *sut.Config) (func() error, error) {
	if f.noPrepare {
		return func() error { return nil }, nil
	}
	spec := f.spec(v.Needs, a.logf)
	spec.RunID = newID()
	provider, reason, err := env.Choose(a.interrupts.soft, f.backend, spec, providers()...)
	if err != nil {
		return nil, env.Stopped(a.interrupts.soft, err)
	}
	fmt.Fprintln(a.stderr, "backend:", reason)
	cluster, closeAll, err := a.startStores(provider, spec)
	if err != nil {
		return nil, err
	}
	ns, err := cluster.Namespace(a.interrupts.soft, v.Name)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	cfg.PostgresURL, cfg.RedisURL, cfg.Prefix = ns.PostgresURL, ns.RedisURL, ns.Prefix
	cfg.ReplicaURL, cfg.KafkaBrokers = ns.ReplicaURL, ns.KafkaBrokers
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return errors.Join(ns.Release(ctx), closeAll())
	}, nil
}

// closeTimeout bounds stopping the stores.
const closeTimeout = time.Minute

// startStores starts stores that a guard looks after. The returned function stops both.
func (a *app) startStores(provider env.Provider, spec env.Spec) (env.Cluster, func() error, error) {
	stop, err := a.guard(provider.Name() == env.Containers, spec.RunID, nil)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := provider.Start(a.interrupts.soft, spec)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("starting the stores: %w", err), stop(false))
	}
	return cluster, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.interrupts.hard), closeTimeout)
		defer cancel()
		return errors.Join(cluster.Close(ctx), stop(false))
	}, nil
}

// serveInstance serves until the first signal and then finishes what is
// under way.
func (a *app) serveInstance(
	s sut.System, v sut.Variant, cfg sut.Config, f serveFlags, listener net.Listener,
) (err error) {
	ctx := a.interrupts.soft
	inst, err := v.Open(ctx, cfg)
	if err != nil {
		return withCode(exitEnvironment, fmt.Errorf("opening %s: %w", v.Name, err))
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	if !f.noPrepare {
		if err := inst.Prepare(ctx); err != nil {
			return withCode(exitEnvironment, fmt.Errorf("preparing %s: %w", v.Name, err))
		}
	}
	handler, err := s.Handler(inst, cfg)
	if err != nil {
		return fmt.Errorf("making the handler: %w", err)
	}
	if f.role == deploy.API {
		v.Roles = nil
	}
	crew, err := deploy.Start(ctx, deploy.Plan{System: s, Variant: v, Config: cfg}, inst)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.Stop()) }()
	fmt.Fprintf(a.stdout, "serving %s %s on http://%s\n", s.Name, v.Name, listener.Addr())
	return deploy.Serve(ctx, listener, handler)
}

// serveSupervised is the process of a role or of the API that a run has
// started. What the variant prints goes to its log, not among the messages.
func (a *app) serveSupervised(s sut.System, v sut.Variant, role string) error {
	out := os.Stdout
	os.Stdout = os.Stderr
	return deploy.Child{System: s, Variant: v, Role: role, In: os.Stdin, Out: out,
		Log: a.stderr}.Run(a.interrupts.soft)
}

// serveRole runs one role until the first signal.
func (a *app) serveRole(v sut.Variant, name string, cfg sut.Config) error {
	for _, role := range v.Roles {
		if role.Name == name {
			fmt.Fprintf(a.stdout, "running %s of %s\n", name, v.Name)
			return deploy.RunRole(a.interrupts.soft, role, cfg)
		}
	}
	return usage(deploy.NoRole(v, name))
}
