package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this binary as the command.
func TestMain(m *testing.M) {
	if os.Getenv("STAMPEDE_TEST_AS_COMMAND") != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"stampede": main})
}

// TestAsCalled: a command to be typed names the program as it was called, so that a shell
// finds it.
func TestAsCalled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	built, installed := filepath.Join(dir, "built"), filepath.Join(dir, "installed")
	put(t, built, "a program")
	put(t, installed, "another program")
	nowhere := func(string) (string, error) { return "", errors.New("not on the PATH") }
	on := func(path string) func(string) (string, error) {
		return func(string) (string, error) { return path, nil }
	}
	for _, c := range []struct {
		called string
		look   func(string) (string, error)
		want   string
	}{
		{"stampede", nowhere, "stampede"},
		{"bin/stampede", nowhere, "bin/stampede"},
		{"/a b/stampede", nowhere, "'/a b/stampede'"},
		{built, on(built), "stampede"},
		{built, on(installed), built},
	} {
		if got := programOf(c.called, c.look); got != c.want {
			t.Errorf("called as %s: %s, want %s", c.called, got, c.want)
		}
	}
	got := asCalled("stampede: `stampede list` or `stampede run x`", "bin/stampede")
	if want := "stampede: `bin/stampede list` or `bin/stampede run x`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := openHint("bin/stampede", "runs", "x"); got != "Open the report: bin/stampede open x" {
		t.Errorf("%s", got)
	}
}

// TestScripts runs testdata/script: the command as a user meets it. Scripts
// need no store unless their name begins with "store-".
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "damage": damage, "interrupt": interrupt,
			"offers": offers, "loses": loses, "onnode": onNode, "atonce": atOnce,
			"emptycluster": emptyCluster,
			"busyport":     busyPort, "serve": serve, "post": post,
			"answer": answered, "shop": shop,
			"smalldisk": smallDisk, "ends": ends, "whilerunning": whileRunning, "stopped": stopped,
			"keptby": keptBy, "order": order, "edit": edit, "pretend": pretend,
			"searched": searched,
			"tlsfront": tlsFront, "owndata": ownData, "lab": startedLab, "nothingleft": nothingLeft,
			"ownstores": ownStores, "plant": plant, "untouched": untouched,
		},
		Condition: condition,
		Setup: func(e *testscript.Env) error {
			// The distribution's stores are found on the caller's PATH.
			shop, err := filepath.Abs("../../systems/flashsale/testdata/foreign/shop.py")
			e.Setenv("SHOP", shop)
			if err != nil {
				return err
			}
			old, err := filepath.Abs("testdata/run-of-version-1")
			e.Setenv("VERSION1", old)
			if err != nil {
				return err
			}
			e.Setenv("PATH", e.Getenv("PATH")+":"+os.Getenv("PATH"))
			if swarm := os.Getenv(swarmVariable); swarm != "" {
				e.Setenv("DOCKER_HOST", "unix://"+swarm+"/1/docker.sock")
				e.Setenv("ENGINE", "swarm")
			}
			if cluster := os.Getenv(kubernetesVariable); cluster != "" {
				e.Setenv("KUBECONFIG", cluster+"/kubeconfig-user")
				e.Setenv("ENGINE", "kubernetes")
			}
			e.Setenv("ADDRESS", os.Getenv("STAMPEDE_TEST_ADDRESS"))
			return nil
		},
	})
}
