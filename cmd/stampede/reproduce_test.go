package main

import (
	"context"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/fit"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// TestReproduceNamesTheServers: the line of an external run can be run again,
// and has no password in it.
func TestReproduceNamesTheServers(t *testing.T) {
	for want, s := range map[string]servers{
		"--backend processes": {backend: "processes", redisURL: "redis://h:1/0"},
		"--backend external --postgres-url 'postgres://u@h/d?a=1&b=2' --redis-url redis://h:1/0 --allow-nonempty": {
			backend: "external", postgresURL: "postgres://u@h/d?a=1&b=2", redisURL: "redis://h:1/0",
			allowNonEmpty: true},
		"--backend external --redis-url redis://h:1/0 # with STAMPEDE_POSTGRES_URL=postgres://u:xxxxx@h/d, " +
			"the passwords put in": {backend: "external", postgresURL: "postgres://u:hush@h/d",
			redisURL: "redis://h:1/0"},
	} {
		line := typed{}
		note := line.servers(s)
		if got := strings.Join(line, " ") + note; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestReproduceNamesDesigns: the line has the flags that a user would type, however the run
// was asked for, and makes the same scenario.
func TestReproduceNamesDesigns(t *testing.T) {
	for want, args := range map[string][]string{
		"": nil,
		" --design redis_lua,for_update --baseline redis_lua": {"--design", "redis_lua,for_update"},
		" --design redis_lua,for_update --baseline for_update": {"--set",
			"variants=[redis_lua, for_update]", "--baseline", "for_update"},
		" --duration 2s --repeats 3 --fault none --baseline redis_lua --set params.units=7": {
			"--set", "params.units=7", "--set", "baseline=redis_lua", "--fault", "none", "--duration", "2s",
			"--repeats", "3"},
		" --design redis_lua --baseline redis_lua --set params.units=7": {"--design", "for_update",
			"--set", "variants=[redis_lua]", "--set", "baseline=redis_lua", "--set", "params.units=7"},
	} {
		f, plan := plannedRun(t, args)
		line := reproduce("flash-sale-100k", plan, 7, f)
		rest, found := strings.CutPrefix(line, "stampede run flash-sale-100k --profile default --seed 7")
		if !found || rest != want {
			t.Errorf("%q\ngot  %s\nwant …%s", args, line, want)
		}
		_, again := plannedRun(t, strings.Fields(rest))
		if !reflect.DeepEqual(again.Scenario, plan.Scenario) {
			t.Errorf("%s\nruns  %+v\nwant %+v", line, again.Scenario, plan.Scenario)
		}
	}
}

// TestReproduceAVariant: what stands beside a violation runs that one variant of the
// run, as it was run there, however the run was asked for.
func TestReproduceAVariant(t *testing.T) {
	for name, args := range map[string][]string{
		"as it is":   {"--backend", "processes"},
		"some":       {"--design", "redis_lua,naive_read_write", "--repeats", "3"},
		"a baseline": {"--baseline", "redis_lua", "--profile", "smoke", "--duration", "2s"},
		"by setting": {"--set", "variants=[redis_lua, naive_read_write]", "--set", "baseline=redis_lua"},
		"passwords": {"--backend", "external", "--postgres-url", "postgres://u:hush@h/d",
			"--redis-url", "redis://h:1/0"},
	} {
		t.Run(name, func(t *testing.T) {
			f, plan := plannedRun(t, args)
			s := rundir.Summary{Run: rundir.RunInfo{Reproduce: reproduce("flash-sale-100k", plan, 7, f)}}
			for _, v := range plan.Scenario.Variants {
				s.Variants = append(s.Variants, rundir.Variant{Name: v})
			}
			line := answer.ReproduceVariant(s, "naive_read_write")
			words, err := exec.CommandContext(t.Context(), "sh", "-c",
				"printf '%s\\n' "+strings.TrimPrefix(line, "stampede run flash-sale-100k ")).Output()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			again, narrow := plannedRun(t, strings.Split(strings.TrimSpace(string(words)), "\n"))
			if got := narrow.Scenario.Variants; !slices.Equal(got, []string{"naive_read_write"}) {
				t.Errorf("%s\nruns %v", line, got)
			}
			if again.seed != "7" || again.backend != f.backend ||
				narrow.Scenario.Repeats != plan.Scenario.Repeats ||
				narrow.Scenario.Profile != plan.Scenario.Profile ||
				!reflect.DeepEqual(narrow.Scenario.Load, plan.Scenario.Load) {
				t.Errorf("%s\nis another run", line)
			}
		})
	}
}

// TestReproduceAFittedLoad: the line runs a load of the length that this machine found, and
// is judged as the run was on a machine that sends as much.
func TestReproduceAFittedLoad(t *testing.T) {
	clean := func(context.Context, float64) (fit.Sample, error) { return fit.Sample{}, nil }
	late := func(context.Context, float64) (fit.Sample, error) {
		return fit.Sample{LagP50: time.Second, LagP99: time.Second}, nil
	}
	for name, c := range map[string]struct {
		probe  fit.Probe
		over   string
		capped bool
		told   string
	}{
		"fast": {clean, "6s", false,
			"105,500 operations over 6s; this machine sends 2,048,000 a second cleanly"},
		"slow": {late, "8.5s", true,
			"105,500 operations over 8.5s; this machine sends 1,000 a second cleanly, and the load is " +
				"more than half of that: promises of time are not judged"},
	} {
		t.Run(name, func(t *testing.T) {
			f, plan := plannedRun(t, nil)
			told := ""
			plan, err := fitLoad(t.Context(), plan, c.probe, func(format string, args ...any) {
				told += fmt.Sprintf(format, args...)
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := "the load was fitted: " + c.told; told != want {
				t.Errorf("said %q, want %q", told, want)
			}
			if plan.fitted.Capped != c.capped {
				t.Errorf("capped is %v, want %v", plan.fitted.Capped, c.capped)
			}
			line := reproduce("flash-sale-100k", plan, 7, f)
			if want := "--set load.arrival.over=" + c.over; !strings.Contains(line, want) {
				t.Errorf("%s\nhas no %s", line, want)
			}
			_, again := plannedRun(t, strings.Fields(strings.TrimPrefix(line,
				"stampede run flash-sale-100k ")))
			if !reflect.DeepEqual(again.Scenario, plan.Scenario) {
				t.Errorf("%s\nruns  %+v\nwant %+v", line, again.Scenario, plan.Scenario)
			}
			over := again.Scenario.Load.Arrival.Over
			again, err = fitLoad(t.Context(), again, c.probe, func(string, ...any) {})
			if err != nil || again.fitted.Capped != c.capped || again.Scenario.Load.Arrival.Over != over {
				t.Errorf("%s\nis judged as %+v, %v", line, again.fitted, err)
			}
		})
	}
}

// plannedRun is a run of flash-sale-100k with some flags.
func plannedRun(t *testing.T, args []string) (runFlags, resolved) {
	t.Helper()
	f, cmd := runFlags{}, &cobra.Command{}
	f.define(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	plan, err := f.plan("flash-sale-100k")
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return f, plan
}
