package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stampede/harness/calibrate"
	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/env/containers"
	"stampede/harness/run"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
	"stampede/reports/words"
)

// runFlags are the flags of run. Each has an environment variable
// STAMPEDE_<NAME> as its default.
type runFlags struct {
	servers
	generatorFlags
	profile, format, colour, out   string
	fault, baseline, seed          string
	target, targetCA               string
	against                        string
	variants, set, failOn, without []string
	repeat, again                  int
	noiseFloor                     bool
	rate                           float64
	duration, timeout              time.Duration
	acrossMachines                 bool
	sideBySide, keep, dryRun, open bool
	verbose                        bool
	junit, json, md, html, metrics string
	given                          givenFiles
	// changed says whether a flag was given, on the command line or by its
	// variable.
	changed func(name string) bool
	// replayed is the run that is run again, nil for a new one.
	replayed *replayed
	// machine is the file of a simulation's machine, "" for the default one.
	machine string
	// costs is the file of a calibration, from a measured run, and scale a factor of the load.
	costs, from string
	scale       float64
	// sweep is a value that takes several values, "" for none.
	sweep string
	// calibrated is what costs names, and predicted what was put beside the run.
	calibrated *calibrate.File
	predicted  *rundir.Prediction
	// simulated is the machine on which models run in place of designs, nil for a real run.
	simulated *run.Simulation
}

// servers are where the stores are: a backend, and addresses if it is the external one.
type servers struct {
	backend, postgresURL, replicaURL, redisURL string
	kafkaBrokers                               []string
	allowNonEmpty                              bool
}

func (s *servers) define(fl *pflag.FlagSet) {
	fl.StringVar(&s.postgresURL, "postgres-url", "", "Postgres of the external backend")
	fl.StringVar(&s.replicaURL, "replica-url", "", "its replica, for designs that read one")
	fl.StringVar(&s.redisURL, "redis-url", "", "Redis of the external backend")
	fl.StringSliceVar(&s.kafkaBrokers, "kafka-brokers", nil, "Kafka of the external backend: some of "+
		"its brokers, host:port,host:port")
	fl.BoolVar(&s.allowNonEmpty, "allow-nonempty", false, "accept an external store with data")
}

func (s *servers) defineBackend(fl *pflag.FlagSet) {
	fl.StringVar(&s.backend, "backend", "auto", "auto, containers, processes or external")
}

// spec asks a backend for services.
func (s *servers) spec(services []sut.Service, logf func(string, ...any)) env.Spec {
	return env.Spec{Services: services, PostgresURL: s.postgresURL, ReplicaURL: s.replicaURL,
		RedisURL: s.redisURL, KafkaBrokers: s.kafkaBrokers, AllowNonEmpty: s.allowNonEmpty,
		Kafka: sut.DefaultKafka(), Kfake: kfakeCommand(), Log: logf}
}

// givenFiles is what files named by flags hold.
type givenFiles struct {
	faults      []byte
	authorities *x509.CertPool // that may sign a target's certificate
	// authorityText is what they are read from.
	authorityText []byte
}

// defineLoad defines the flags that choose the load, for runs and simulations.
func (f *runFlags) defineLoad(fl *pflag.FlagSet) {
	fl.StringVar(&f.profile, "profile", "", scenario.ProfilesText)
	fl.StringArrayVar(&f.set, "set", nil, "override a value of the scenario: path=value")
	fl.StringVar(&f.baseline, "baseline", "", "the `design` that ratios refer to")
	fl.StringVar(&f.seed, "seed", "", "the seed; random by default, always printed")
	fl.DurationVar(&f.duration, "duration", 0, "how long the load lasts (load.arrival.over)")
	fl.Float64Var(&f.rate, "rate", 0, "operations per second (load.arrival.rate)")
	fl.StringVar(&f.fault, "fault", "", "a YAML file with a list of faults in place of the "+
		"scenario's, or none, which drops their triggers and objectives, too")
}

