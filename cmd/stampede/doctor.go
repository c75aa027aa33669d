package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stampede/harness/env/doctor"
	"stampede/harness/env/processes"
	"stampede/harness/fit"
	"stampede/harness/measure"
	"stampede/harness/plain"
	"stampede/harness/telemetry"
	"stampede/reports/words"
)

func newDoctor(a *app) *cobra.Command {
	var opts doctor.Options
	var fix, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine has and lacks; --fix installs the rest",
		Long: `Looks for what stampede needs and says what each backend lacks, then measures for some
seconds what this machine gives to a run now. With --fix it says what it is going to do and
does it (Debian or Ubuntu, as root). On a terminal it asks first.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.doctor(opts, fix, asJSON)
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "install what is missing")
	cmd.Flags().BoolVar(&opts.Tests, "tests", false, "require the tools of the tests too")
	cmd.Flags().BoolVar(&opts.Engine, "engine", false,
		"require a docker engine, a browser and the tools of the tests too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func (a *app) doctor(opts doctor.Options, fix, asJSON bool) error {
	if fix {
		var agree func() bool // nobody to ask means yes: in CI, or in a pipe
		if isTerminal(os.Stdin) && canRedraw(a.stderr) {
			agree = func() bool { return agreed(a.interrupts.soft, os.Stdin, a.stderr) }
		}
		err := doctor.Fix(a.interrupts.soft, opts, a.stderr, agree, a.interrupts.beforeExit)
		if err != nil {
			return a.failed(exitEnvironment, err)
		}
	}
	checks := doctor.Examine(a.interrupts.soft, opts)
	rows, missing := doctorRows(checks)
	if !asJSON {
		table(a.stdout, rows)
	} else if err := writeJSON(a.stdout, checks); err != nil {
		return err
	}
	if len(missing) > 0 {
		return withCode(exitEnvironment, fmt.Errorf("missing: %s; `stampede doctor --fix` "+
			"installs it on Debian and Ubuntu", strings.Join(missing, ", ")))
	}
	if asJSON {
		return nil
	}
	if !fix {
		table(a.stdout, probeRows(a.interrupts.soft))
	}
	fmt.Fprintln(a.stdout, "ready: "+ready(checks))
	return nil
}

// agreed asks whether to install what was listed. An empty line means yes, the end of the
// input or of ctx means no.
func agreed(ctx context.Context, in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Install this? [Y/n] ")
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = "no"
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		return line == "" || line == "y" || line == "yes"
	case <-ctx.Done():
		return false
	}
}

// withEngine are the checks of containers, which all fail where no engine answers; the
// others fail too where the images of the stores are missing.
var withEngine = []string{"images", "kafka image", "roles image"}

// containersOff says what follows from a check of containers that failed. The engine's own
// words, which name every image, are in the JSON document.
var containersOff = map[string]string{
	"engine":      "no containers: no engine answers",
	"images":      "no containers: images are missing",
	"kafka image": "no brokers in containers: their image is missing",
}

// doctorRows is a line for each check, and the names of those that must be mended. What
// only follows from another check is left out.
func doctorRows(checks []doctor.Check) (rows [][]string, missing []string) {
	passed := func(name string) bool {
		return slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Name == name && c.OK })
	}
	for _, c := range checks {
		follows := slices.Contains(withEngine, c.Name) && !c.OK &&
			(!passed("engine") || c.Name != "images" && !passed("images"))
		if follows || c.OK && c.Name == "backend" {
			continue
		}
		mark := "ok"
		if !c.OK {
			mark = "missing"
			if c.Optional {
				mark = "optional"
			} else {
				missing = append(missing, c.Name)
			}
		}
		detail := c.Detail
		if off := containersOff[c.Name]; off != "" && !c.OK && c.Optional {
			detail = off
		}
		if !c.OK && c.Fix != "" && !strings.Contains(detail, c.Fix) {
			detail += " (" + c.Fix + ")"
		}
		rows = append(rows, []string{mark, c.Name, detail})
	}
	return rows, missing
}

// ready names the backend that a run takes here, without its reason.
func ready(checks []doctor.Check) string {
	for _, c := range checks {
		if c.Name == "backend" {
			name, _, _ := strings.Cut(c.Detail, ":")
			return name
		}
	}
	return "nothing"
}

// probeRows measure, for some seconds, what this machine gives to a run now: how many
// operations a second it sends cleanly, what others take of its CPU meanwhile, and how long
// a flush takes where local stores keep their data. What cannot be measured is left out.
func probeRows(ctx context.Context) (rows [][]string) {
	before, unknown := telemetry.ReadMachine()
	began := time.Now()
	clean, err := fit.CleanRate(ctx, fit.Send)
	if err == nil {
		rows = append(rows, []string{"now", "clean rate", fmt.Sprintf("%s operations a second are sent "+
			"on time", plain.Count(int64(clean)))})
	}
	if now, err := telemetry.ReadMachine(); err == nil && unknown == nil {
		span := time.Since(began).Seconds() * float64(max(1, now.Cores))
		steal := (now.Stolen - before.Stolen).Seconds() / span
		note := ""
		if steal > measure.StealMost {
			note = ": correctness is not affected, times will be marked ≈"
		}
		rows = append(rows, []string{"now", "steal", fmt.Sprintf("the hypervisor took %.1f %% of the "+
			"CPU%s", 100*steal, note)})
	}
	if dir, _, err := processes.DataFolder(); err == nil {
		if took, err := processes.FlushTime(dir); err == nil {
			rows = append(rows, []string{"now", "flush", fmt.Sprintf("%s for 8 KiB, the median",
				words.Latency(took.Nanoseconds()))})
		}
	}
	return rows
}
