package rundir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stampede/harness/durable"
)

// ErrUnfinished is returned for the summary of a run that has none: it is
// still running, or it was killed. Its histories can be judged all the same.
var ErrUnfinished = errors.New("the run did not finish")

// ErrOlder is returned for a file of an older major version.
var ErrOlder = errors.New("an older stampede wrote it")

// maxJSON bounds the JSON files of a run, so that a wrong file is refused
// rather than read into memory for ever.
const maxJSON = 1 << 30

// State says how far a run came.
type State string

// The states.
const (
	// Running: a process is writing it now.
	Running State = "running"
	// Unfinished: it has no summary and nobody is writing it.
	Unfinished State = "unfinished"
	// Finished: it has a summary.
	Finished State = "finished"
)

// Run is a run directory that is open for reading.
type Run struct {
	// Path is the directory, links resolved.
	Path string
	// Manifest is what the run set out to do.
	Manifest Manifest
}

// Open opens a run directory. which is the directory's path, a scenario's
// name (its newest run under root) or "latest" (the newest run under root).
// A directory that is not a run, or whose manifest cannot be read, is an
// error that names what is missing. A run without summary opens.
func Open(root, which string) (*Run, error) {
	path, err := find(root, which)
	if err != nil {
		return nil, err
	}
	r := &Run{Path: path}
	if err := r.readManifest(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is not a run directory: %s is missing", path, ManifestFile)
		}
		return nil, err
	}
	if err := r.Manifest.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, ManifestFile), err)
	}
	return r, nil
}

// readManifest reads run.json. That of schema version 1 has the same fields, fewer of them.
func (r *Run) readManifest() error {
	data, err := r.read(ManifestFile)
	if err != nil {
		return err
	}
	return decodeVersioned(filepath.Join(r.Path, ManifestFile), data, &r.Manifest, 1)
}

func (m Manifest) validate() error {
	if m.Run.ID == "" || m.Run.Scenario == "" || m.Run.System == "" {
		return errors.New("id, scenario or system of the run is missing")
	}
	for _, slot := range m.Slots {
		for _, path := range []string{slot.History, slot.Audit, slot.Timeline} {
			if !filepath.IsLocal(filepath.FromSlash(path)) {
				return fmt.Errorf("%q is not a path in the run directory", path)
			}
		}
	}
	return nil
}

// find turns what the user typed into a directory.
func find(root, which string) (string, error) {
	if which == Latest {
		return newest(root)
	}
	candidates := []string{which}
	if scenarioForm.MatchString(which) {
		candidates = []string{filepath.Join(root, which, Latest), which}
	}
	for _, candidate := range candidates {
		path, err := filepath.EvalSymlinks(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("open run: %w", err)
		}
		return directory(path)
	}
	return "", fmt.Errorf("there is no run %q: it is neither a directory "+
		"nor a scenario with runs under %s", which, root)
}

func directory(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("open run: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("open run: %s is a file, expected a run directory", path)
	}
	return path, nil
}

func newest(root string) (string, error) {
	entries, err := List(root)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", fmt.Errorf("there are no runs under %s", root)
	}
	return entries[0].Path, nil
}

// File is the path of a file given by its path in the directory. One that
// leads out of the directory is an error.
func (r *Run) File(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("%q is not a path in the run directory", name)
	}
	return filepath.Join(r.Path, filepath.FromSlash(name)), nil
}

// State says how far the run came.
func (r *Run) State() State { return StateOf(r.Path) }

// StateOf says how far the run in a directory came, whatever is in it.
func StateOf(path string) State {
	if file, err := os.Open(filepath.Join(path, lockFile)); err == nil {
		locked := durable.Flock(file, syscall.LOCK_SH|syscall.LOCK_NB)
		file.Close() // opened for reading: nothing to lose
		if errors.Is(locked, syscall.EWOULDBLOCK) {
			return Running
		}
	}
	if _, err := os.Stat(filepath.Join(path, SummaryFile)); err != nil {
		return Unfinished
	}
	return Finished
}

