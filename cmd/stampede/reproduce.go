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
	words := []string{"stampede", "run", plain.Word(name), "--profile", plan.Scenario.Profile,
		"--seed", strconv.FormatUint(seed, 10)}
	if f.backend != "auto" {
		words = append(words, "--backend", f.backend)
	}
	urls, note := f.servers()
	words = append(words, urls...)
	if f.target != "" {
		words = append(words, "--target", plain.Word(admin.Redact(f.target)))
	}
	if f.targetCA != "" {
		words = append(words, "--target-ca", plain.Word(f.targetCA))
	}
	if !f.interleave {
		words = append(words, "--interleave=false")
	}
	words = append(words, f.loadWords()...)
	if f.fault != "" {
		words = append(words, "--fault", plain.Word(f.fault))
	}
	for _, inv := range f.without {
		words = append(words, "--without", plain.Word(inv))
	}
	if f.changed != nil && f.changed("noise-floor") {
		words = append(words, "--noise-floor="+strconv.FormatBool(f.noiseFloor))
	}
	designs, set := f.designWords(plan.Scenario)
	words = append(words, designs...)
	for _, s := range set {
		words = append(words, "--set", plain.Word(scenario.HideSetting(s, scenario.Secrets(plan.System))))
	}
	if plan.fitted != nil && plan.fitted.CleanPerS > 0 {
		words = append(words, "--set", "load.arrival.over="+plan.Scenario.Load.Arrival.Over.String())
	}
	return strings.Join(words, " ") + note
}

// loadWords are the flags that change how much load there is.
func (f *runFlags) loadWords() (words []string) {
	if f.rate > 0 {
		words = append(words, "--rate", strconv.FormatFloat(f.rate, 'g', -1, 64))
	}
	if f.duration > 0 {
		words = append(words, "--duration", f.duration.String())
	}
	if f.repeat > 0 {
		words = append(words, "--repeats", strconv.Itoa(f.repeat))
	}
	return words
}

// designWords are the flags that choose the designs and the baseline of a planned scenario,
// none where its own were not changed, and the settings of --set that change other values.
func (f *runFlags) designWords(sc scenario.Scenario) (words, set []string) {
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
		words = append(words, "--design", plain.Word(strings.Join(sc.Variants, ",")))
	}
	switch {
	case !some && !based:
	case f.target != "": // --baseline is refused
		set = append(set, "baseline="+sc.Baseline)
	default:
		words = append(words, "--baseline", plain.Word(sc.Baseline))
	}
	return words, set
}

// servers are the flags of the external backend. A URL with a password is left
// to its variable; the note, a comment to a shell, says so.
func (f *runFlags) servers() (flags []string, note string) {
	if f.backend != env.External {
		return nil, ""
	}
	var secret []string
	for _, server := range []struct{ flag, variable, url string }{
		{"--postgres-url", "STAMPEDE_POSTGRES_URL", f.postgresURL},
		{"--redis-url", "STAMPEDE_REDIS_URL", f.redisURL},
	} {
		switch shown := admin.Redact(server.url); {
		case server.url == "":
		case strings.Contains(shown, admin.Hidden):
			secret = append(secret, server.variable+"="+plain.Word(shown))
		default:
			flags = append(flags, server.flag, plain.Word(shown))
		}
	}
	if f.allowNonEmpty {
		flags = append(flags, "--allow-nonempty")
	}
	if len(secret) > 0 {
		// answer.ReproduceVariant knows how this begins.
		note = " # with " + strings.Join(secret, " ") + ", the passwords put in"
	}
	return flags, note
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
