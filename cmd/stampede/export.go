package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stampede/harness/durable"
	"stampede/harness/export"
	"stampede/harness/history"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// exportFlags are the flags of export.
type exportFlags struct {
	design, format, output, out string
	repeat                      int
}

func newExport(a *app) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export <run>",
		Short: "Write a run's recorded operations as NDJSON, CSV or Parquet",
		Long: `Writes the recorded operations of a stored run: what each asked, when it was due, sent and
answered (nanoseconds on the run's clock), its outcome and its reply.

csv and parquet are tables with a row for each attempt, of all designs and repeats
unless --design or --repeat limits them. ndjson is one history: a JSON object a line,
its phases, faults and samples first.

<run> is a directory, a scenario's name for its latest run, or latest.`,
		Example: `  stampede export latest -o operations.parquet
  stampede export flash-sale-100k --design redis_lua --format csv -o buys.csv
  stampede export latest --design redis_lua --repeat 1 | head`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.export(args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.design, "design", "", "only this design, by `name`")
	fl.IntVar(&f.repeat, "repeat", 0, "only this repeat, from 1")
	fl.StringVar(&f.format, "format", "", "ndjson, csv or parquet; the default follows the "+
		"extension of --output, else ndjson")
	fl.StringVarP(&f.output, "output", "o", "-", "write this `file`; - is standard output")
	fl.StringVar(&f.out, "out", "runs", "the folder of the runs")
	return cmd
}

// exportFormats are the formats of export.
func exportFormats() []string { return []string{"ndjson", "csv", "parquet"} }

// check completes the flags and refuses those that make no sense.
func (f *exportFlags) check() error {
	if f.format == "" {
		f.format = "ndjson"
		for _, format := range exportFormats() {
			if filepath.Ext(f.output) == "."+format {
				f.format = format
			}
		}
	}
	if f.repeat < 0 {
		return errors.New("--repeat counts from 1")
	}
	return oneOf("format", f.format, exportFormats()...)
}

func (a *app) export(which string, f exportFlags) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	stored, err := openRun(f.out, which)
	if err != nil {
		return usage(err)
	}
	slots, err := f.slots(stored)
	if err != nil {
		return usage(err)
	}
	write := func(w io.Writer) error { return exportTo(w, f.format, stored, slots) }
	switch {
	case f.output != "-":
		return withCode(exitEnvironment, durable.WriteFile(f.output, write))
	case f.format == "parquet" && isTerminal(a.stdout):
		return usage(errors.New("parquet is not for a terminal; name a file with --output"))
	}
	return withCode(exitEnvironment, write(a.stdout))
}

// slots are the repeats of a run that were chosen and have a history.
func (f *exportFlags) slots(stored *rundir.Run) ([]rundir.Slot, error) {
	var slots []rundir.Slot
	known := []string{}
	for _, slot := range stored.Manifest.Slots {
		known = words.With(known, slot.Variant)
		if f.design != "" && slot.Variant != f.design || f.repeat > 0 && slot.Repeat+1 != f.repeat {
			continue
		}
		if path, err := stored.File(slot.History); err == nil {
			if _, err := os.Stat(path); err == nil { // an interrupted run has fewer
				slots = append(slots, slot)
			}
		}
	}
	switch {
	case len(slots) == 0:
		return nil, fmt.Errorf("%s has no history of that design and repeat; it has %d repeats of %s%s",
			stored.Path, stored.Manifest.Run.Repeats, strings.Join(known, ", "),
			didYouMean(f.design, known))
	case len(slots) > 1 && f.format == "ndjson":
		return nil, fmt.Errorf("ndjson is one history, and these are %d; choose one with --design and "+
			"--repeat, or --format csv or parquet; the run has %d repeats of %s", len(slots),
			stored.Manifest.Run.Repeats, strings.Join(known, ", "))
	}
	return slots, nil
}

// exportTo writes the histories of repeats.
func exportTo(w io.Writer, format string, stored *rundir.Run, slots []rundir.Slot) error {
	var table export.Table
	var err error
	switch format {
	case "csv":
		table, err = export.CSV(w)
	case "parquet":
		table, err = export.Parquet(w)
	}
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if err := exportSlot(w, table, stored, slot); err != nil {
			return fmt.Errorf("%s, repeat %d: %w", slot.Variant, slot.Repeat+1, err)
		}
	}
	if table == nil {
		return nil
	}
	return table.Close()
}

// exportSlot writes one history: into the table, or without one as NDJSON.
func exportSlot(w io.Writer, table export.Table, stored *rundir.Run, slot rundir.Slot) (err error) {
	path, err := stored.File(slot.History)
	if err != nil {
		return err
	}
	h, err := history.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if table == nil {
		return history.WriteNDJSON(w, h)
	}
	for rec, err := range h.All() {
		if err != nil {
			return err
		}
		if err := table.Add(export.RowOf(slot.Variant, slot.Repeat+1, rec)); err != nil {
			return err
		}
	}
	return nil
}