// Summary reads the summary strictly. A run without one gives ErrUnfinished, one of an
// older major version ErrOlder; one of a newer major version, a truncated or a
// self-contradicting one is an error that says so.
func (r *Run) Summary() (Summary, error) {
	var s Summary
	data, err := r.summary()
	if err != nil {
		return s, err
	}
	err = decodeVersioned(filepath.Join(r.Path, SummaryFile), data, &s, ourMajor)
	if errors.Is(err, ErrOlder) {
		return s, fmt.Errorf("%w: `stampede check %s` judges the run again and writes it anew", err,
			r.Path)
	}
	if err != nil {
		return s, err
	}
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(r.Path, SummaryFile), err)
	}
	return s, nil
}

func (r *Run) summary() ([]byte, error) {
	data, err := r.read(SummaryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: %w", r.Path, SummaryFile, ErrUnfinished)
	}
	return data, err
}

// Ended reads from the summary when the run ended and whether it was interrupted, which
// nothing else in the directory says. Every version of the summary has them. A run without
// one gives ErrUnfinished.
func (r *Run) Ended() (finished time.Time, interrupted bool, err error) {
	var s struct {
		Run struct {
			Finished    time.Time `json:"finished"`
			Interrupted bool      `json:"interrupted"`
		} `json:"run"`
	}
	data, err := r.summary()
	if err == nil {
		err = decode(filepath.Join(r.Path, SummaryFile), data, &s, false)
	}
	return s.Run.Finished, s.Run.Interrupted, err
}

// Environment reads what the run stood on.
func (r *Run) Environment() (Environment, error) {
	var e Environment
	err := r.decodeFile(EnvironmentFile, &e)
	stores := r.Manifest.Run.Target == "" // a target keeps its own to itself
	switch {
	case err != nil:
		return e, err
	case e.Backend == "":
		return e, fmt.Errorf("%s names no backend", filepath.Join(r.Path, EnvironmentFile))
	case stores && len(e.Components) == 0:
		return e, fmt.Errorf("%s names no components", filepath.Join(r.Path, EnvironmentFile))
	}
	return e, nil
}

// Timeline reads a repeat's timeline by its name.
func (r *Run) Timeline(name string) (Timeline, error) {
	var t Timeline
	err := r.decodeFile(name, &t)
	return t, err
}

// Audit reads a repeat's audit by its name.
func (r *Run) Audit(name string) (json.RawMessage, error) {
	var audit json.RawMessage
	err := r.decodeFile(name, &audit)
	return audit, err
}

// Scenario reads the resolved scenario's YAML.
func (r *Run) Scenario() ([]byte, error) { return r.read(ScenarioFile) }

func (r *Run) read(name string) ([]byte, error) {
	path, err := r.File(name)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	defer file.Close() // opened for reading: nothing to lose
	data, err := io.ReadAll(io.LimitReader(file, maxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	if len(data) > maxJSON {
		return nil, fmt.Errorf("read run: %s is larger than %d MiB", path, maxJSON>>20)
	}
	return data, nil
}

// decodeVersioned refuses unknown fields unless a newer minor version wrote
// them, and major versions before oldest. path is for the error.
func decodeVersioned(path string, data []byte, into any, oldest int) error {
	var version struct {
		SchemaVersion string `json:"schema_version"`
	}
	if err := decode(path, data, &version, false); err != nil {
		return err
	}
	ours := SchemaVersion
	if major, _, err := parseVersion(version.SchemaVersion); err == nil && oldest <= major &&
		major < ourMajor {
		ours = version.SchemaVersion
	}
	strict, err := AcceptVersion(version.SchemaVersion, ours)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return decode(path, data, into, strict)
}

// ourMajor is the major number of SchemaVersion.
const ourMajor = 2

// decodeFile decodes a JSON file that has no version.
func (r *Run) decodeFile(name string, into any) error {
	data, err := r.read(name)
	if err != nil {
		return err
	}
	return decode(filepath.Join(r.Path, filepath.FromSlash(name)), data, into, true)
}

// decode decodes one JSON value with nothing behind it.
func decode(path string, data []byte, into any, strict bool) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	switch err := dec.Decode(into); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s is truncated: it ends after %d bytes", path, len(data))
	case err != nil:
		return fmt.Errorf("%s, line %d: %w", path, lineAt(data, err, dec.InputOffset()), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s has something after its end", path)
	}
	return nil
}

// lineAt is the line of a decoding error, as well as it is known.
func lineAt(data []byte, err error, offset int64) int {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &mismatch):
		offset = mismatch.Offset
	}
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

