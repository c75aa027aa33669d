package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env"
	"stampede/harness/env/external"
	"stampede/harness/plain"
	"stampede/harness/sut"
)

// labServices are the stores that a lab can have.
func labServices() []sut.Service { return []sut.Service{sut.Postgres, sut.Redis, sut.Kafka} }

// labFlags are the flags of lab.
type labFlags struct {
	backend, name string
	services      []string
	stop          bool
	changed       func(name string) bool
}

func newLab(a *app) *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab [-- command...]",
		Short: "Share Postgres, Redis and Kafka between tests of your own",
		Long: `Starts Postgres, Redis and Kafka once, on ports of their own of the loopback address, for
tests that would each start theirs.

With a command after -- it runs that with the addresses in its environment, passes
signals on to it, stops the stores when it ends and exits with its exit code. Any number of these
may run side by side.

Without a command it prints the addresses as lines for a shell and keeps the stores until
Ctrl-C, until its parent process ends, or until ` + "`stampede lab --stop`" + ` is typed in another shell.`,
		Example: `  stampede lab -- go test ./...                  for one command
  stampede lab --services postgres,redis         until Ctrl-C
  source <(stampede lab)                         in bash, while the shell lives`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.ArgsLenAtDash(), args); err != nil {
				return usage(err)
			}
			switch {
			case f.stop:
				return a.stopLab(f.name)
			case len(args) > 0:
				return a.labCommand(f, args)
			}
			return a.keepLab(f)
		},
	}
	fl := cmd.Flags()
	f.changed = fl.Changed
	fl.StringSliceVar(&f.services, "services", nil, "some of postgres, redis, kafka; by default "+
		"those that the backend can start")
	fl.StringVar(&f.backend, "backend", "auto", "auto, containers or processes")
	fl.StringVar(&f.name, "name", "default", "the `name` of a lab that is kept: there is one of each")
	fl.BoolVar(&f.stop, "stop", false, "stop the lab of this name and wait until it has ended")
	return cmd
}

// check refuses what makes no sense; dash is where in args the command begins, -1 without one.
func (f *labFlags) check(dash int, args []string) error {
	switch {
	case dash > 0 || dash < 0 && len(args) > 0:
		return fmt.Errorf("lab takes no arguments before --, and got %q; a command is put after it: "+
			"`stampede lab -- %s`", args[0], strings.Join(args, " "))
	case dash == 0 && len(args) == 0:
		return errors.New("there is no command after --")
	case dash == 0 && (f.stop || f.changed("name")):
		return errors.New("--name and --stop are for a lab that is kept, which runs no command")
	case f.stop && (f.changed("services") || f.changed("backend")):
		return errors.New("--stop starts nothing: only --name may go with it")
	case f.backend == env.External:
		return errors.New("--backend external: servers of your own need no lab")
	}
	return errors.Join(checkLabName(f.name), checkBackend(f.backend), f.checkServices())
}

func (f *labFlags) checkServices() error {
	known := []string{}
	for _, service := range labServices() {
		known = append(known, string(service))
	}
	if f.changed("services") && len(f.services) == 0 {
		return fmt.Errorf("--services is empty; expected some of %s", strings.Join(known, ", "))
	}
	for _, name := range f.services {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--services has %q; expected some of %s%s", name,
				strings.Join(known, ", "), didYouMean(name, known))
		}
	}
	return nil
}

// wanted are the services of the flag, each once, or else all.
func (f *labFlags) wanted() (services []sut.Service) {
	for _, service := range labServices() {
		if len(f.services) == 0 || slices.Contains(f.services, string(service)) {
			services = append(services, service)
		}
	}
	return services
}

// lab is started stores.
type lab struct {
	environ []string // KEY=value
	close   func() error
}

// startLab starts the stores. They end with the process that started this one, also while they
// are being started.
func (a *app) startLab(f labFlags) (*lab, error) {
	go a.endWithParent(os.Getppid())
	provider, spec, err := a.chooseLab(f)
	if err != nil {
		return nil, a.failed(exitEnvironment, env.Stopped(a.interrupts.soft, err))
	}
	cluster, closeAll, err := a.startStores(provider, spec)
	if err != nil {
		return nil, a.failed(exitEnvironment, err)
	}
	return &lab{close: closeAll, environ: append(external.Environ(spec.Services, cluster),
		external.LabVariable+"="+provider.Name())}, nil
}

// chooseLab finds the backend. Where no services were asked for by name, those that no backend
// can start are left out.
func (a *app) chooseLab(f labFlags) (env.Provider, env.Spec, error) {
	spec := env.Spec{Services: f.wanted(), RunID: newID(), Kafka: sut.DefaultKafka(), Log: a.logf}
	choose := func(services ...sut.Service) (env.Provider, string, error) {
		spec.Services = services
		return env.Choose(a.interrupts.soft, f.backend, spec, providers()...)
	}
	provider, reason, all := choose(spec.Services...)
	if all != nil && len(f.services) == 0 {
		var some []sut.Service
		for _, service := range labServices() {
			if _, _, err := choose(service); err != nil {
				a.logf("without %s: %v", service, err)
				continue
			}
			some = append(some, service)
		}
		if len(some) > 0 {
			provider, reason, all = choose(some...)
		}
	}
	if all == nil {
		a.logf("backend: %s", reason)
	}
	return provider, spec, all
}

// errParentEnded is why a lab ends that nobody stopped.
var errParentEnded = errors.New("interrupted: the process that started the lab has ended")

// endWithParent interrupts what is going on when the process that started this one is gone,
// in whatever way. The kernel's parent-death signal would tell of the end of its thread instead.
func (a *app) endWithParent(parent int) {
	for os.Getppid() == parent {
		if !sut.Pause(a.interrupts.hard, parentEvery) {
			return
		}
	}
	a.interrupts.first(exitTerminated, errParentEnded)
}

// parentEvery is how often a lab looks for its parent.
const parentEvery = 200 * time.Millisecond

// keepLab keeps stores until it is interrupted.
func (a *app) keepLab(f labFlags) error {
	claim, err := claimLab(f.name)
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	defer claim.Close() // once nothing of the lab is left
	stores, err := a.startLab(f)
	if err != nil {
		return err
	}
	for _, pair := range stores.environ {
		name, value, _ := strings.Cut(pair, "=")
		fmt.Fprintf(a.stdout, "export %s=%s\n", name, plain.Word(value))
	}
	// A shell that reads the lines reads until there can be no more.
	if err := a.stdout.Close(); err != nil {
		return withCode(exitEnvironment, errors.Join(fmt.Errorf("print the addresses: %w", err),
			stores.close()))
	}
	a.logf("the stores are kept until Ctrl-C, or until %s", asCalled("`"+stopCommand(f.name)+"`",
		program()))
	<-a.interrupts.soft.Done()
	return withCode(exitEnvironment, stores.close())
}