func (f *runFlags) define(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.defineLoad(fl)
	fl.StringSliceVar(&f.variants, "design", nil,
		"only these, by `name` (comma-separated); all: those of the profile")
	fl.IntVar(&f.repeat, "repeats", 0, "how often each design runs")
	fl.BoolVar(&f.sideBySide, "side-by-side", false, "run all designs at the same time on the same "+
		"stores: says which are correct in the time of one, and nothing about their times")
	fl.IntVar(&f.again, "again", 1, "run a noisy repeat again at the end, so many times, within a "+
		"quarter of the run's time (four minutes in all for a shorter run); unless 0, also run a "+
		"repeat again, twice at most, that did not catch a known-wrong design")
	fl.BoolVar(&f.noiseFloor, "noise-floor", false, "run the baseline once more at the end; "+
		"differences smaller than between its two runs are not reported; on, except in smoke")
	f.defineBackend(fl)
	fl.BoolVar(&f.keep, "keep", false, "leave the stores running after the run (containers); "+
		"stampede clean removes them")
	fl.StringVar(&f.target, "target", "", "judge the server at this `URL` instead of the designs")
	fl.StringSliceVar(&f.without, "without", nil, "invariants that the target is not held to")
	fl.IntVar(&f.count, "generators", 0, "split the load over so many generator processes; the "+
		"API is then served over HTTP")
	fl.StringVar(&f.engine, "engine", "local", "where generators run: local (processes of this "+
		"machine), swarm (nodes of a Docker Swarm) or kubernetes (a Job)")
	fl.StringVar(&f.image, "generator-image", containers.StampedeImage, "stampede's `image` on the "+
		"nodes: one that each has, or NAME@sha256:… of a registry")
	fl.StringVar(&f.advertise, "advertise", "", "the `address` of this machine at which generators "+
		"on others reach it; loopback by default")
	fl.StringVar(&f.place.Namespace, "namespace", "", "the `namespace` of the Job; by default that "+
		"of KUBECONFIG's context")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the resolved plan and run nothing")
	f.defineRunning(cmd)
	f.defineOutput(cmd)
	flagGroups(cmd,
		[]string{"Load", "profile", "duration", "rate", "repeats", "seed", "fault", "set",
			"side-by-side", "again", "noise-floor", "timeout"},
		[]string{"Generators", "generators", "engine", "generator-image", "advertise", "namespace"},
		[]string{"Designs", "design", "baseline", "target", "target-ca", "without"},
		[]string{"Verdict", "fail-on", "against", "across-machines"},
		[]string{"Output", "dry-run", "open", "out", "format", "color", "verbose", "html", "md", "junit",
			"json", "metrics"},
		[]string{"Stores", "backend", "keep", "postgres-url", "replica-url", "redis-url",
			"kafka-brokers", "allow-nonempty"})
}

// defineRunning defines the flags that a run and a replay have in common.
func (f *runFlags) defineRunning(cmd *cobra.Command) {
	fl := cmd.Flags()
	f.changed = fl.Changed
	f.servers.define(fl)
	fl.StringVar(&f.targetCA, "target-ca", "", "PEM file with the authorities that may sign the "+
		"target's certificate, in place of the system's")
	fl.DurationVar(&f.timeout, "timeout", 0, "stop the run after this long, as Ctrl-C would")
	fl.BoolVar(&f.open, "open", false, "open the report in the browser after the run")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show phases and faults in a log, and where the "+
		"stores come from")
}

// control says whether the baseline runs a second time.
func (f *runFlags) control(profile string) bool {
	if f.simulated != nil {
		return false // no machine changes during a simulation
	}
	if f.replayed != nil || f.changed("noise-floor") {
		return f.noiseFloor
	}
	return controlled(profile)
}

// controlled says whether the baseline runs a second time in a profile by default.
func controlled(profile string) bool { return profile != "smoke" }

// check refuses flags that make no sense.
func (f *runFlags) check() error {
	return errors.Join(f.checkOutput(), checkBackend(f.backend), f.checkTargetFlags(),
		f.checkAddresses(f.changed), f.checkKeep(), f.checkGenerators(),
		f.checkPositive(map[string]bool{"rate": f.rate > 0, "repeats": f.repeat > 0,
			"duration": f.duration > 0, "timeout": f.timeout > 0}))
}

// checkPositive refuses flags that were given and are not more than zero; NaN is not.
func (f *runFlags) checkPositive(positive map[string]bool) error {
	var problems []error
	for _, name := range words.SortedKeys(positive) {
		if f.changed(name) && !positive[name] {
			problems = append(problems, fmt.Errorf("--%s must be more than zero", name))
		}
	}
	return errors.Join(problems...)
}

func (f *runFlags) checkTargetFlags() error {
	u, err := url.Parse(f.target)
	switch {
	case f.target == "" && len(f.without) > 0:
		return errors.New("--without is for servers judged with --target")
	case f.target == "" && f.targetCA != "":
		return errors.New("--target-ca is for servers judged with --target")
	case f.target == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("--target is %q; expected a URL such as http://127.0.0.1:8080",
			admin.Redact(f.target))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("--target is %q; expected a URL without user, query and fragment",
			admin.Redact(f.target))
	case f.targetCA != "" && u.Scheme != "https":
		return errors.New("--target-ca is for an https target")
	case f.elsewhere() && onlyHere(u.Hostname()):
		return fmt.Errorf("--target is %s, and with --engine %s each node's own; expected an address "+
			"that the nodes reach", f.target, f.engine)
	case f.baseline != "":
		return errors.New("--baseline names a design, and --target is judged alone")
	}
	return nil
}

// onlyHere says whether a host is the machine itself wherever it is used.
func onlyHere(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip.IsLoopback() || ip.IsUnspecified()
}

// typedFlag says that a flag was given on the command line. Variables are there for many runs.
func typedFlag(changed func(flag string) bool, flag string) bool {
	return changed(flag) && os.Getenv(variable(flag)) == ""
}

