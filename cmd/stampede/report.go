package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"stampede/harness/durable"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/compare"
	"stampede/reports/export"
	"stampede/reports/page"
	"stampede/reports/words"
)

func newReport(a *app) *cobra.Command {
	var formats []string
	var output, out string
	var index, open bool
	cmd := &cobra.Command{
		Use:   "report <run>... | --index",
		Short: "Render the reports of stored runs again, or a page over all runs",
		RunE: func(_ *cobra.Command, args []string) error {
			if index {
				if err := a.index(out, output, args); err != nil || !open {
					return err
				}
				return withCode(exitEnvironment, a.openPage(filepath.Join(out, indexFile)))
			}
			if len(args) == 0 {
				return usage(errors.New("expected a run, or --index for a page over all runs"))
			}
			if err := checkFormats(formats, output, len(args)); err != nil {
				return usage(err)
			}
			if open && (len(args) != 1 || output != "" || !slices.Contains(formats, "html")) {
				return usage(errors.New("--open takes one run, whose report.html is written"))
			}
			for _, which := range args {
				if err := a.report(which, out, output, formats); err != nil {
					return err
				}
			}
			if !open {
				return nil
			}
			stored, err := openRun(out, args[0])
			if err != nil {
				return usage(err)
			}
			return withCode(exitEnvironment,
				a.openPage(filepath.Join(stored.Path, rundir.ReportFile)))
		},
	}
	cmd.Flags().StringSliceVar(&formats, "format", []string{"html", "md", "junit", "metrics"},
		"html, md, junit, json or metrics; json is printed unless --output names a file")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write here instead (one run, one format; "+
		"- is standard output)")
	cmd.Flags().StringVar(&out, "out", "runs", "the folder of the runs")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in the browser")
	cmd.Flags().BoolVar(&index, "index", false, "write index.html over all finished runs in the "+
		"folder of the runs")
	return cmd
}

// indexFile is the page over all runs, in their folder.
const indexFile = "index.html"

// index writes a page over all runs in a folder: there, where its links lead to them.
func (a *app) index(out, output string, args []string) error {
	if len(args) > 0 || output != "" {
		return usage(errors.New("--index takes no run and no --output: it is written into the folder " +
			"of the runs, which --out names"))
	}
	if _, err := os.Stat(out); err != nil {
		return usage(fmt.Errorf("there are no runs in %s: %w", out, err))
	}
	x, err := page.LoadIndex(out)
	if err != nil {
		return usage(err)
	}
	path := filepath.Join(out, indexFile)
	err = durable.WriteFile(path, func(w io.Writer) error { return page.WriteIndex(w, x) })
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	fmt.Fprintln(a.stdout, path)
	return nil
}

// renderings are the formats of a report: the file in the run directory and
// how it is written.
var renderings = map[string]struct {
	file  string
	write func(io.Writer, answer.Data) error
}{
	"html":    {rundir.ReportFile, page.HTML},
	"md":      {rundir.MarkdownFile, export.Markdown},
	"junit":   {rundir.JUnitFile, export.JUnit},
	"metrics": {rundir.MetricsFile, export.Metrics},
}

func checkFormats(formats []string, output string, runs int) error {
	for _, format := range formats {
		if err := oneOf("format", format, "html", "md", "junit", "json", "metrics"); err != nil {
			return err
		}
	}
	if output != "" && (runs != 1 || len(formats) != 1) {
		return errors.New("--output takes one run and one --format")
	}
	return nil
}

func (a *app) report(which, out, output string, formats []string) error {
	stored, err := openRun(out, which)
	if err != nil {
		return usage(err)
	}
	data, err := answer.Load(stored.Path)
	if err != nil {
		return usage(err)
	}
	if output != "" {
		return a.reportTo(output, formats[0], data)
	}
	if err := writeReports(stored.Path, data, formats); err != nil {
		return withCode(exitEnvironment, err)
	}
	for _, format := range formats {
		if format == "json" && len(formats) == 1 {
			return writeJSON(a.stdout, data.Summary) // asked for, and what is stored is no new file
		}
		name := rundir.SummaryFile
		if format != "json" {
			name = renderings[format].file
		}
		fmt.Fprintln(a.stdout, plain.Line(filepath.Join(stored.Path, name)))
	}
	return nil
}

func (a *app) reportTo(output, format string, data answer.Data) error {
	render := func(w io.Writer) error {
		if format == "json" {
			return writeJSON(w, data.Summary)
		}
		return renderings[format].write(w, data)
	}
	if output == "-" {
		return render(a.stdout)
	}
	return withCode(exitEnvironment, durable.WriteFile(output, render))
}

