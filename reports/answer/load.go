package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// Load reads what reports need from a run directory: the summary, the
// timelines, and from the stored histories the records that violations name.
// A missing or damaged summary is an error; a timeline or a history that
// cannot be read becomes one of Data's Gaps, for a report with a gap is worth
// more than none.
func Load(dir string) (Data, error) {
	run, err := rundir.Open("", dir)
	if err != nil {
		return Data{}, err
	}
	summary, err := run.Summary()
	if err != nil {
		return Data{}, err
	}
	d := Data{Summary: summary, Timelines: map[RepeatRef]rundir.Timeline{},
		Windows: map[RepeatRef]rundir.Windows{}, Telemetry: map[RepeatRef]rundir.Telemetry{},
		Records: map[RepeatRef]map[uint64]history.Record{}, Deeds: map[RepeatRef][]history.Record{},
		Neighbours: map[RepeatRef]map[uint64][]history.Record{}}
	if d.Place, err = placeOf(run.Path); err != nil {
		return d, err
	}
	for _, v := range summary.Variants {
		shown := map[string]bool{} // invariants that an earlier repeat proves broken
		for _, r := range v.Repeats {
			d.loadRepeat(run, RepeatRef{v.Name, r.Index}, r, shown)
		}
	}
	if d.Prediction, err = run.Prediction(); err != nil {
		d.Gaps = append(d.Gaps, fmt.Sprintf("the prediction beside what was measured: %v", err))
	}
	if text, err := run.Scenario(); err == nil {
		d.Scenario = string(text)
	} else {
		d.Gaps = append(d.Gaps, fmt.Sprintf("the scenario as it was run: %v", err))
	}
	return Relist(run.Path, d)
}

// placeOf is a run directory from the folder of the runs on. That of a window lies in its
// search's, which has as many elements before it.
func placeOf(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("name the run directory: %w", err)
	}
	elements := strings.Split(strings.Trim(filepath.ToSlash(whole), "/"), "/")
	n := 3 // the folder of the runs, the scenario's, the run's
	if at := len(elements) - n; at >= 0 && elements[at] == rundir.WindowsFolder {
		n += 4 // the folder of the runs, that of searches, the scenario's, the search's
	}
	return strings.Join(elements[max(0, len(elements)-n):], "/"), nil
}

// Relist returns d with the files that the run directory has by now, without
// reading the run again.
func Relist(dir string, d Data) (Data, error) {
	files, err := listFiles(dir)
	if err != nil {
		return d, fmt.Errorf("list the files of %s: %w", dir, err)
	}
	d.Files = files
	return d, nil
}

func (d *Data) loadRepeat(
	run *rundir.Run, ref RepeatRef, r rundir.Repeat, shown map[string]bool,
) {
	gap := func(what string, err error) {
		d.Gaps = append(d.Gaps, fmt.Sprintf("%s of %s, repeat %d: %v", what, ref.Variant,
			ref.Repeat+1, err))
	}
	read(d.Timelines, ref, r.Timeline, run.Timeline, gap, "numbers over time")
	read(d.Windows, ref, r.Windows, run.Windows, gap, "response times and errors over time")
	read(d.Telemetry, ref, r.Telemetry, run.Telemetry, gap, "what the stores said")
	wanted := named(r.Invariants)
	if len(wanted) == 0 || r.History == "" {
		return
	}
	records, err := findRecords(run, r.History, wanted)
	if err != nil {
		gap("operations that prove a violation", err)
	}
	d.Records[ref] = records
	proofs := firstBroken(r, shown)
	d.Deeds[ref], err = deedsOf(run, r.History, suspects(proofs, records))
	if err != nil {
		gap("what the clients behind a violation did", err)
	}
	d.Neighbours[ref], err = neighboursOf(run, r.History, loners(proofs, records))
	if err != nil {
		gap("what was sent beside a violation", err)
	}
}

// read keeps what a file of a repeat has, if there is to be one.
func read[T any](into map[RepeatRef]T, ref RepeatRef, file string,
	open func(file string) (T, error), gap func(what string, err error), what string) {
	if file == "" {
		return
	}
	found, err := open(file)
	if err != nil {
		gap(what, err)
		return
	}
	into[ref] = found
}

// firstBroken are the verdicts of a repeat that a page shows as proof: of the invariants
// that no earlier repeat has broken, which it notes.
func firstBroken(r rundir.Repeat, shown map[string]bool) (proofs []check.Verdict) {
	for _, v := range r.Invariants {
		if v.Status == check.Broken && !shown[v.Invariant] {
			shown[v.Invariant] = true
			proofs = append(proofs, v)
		}
	}
	return proofs
}

