package env_test

import (
	"context"
	"strings"
	"testing"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// backend is a provider that is or is not available.
type backend struct {
	name string
	ok   bool
}

func (b backend) Name() string { return b.name }

func (b backend) Available(context.Context, env.Spec) (bool, string) {
	if b.ok {
		return true, b.name + " is fine"
	}
	return false, b.name + " is broken"
}

func (b backend) Start(context.Context, env.Spec) (env.Cluster, error) { return nil, nil }

func TestChoose(t *testing.T) {
	providers := func(containers, processes, external bool) []env.Provider {
		return []env.Provider{backend{env.External, external}, backend{env.Processes, processes},
			backend{env.Containers, containers}}
	}
	cases := map[string]struct {
		want      string
		providers []env.Provider
		chosen    string
		says      string // in the reason or in the error
	}{
		"auto takes containers": {env.Auto, providers(true, true, true), env.Containers,
			"containers: containers is fine"},
		"nothing said is auto": {"", providers(true, true, true), env.Containers, "fine"},
		"else processes": {env.Auto, providers(false, true, true), env.Processes,
			"processes: processes is fine (not containers: containers is broken)"},
		"never the user's own": {env.Auto, providers(false, false, true), "",
			"no backend can start postgres and redis (containers: containers is broken; " +
				"processes: processes is broken); `stampede doctor --fix`"},
		"as asked for": {env.External, providers(true, true, true), env.External,
			"external, as asked for: external is fine"},
		"asked for, broken": {env.Containers, providers(false, true, true), "",
			"backend containers: containers is broken; `stampede doctor`"},
		"unknown": {"cloud", providers(true, true, true), "",
			`unknown backend "cloud": expected auto, containers, processes or external`},
		"not built in": {env.External, nil, "", "backend external is not part of this program"},
	}
	spec := env.Spec{Services: []sut.Service{sut.Postgres, sut.Redis}}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, reason, err := env.Choose(t.Context(), c.want, spec, c.providers...)
			if (err == nil) != (c.chosen != "") {
				t.Fatalf("got %v, %v", got, err)
			}
			if err != nil {
				reason = err.Error()
			} else if got.Name() != c.chosen {
				t.Errorf("chose %s, want %s", got.Name(), c.chosen)
			}
			if !strings.Contains(reason, c.says) || strings.Contains(reason, "\n") {
				t.Errorf("it says %q, want %q", reason, c.says)
			}
		})
	}
}
