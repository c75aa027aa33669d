package doctor

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	checks := []Check{
		{Name: "a", OK: true, Fix: "apt-get install never"},
		{Name: "b", Optional: true, Fix: "apt-get install optional"},
		{Name: "c", Fix: "apt-get install two one"},
		{Name: "d", Fix: "apt-get install one"},
		{Name: "e", Fix: "advice"},
	}
	packages, start := wanted(checks)
	if !slices.Equal(packages, []string{"one", "two"}) || start {
		t.Errorf("%v, %v", packages, start)
	}
	if _, start := wanted([]Check{{Name: "docker", Fix: "dockerd"}}); !start {
		t.Error("an engine that does not answer is not started")
	}
	if _, start := wanted([]Check{{Name: "docker", Optional: true, Fix: "dockerd"}}); start {
		t.Error("an engine is started that nobody asked for")
	}
}

func TestExamineNamesEverythingOnce(t *testing.T) {
	for _, opts := range []Options{{}, {Engine: true}} {
		seen := map[string]bool{}
		for _, c := range Examine(t.Context(), opts) {
			if c.Name == "" || seen[c.Name] || c.Detail == "" {
				t.Errorf("%+v", c)
			}
			seen[c.Name] = true
			if c.Name == "docker" && c.Optional == opts.Engine {
				t.Errorf("docker is optional: %v, with %+v", c.Optional, opts)
			}
		}
		for _, name := range []string{"postgres", "redis", "docker", "chromium", "memory"} {
			if !seen[name] {
				t.Errorf("%s was not examined", name)
			}
		}
	}
}

func TestInstallSaysWhatToDoByHand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	err := install(t.Context(), []string{"no-such-package-anywhere"}, &out)
	if err == nil {
		t.Fatal("installed a package that does not exist")
	}
	if !strings.Contains(err.Error()+out.String(), "no-such-package-anywhere") {
		t.Errorf("the package is not named: %v", err)
	}
}
