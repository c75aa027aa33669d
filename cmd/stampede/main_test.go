package main

import (
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
			"busyport": busyPort, "serve": serve, "served": served, "post": post,
			"answer": answer, "shop": shop,
			"smalldisk": smallDisk, "ends": ends, "whilerunning": whileRunning, "stopped": stopped,
			"keptby": keptBy, "order": order, "edit": edit, "pretend": pretend,
			"searched": searched,
			"tlsfront": tlsFront, "owndata": ownData,
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
			return nil
		},
	})
}