// AcceptVersion says whether what was written with a version can be read by who
// knows ours, and whether all its fields must be known. It is an error if the
// major versions differ, or one is not like 1.0.0.
func AcceptVersion(version, ours string) (strict bool, err error) {
	major, minor, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	ourMajor, ourMinor, err := parseVersion(ours)
	if err != nil {
		return false, err
	}
	if major > ourMajor {
		return false, fmt.Errorf("schema version %s is newer than %s: "+
			"read it with a newer stampede", version, ours)
	}
	if major < ourMajor {
		return false, fmt.Errorf("schema version %s is older than %s: %w", version, ours, ErrOlder)
	}
	return minor <= ourMinor, nil
}

func parseVersion(version string) (major, minor int, err error) {
	parts := strings.Split(version, ".")
	numbers := make([]int, len(parts))
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return 0, 0, fmt.Errorf("schema version %q is not like 1.0.0", version)
		}
		numbers[i] = n
	}
	if len(numbers) != 3 {
		return 0, 0, fmt.Errorf("schema version %q is not like 1.0.0", version)
	}
	return numbers[0], numbers[1], nil
}

// Entry is one run in a listing.
type Entry struct {
	Path     string    `json:"path"`
	Scenario string    `json:"scenario"`
	ID       string    `json:"id"`
	Started  time.Time `json:"started"`
	Seed     uint64    `json:"seed"`
	Profile  string    `json:"profile"`
	State    State     `json:"state"`
	// Verdict is the overall verdict of a finished run, Correctness and Timing are its parts.
	Verdict     string `json:"verdict,omitempty"`
	Correctness string `json:"correctness,omitempty"`
	Timing      string `json:"timing,omitempty"`
	// Simulated says that it was a simulation.
	Simulated bool `json:"simulated,omitempty"`
	// Problem says why the directory cannot be read.
	Problem string `json:"problem,omitempty"`
}

// List lists the runs under root, newest first, those of searches left out. A
// directory that cannot be read is listed with its problem. A root that does not
// exist has no runs.
func List(root string) ([]Entry, error) {
	entries, err := Names(root)
	for i, e := range entries {
		entries[i], _ = Describe(e)
	}
	return entries, err
}

// Names is List with what the directories' names say alone, however many there are.
func Names(root string) ([]Entry, error) {
	scenarios, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var entries []Entry
	for _, scenario := range scenarios {
		if !scenario.IsDir() || scenario.Name() == SearchFolder {
			continue
		}
		runs, err := os.ReadDir(filepath.Join(root, scenario.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its only run was discarded meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for _, run := range runs {
			if run.IsDir() {
				e := Entry{Path: filepath.Join(root, scenario.Name(), run.Name()),
					Scenario: scenario.Name()}
				e.Started, e.Seed, e.ID = parseName(run.Name())
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Path, a.Path))
	})
	return entries, nil
}

// Describe adds to an entry of Names what the directory's files say. Of a finished run the
// summary comes along.
func Describe(e Entry) (Entry, Summary) {
	e.State = StateOf(e.Path)
	r, err := Open("", e.Path)
	if err != nil {
		e.Problem = err.Error()
		return e, Summary{}
	}
	e.Profile = r.Manifest.Run.Profile
	if e.State != Finished {
		return e, Summary{}
	}
	s, err := r.Summary()
	if err != nil {
		e.Problem = err.Error()
	}
	e.Verdict, e.Correctness, e.Timing = s.Verdict.Overall, s.Verdict.Correctness, s.Verdict.Timing
	e.Simulated = s.Environment.Simulated()
	return e, s
}

// parseName takes a directory's name apart; a foreign one gives zeros.
func parseName(name string) (started time.Time, seed uint64, id string) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return time.Time{}, 0, ""
	}
	started, err := time.Parse(stampForm, parts[0])
	if err != nil {
		return time.Time{}, 0, ""
	}
	seed, err = strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return time.Time{}, 0, ""
	}
	return started, seed, parts[2]
}