// checkAddresses refuses addresses of stores that would not be used: whoever types one expects
// it to be used.
func (s *servers) checkAddresses(changed func(flag string) bool) error {
	if s.backend == env.External {
		return nil
	}
	for _, name := range []string{"postgres-url", "replica-url", "redis-url", "kafka-brokers"} {
		if typedFlag(changed, name) {
			return fmt.Errorf("--%s is for --backend external, and this is --backend %s", name, s.backend)
		}
	}
	return nil
}

// checkKeep refuses to keep what cannot be kept.
func (f *runFlags) checkKeep() error {
	switch {
	case !f.keep:
		return nil
	case f.target != "":
		return errors.New("--keep: a run with --target starts no stores")
	case f.backend == env.External:
		return errors.New("--keep: external stores are your own and stay as they are; " +
			"containers can be kept")
	case f.backend == env.Processes:
		return errKeepProcesses
	}
	return nil
}

var errKeepProcesses = errors.New("--keep: local processes always end with stampede; " +
	"only containers can be kept (--backend containers)")

// read reads the files that flags name.
func (f *runFlags) read() (err error) {
	switch f.fault {
	case "":
	case noFaults:
		f.given.faults = []byte("[]")
	default:
		if f.given.faults, err = os.ReadFile(f.fault); err != nil {
			return fmt.Errorf("--fault: expected none or a file: %w", err)
		}
	}
	if f.targetCA == "" {
		return nil
	}
	text, err := os.ReadFile(f.targetCA)
	if err != nil {
		return fmt.Errorf("--target-ca: %w", err)
	}
	f.given.authorityText, f.given.authorities = text, x509.NewCertPool()
	if !f.given.authorities.AppendCertsFromPEM(text) {
		return fmt.Errorf("--target-ca: %s has no certificate in PEM form", f.targetCA)
	}
	return nil
}

// noFaults is the value of --fault that leaves out all of them.
const noFaults = "none"

// settings are the scenario's overrides, those of flags first.
func (f *runFlags) settings() []string {
	set := []string{}
	if f.rate > 0 {
		set = append(set, "load.arrival.rate="+strconv.FormatFloat(f.rate, 'g', -1, 64))
	}
	if f.duration > 0 {
		set = append(set, "load.arrival.over="+f.duration.String())
	}
	if f.changed("side-by-side") {
		set = append(set, "side_by_side="+strconv.FormatBool(f.sideBySide))
	}
	if f.repeat > 0 {
		set = append(set, "repeats="+strconv.Itoa(f.repeat))
	}
	if f.some() {
		set = append(set, "variants=["+strings.Join(f.variants, ", ")+"]")
	}
	if f.baseline != "" {
		set = append(set, "baseline="+f.baseline)
	}
	return append(set, f.set...)
}

// checkTarget refuses what cannot be done to a foreign server.
func (f *runFlags) checkTarget(p resolved) error {
	if f.target == "" {
		return nil
	}
	if len(p.Scenario.Faults) > 0 {
		return usage(fmt.Errorf("%s has faults, and a server judged with --target cannot be "+
			"broken from here; add --fault none", p.Scenario.Name))
	}
	if p.System.Target == nil {
		return usage(fmt.Errorf("%s has no HTTP API, so no server of it can be judged; its System has "+
			"no Target", p.System.Name))
	}
	known := []string{}
	for _, inv := range p.System.Invariants(p.Params) {
		known = append(known, inv.Name())
	}
	for _, name := range f.without {
		if !slices.Contains(known, name) {
			return usage(fmt.Errorf("--without: %s has no invariant %q%s", p.System.Name, name,
				didYouMean(name, known)))
		}
	}
	return nil
}

// plan decodes a scenario with the flags applied. When only some variants are
// wanted and the baseline is not among them, the first one takes its place.
func (f *runFlags) plan(name string) (resolved, error) {
	opts := scenario.Options{Profile: f.profile}
	if f.given.faults != nil {
		opts.FaultsFile, opts.Faults = f.fault, f.given.faults
	}
	set := f.settings()
	if f.some() && f.baseline == "" {
		whole, err := resolve(name, scenario.Options{Profile: f.profile})
		if err != nil {
			return whole, err
		}
		if !slices.Contains(f.variants, whole.Scenario.Baseline) {
			set = append([]string{"baseline=" + f.variants[0]}, set...)
		}
	}
	opts.Set = set
	plan, err := resolve(name, opts)
	if served, other := f.served(set, plan.Scenario); other && err == nil {
		opts.Set = served
		plan, err = resolve(name, opts)
	}
	if f.simulated != nil {
		if err == nil && f.scale != 1 && len(plan.Scenario.Load.Arrival.Trace) > 0 {
			err = usage(errors.New("--scale: the load is a trace, which has its own times"))
		}
		plan.Scenario = scaled(plan.Scenario, f.scale)
	}
	return plan, f.asTyped(err)
}

// some says that only some of the variants are wanted.
func (f *runFlags) some() bool { return len(f.variants) > 0 && f.variants[0] != "all" }