// writeReports renders the formats into a run directory, the page last: it
// links to the files that are there by then.
func writeReports(path string, data answer.Data, formats []string) error {
	dir, err := rundir.Lock(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, format := range formats {
		if format == "html" || format == "json" {
			continue // json is the summary, which is there
		}
		if err := render(dir, format, data); err != nil {
			return err
		}
	}
	if !slices.Contains(formats, "html") {
		return nil
	}
	if err := answer.WriteArtifacts(dir, data); err != nil {
		return err
	}
	if data, err = answer.Relist(path, data); err != nil {
		return err
	}
	return render(dir, "html", data)
}

func render(dir *rundir.Dir, format string, data answer.Data) error {
	rendering := renderings[format]
	write := func(w io.Writer) error { return rendering.write(w, data) }
	if err := dir.WriteFile(rendering.file, write); err != nil {
		return fmt.Errorf("rendering %s: %w", format, err)
	}
	return nil
}

// told is what a judged run came to.
type told struct {
	data answer.Data
	code int // the exit code
}

// tell writes the reports of a judged run and prints its result, unless that is to
// be JSON, which the caller knows the form of.
func (a *app) tell(path string, summary rundir.Summary, f runFlags) (t told, err error) {
	t.code = exitOf(summary, f.failOn)
	if t.data, err = answer.Load(path); err != nil {
		return t, err
	}
	formats := []string{"html", "md", "junit", "metrics"}
	if err := writeReports(path, t.data, formats); err != nil {
		return t, withCode(exitEnvironment, err)
	}
	if err := f.copies(path); err != nil {
		return t, withCode(exitEnvironment, err)
	}
	if err := appendStepSummary(t.data); err != nil {
		return t, withCode(exitEnvironment, err)
	}
	if err := a.annotate(a.stderr, t.data); err != nil {
		return t, err
	}
	if n := notJudged(summary); n > 0 && summary.Verdict.Timing != rundir.NoTimes {
		a.logf("note: %d objectives or promises of time are not judged because of noise", n)
	}
	comparison, err := f.compare(path, t.data)
	if err != nil {
		return t, err
	}
	t.code = worstExit([]int{t.code, a.regressionExit(comparison, f)})
	if stop := a.interrupts.exit(); stop != 0 {
		t.code = stop
	}
	if f.format == "json" || f.format == "quiet" {
		return t, nil
	}
	if comparison != nil {
		if err := compare.Text(a.stdout, f.acrossMachines, *comparison); err != nil {
			return t, err
		}
		fmt.Fprintln(a.stdout)
	}
	return t, export.Text(a.stdout, t.data, words.TextOptions{
		Report: filepath.Join(path, rundir.ReportFile), Exit: t.code,
		Colour: wantColour(f.colour, a.stdout), Width: resultColumns(a.stdout)})
}

// notJudged counts what depends on times and was missed only under noise, of all designs.
func notJudged(s rundir.Summary) (n int) {
	for _, v := range s.Variants {
		for _, slo := range v.SLOs {
			if slo.NotJudged {
				n++
			}
		}
		for _, inv := range v.Invariants {
			if inv.NotJudged() && !inv.Unjudged {
				n++
			}
		}
	}
	return n
}

// copied is a file of a run directory, and where the user wants a copy of it.
type copied struct{ flag, to, file string }

func (f *runFlags) copied() []copied {
	all := []copied{
		{"html", f.html, rundir.ReportFile}, {"md", f.md, rundir.MarkdownFile},
		{"junit", f.junit, rundir.JUnitFile}, {"json", f.json, rundir.SummaryFile},
		{"metrics", f.metrics, rundir.MetricsFile},
	}
	return slices.DeleteFunc(all, func(c copied) bool { return c.to == "" })
}

// checkCopies refuses to copy the files of several scenarios to one place, where the
// last would be all there is.
func (f *runFlags) checkCopies(scenarios int) error {
	if all := f.copied(); scenarios > 1 && len(all) > 0 {
		return fmt.Errorf("--%s names one file, and there are %d scenarios; each has its own in %s",
			all[0].flag, scenarios, filepath.Join(f.out, "<scenario>", rundir.Latest, all[0].file))
	}
	return nil
}

// copies puts the files that the user asked for where they asked for them.
func (f *runFlags) copies(path string) error {
	for _, c := range f.copied() {
		content, err := os.ReadFile(filepath.Join(path, c.file))
		if err != nil {
			return fmt.Errorf("copying %s: %w", c.file, err)
		}
		err = durable.WriteFile(c.to, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