// named collects the Seq numbers that violations name.
func named(verdicts []check.Verdict) map[uint64]bool {
	wanted := map[uint64]bool{}
	for _, v := range verdicts {
		for _, violation := range v.Violations {
			for _, seq := range violation.Ops {
				wanted[seq] = true
			}
		}
	}
	return wanted
}

// findRecords streams a stored history until it has all that is wanted. What
// was found before an error is returned with it.
func findRecords(run *rundir.Run, name string, wanted map[uint64]bool) (
	found map[uint64]history.Record, err error,
) {
	found = map[uint64]history.Record{}
	err = eachRecord(run, name, func(record history.Record) (more bool) {
		if wanted[record.Seq] {
			found[record.Seq] = record
		}
		return len(found) < len(wanted)
	})
	return found, err
}

// eachRecord streams a stored history until visit wants no more.
func eachRecord(
	run *rundir.Run, name string, visit func(history.Record) (more bool),
) (err error) {
	path, err := run.File(name)
	if err != nil {
		return err
	}
	file, err := history.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for record, err := range file.All() {
		if err != nil {
			return err
		}
		if !visit(record) {
			break
		}
	}
	return nil
}

// listFiles lists a run directory's files, without what is hidden.
func listFiles(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() {
			relative, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// WriteArtifacts writes the files that a report links to beside itself: the
// percentiles of every operation kind of every variant (hdr/*.hgrm) and, for every
// variant and invariant, the first check.MaxViolations violations of each repeat with all
// their operations (violations/*.ndjson).
func WriteArtifacts(dir *rundir.Dir, d Data) error {
	for _, v := range d.Summary.Variants {
		for _, op := range v.Operations {
			if op.HDR == "" {
				continue
			}
			write := func(w io.Writer) error { return HGRM(w, op) }
			if err := dir.WriteFile(rundir.HGRMName(v.Name, op.Kind), write); err != nil {
				return fmt.Errorf("percentiles of %s in %s: %w", op.Kind, v.Name, err)
			}
		}
		for _, inv := range v.Invariants {
			if inv.Status != check.Broken {
				continue
			}
			write := func(w io.Writer) error { return d.writeViolations(w, v, inv.Invariant) }
			if err := dir.WriteFile(rundir.ViolationsName(v.Name, inv.Invariant), write); err != nil {
				return fmt.Errorf("violations of %s by %s: %w", inv.Invariant, v.Name, err)
			}
		}
	}
	return nil
}

// violationLine is one violation in violations/*.ndjson.
type violationLine struct {
	Variant   string            `json:"variant"`
	Repeat    int               `json:"repeat"`
	Invariant string            `json:"invariant"`
	Text      string            `json:"text"`
	AtNS      int64             `json:"at_ns,omitempty"`
	Seqs      []uint64          `json:"seqs,omitempty"`
	Ops       []json.RawMessage `json:"ops,omitempty"`
}

// writeViolations writes one line a violation that a checker spelt out, of
// all repeats. Operations are in the form of history.WriteNDJSON.
func (d Data) writeViolations(w io.Writer, v rundir.Variant, invariant string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, r := range v.Repeats {
		records := d.Records[RepeatRef{v.Name, r.Index}]
		for _, verdict := range r.Invariants {
			if verdict.Invariant != invariant {
				continue
			}
			for _, violation := range verdict.Violations {
				ops, err := encodeOps(records, violation.Ops)
				if err != nil {
					return err
				}
				line := violationLine{v.Name, r.Index, invariant, violation.Text, violation.AtNS,
					violation.Ops, ops}
				if err := enc.Encode(line); err != nil {
					return fmt.Errorf("write violation: %w", err)
				}
			}
		}
	}
	return nil
}

// encodeOps encodes the records that are known, in the order named.
func encodeOps(records map[uint64]history.Record, seqs []uint64) ([]json.RawMessage, error) {
	var known []history.Record
	for _, seq := range seqs {
		if r, ok := records[seq]; ok {
			known = append(known, r)
		}
	}
	var lines strings.Builder
	if err := history.WriteNDJSON(&lines, history.Slice(known)); err != nil {
		return nil, err
	}
	var ops []json.RawMessage
	for line := range strings.Lines(lines.String()) {
		ops = append(ops, json.RawMessage(strings.TrimSpace(line)))
	}
	return ops, nil
}
