package main

import (
	"slices"
	"strconv"
	"strings"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/plain"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// reproduce is the command line that runs the same again.
func reproduce(name string, plan resolved, seed uint64, f runFlags) string {
	if f.replayed != nil {
		return f.replayed.run.Reproduce
	}
	command := "run"
	if f.simulated != nil {
		command = "simulate"
	}
	line := typed{"stampede", command, plain.Word(name)}
	if f.from != "" { // which has the load
		line[2] = plain.Word(plan.Scenario.Name)
	} else {
		line.flag("--profile", plan.Scenario.Profile)
	}
	line.flag("--seed", strconv.FormatUint(seed, 10))
	line.flag("--machine", f.machine)
	line.flag("--costs", f.costs)
	line.flag("--from", f.from)
	if f.scale > 0 && f.scale != 1 {
		line.flag("--scale", strconv.FormatFloat(f.scale, 'g', -1, 64))
	}
	note := line.servers(f.servers)
	line.flag("--target", admin.Redact(f.target))
	line.flag("--target-ca", f.targetCA)
	if f.changed != nil && f.changed("side-by-side") {
		line = append(line, "--side-by-side="+strconv.FormatBool(f.sideBySide))
	}
	if f.rate > 0 {
		line.flag("--rate", strconv.FormatFloat(f.rate, 'g', -1, 64))
	}
	if f.duration > 0 {
		line.flag("--duration", f.duration.String())
	}
	if f.repeat > 0 {
		line.flag("--repeats", strconv.Itoa(f.repeat))
	}
	line.flag("--fault", f.fault)
	if f.used() {
		line = append(line, "--generators", strconv.Itoa(f.count), "--engine", f.engine)
		line.flag("--advertise", f.advertise)
		line.flag("--namespace", f.place.Namespace)
		if f.elsewhere() {
			line.flag("--generator-image", f.image)
		}
	}
	line.flag("--without", f.without...)
	if f.changed != nil && f.changed("noise-floor") {
		line = append(line, "--noise-floor="+strconv.FormatBool(f.noiseFloor))
	}
	set := line.designs(f, plan.Scenario)
	line.settings(set, plan.System)
	if plan.fitted != nil && plan.fitted.CleanPerS > 0 {
		line.flag("--set", "load.arrival.over="+plan.Scenario.Load.Arrival.Over.String())
	}
	return strings.Join(line, " ") + note
}

// typed is a command line as a user would type it.
type typed []string

// flag adds a flag with each of its values, but not with an empty one.
func (l *typed) flag(name string, values ...string) {
	for _, value := range values {
		if value != "" {
			*l = append(*l, name, plain.Word(value))
		}
	}
}

// settings adds --set, without secrets.
func (l *typed) settings(set []string, sys sut.System) {
	for _, s := range set {
		l.flag("--set", scenario.HideSetting(s, scenario.Secrets(sys)))
	}
}

// designs adds the flags that choose the designs and the baseline of a planned scenario, none
// where its own were not changed, and returns the settings of --set that change other values.
func (l *typed) designs(f runFlags, sc scenario.Scenario) (set []string) {
	some, based := f.some(), f.baseline != ""
	for _, s := range f.set {
		switch path, _, _ := strings.Cut(s, "="); path {
		case "variants":
			some = true
		case "baseline":
			based = true
		default:
			set = append(set, s)
		}
	}
	if some {
		l.flag("--design", strings.Join(sc.Variants, ","))
	}
	switch {
	case !some && !based:
	case f.target != "": // --baseline is refused
		set = append(set, "baseline="+sc.Baseline)
	default:
		l.flag("--baseline", sc.Baseline)
	}
	return set
}

// servers adds the flags of a backend. A URL with a password is left to its variable; the
// note, a comment to a shell, says so.
func (l *typed) servers(s servers) (note string) {
	if s.backend != "auto" {
		l.flag("--backend", s.backend)
	}
	if s.backend != env.External {
		return ""
	}
	var secret []string
	for _, server := range []struct{ flag, variable, url string }{
		{"--postgres-url", "STAMPEDE_POSTGRES_URL", s.postgresURL},
		{"--replica-url", "STAMPEDE_REPLICA_URL", s.replicaURL},
		{"--redis-url", "STAMPEDE_REDIS_URL", s.redisURL},
	} {
		switch shown := admin.Redact(server.url); {
		case server.url == "":
		case strings.Contains(shown, admin.Hidden):
			secret = append(secret, server.variable+"="+plain.Word(shown))
		default:
			l.flag(server.flag, shown)
		}
	}
	if s.allowNonEmpty {
		*l = append(*l, "--allow-nonempty")
	}
	if len(secret) > 0 {
		// answer.ReproduceVariant knows how this begins.
		note = " # with " + strings.Join(secret, " ") + ", the passwords put in"
	}
	return note
}

// redacted is a command line without the passwords in its URLs and the secret parameters
// of the system: it goes into files that are kept and handed on.
func redacted(argv []string, sys sut.System) []string {
	shown, secrets := slices.Clone(argv), scenario.Secrets(sys)
	for i, word := range shown {
		word = scenario.HideSetting(word, secrets)
		shown[i] = word
		flag, value, joined := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, "--") && joined && strings.Contains(value, "://"):
			shown[i] = flag + "=" + admin.Redact(value)
		case strings.Contains(word, "://"):
			shown[i] = admin.Redact(word)
		}
	}
	return shown
}
