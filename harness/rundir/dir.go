package rundir

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stampede/harness/durable"
)

// The files of a run directory, by their paths in it.
const (
	SummaryFile     = "summary.json"
	ManifestFile    = "run.json"
	EnvironmentFile = "env.json"
	ScenarioFile    = "scenario.resolved.yaml"
	ReportFile      = "report.html"
	MarkdownFile    = "summary.md"
	JUnitFile       = "junit.xml"
	MetricsFile     = "metrics.txt"
)

// Latest is the name of the link to a scenario's newest run.
const Latest = "latest"

// SearchFolder is where the directories of searches are, beside those of the
// scenarios; no scenario can have its name.
const SearchFolder = "knee"

// lockFile is locked by whoever writes into a run directory, and holds its
// process id for people.
const lockFile = ".lock"

const stampForm = "20060102T150405Z"

var scenarioForm = regexp.MustCompile(`^[a-z0-9]+([-_][a-z0-9]+)*$`)

// BusyError says that another process is writing into a run directory.
type BusyError struct {
	Path string
	// PID is the writer's process id, 0 if it is not known.
	PID int
}

// Error names the directory and the process.
func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is being written by another process", e.Path)
	}
	return fmt.Sprintf("%s is being written by process %d", e.Path, e.PID)
}

// Dir is a run directory that is open for writing. It is locked until Close,
// or until the process dies. Its methods may be called from many goroutines.
type Dir struct {
	path, id string
	lock     *os.File
}

// Create makes the directory of a new run,
// <root>/<scenario>/<UTC>-<seed>-<id>, locks it and points latest at it. The
// id is new for every run, on this machine and on others, so it also labels
// whatever the run starts. The directory is never one that existed before:
// mkdir decides, so two runs cannot end up in one.
func Create(root, scenario string, seed uint64, now time.Time) (*Dir, error) {
	if scenario == SearchFolder {
		return nil, fmt.Errorf("%q cannot name a run directory: searches are there", scenario)
	}
	return create(root, scenario, seed, now, rand.Reader)
}

// CreateSearch makes the directory of a new search over many runs of a scenario,
// <root>/knee/<scenario>/<UTC>-<seed>-<id>, as Create makes that of a run. The runs'
// own directories go under WindowsFolder in it.
func CreateSearch(root, scenario string, seed uint64, now time.Time) (*Dir, error) {
	d, err := emptyDir(filepath.Join(root, SearchFolder), scenario, seed, now, rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := d.layOut("logs", WindowsFolder); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// WindowsFolder is where a search keeps its runs.
const WindowsFolder = "windows"

// create takes the source of ids for tests. It is not the run's seeded
// source: two runs with one seed are two runs.
func create(root, scenario string, seed uint64, now time.Time, ids io.Reader) (*Dir, error) {
	d, err := emptyDir(root, scenario, seed, now, ids)
	if err != nil {
		return nil, err
	}
	if err := d.layOut("audit", "hdr", "history", "logs", "telemetry", "timeline",
		"violations", "windows"); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// emptyDir makes an empty directory and locks it.
func emptyDir(root, scenario string, seed uint64, now time.Time, ids io.Reader) (*Dir, error) {
	if !scenarioForm.MatchString(scenario) {
		return nil, fmt.Errorf("%q cannot name a run directory: use lower-case letters, "+
			"digits and hyphens", scenario)
	}
	parent := filepath.Join(root, scenario)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	var id [4]byte
	if _, err := io.ReadFull(ids, id[:]); err != nil {
		return nil, fmt.Errorf("create run directory: make an id: %w", err)
	}
	name := fmt.Sprintf("%s-%d-%s", now.UTC().Format(stampForm), seed, hex.EncodeToString(id[:]))
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	return Lock(path)
}

// layOut makes the folders and the link.
func (d *Dir) layOut(folders ...string) error {
	for _, folder := range folders {
		if err := os.Mkdir(filepath.Join(d.path, folder), 0o755); err != nil {
			return fmt.Errorf("create run directory: %w", err)
		}
	}
	return pointLatest(filepath.Dir(d.path), filepath.Base(d.path))
}

// pointLatest makes latest a link to a run.
func pointLatest(parent, run string) error {
	// A symbolic link cannot be replaced in place; renaming one over it can.
	temporary := filepath.Join(parent, "."+run+".link")
	if err := os.Symlink(run, temporary); err != nil {
		return fmt.Errorf("link %s: %w", Latest, err)
	}
	if err := os.Rename(temporary, filepath.Join(parent, Latest)); err != nil {
		return errors.Join(fmt.Errorf("link %s: %w", Latest, err), os.Remove(temporary))
	}
	return nil
}

// Discard removes the directory of a run that came to nothing, and points
// latest at the run before it, if there is one.
func (d *Dir) Discard() error {
	parent := filepath.Dir(d.path)
	if err := errors.Join(os.RemoveAll(d.path), d.Close()); err != nil {
		return fmt.Errorf("discard run directory: %w", err)
	}
	before, err := newestIn(parent)
	if err != nil {
		return fmt.Errorf("discard run directory: %w", err)
	}
	if before == "" {
		// The folder goes too, unless somebody else has put something there.
		err := removeIfThere(filepath.Join(parent, Latest))
		_ = os.Remove(parent)
		return err
	}
	return pointLatest(parent, before)
}

// newestIn names the newest run directory in a scenario's folder, "" if there
// is none. Names begin with the time, so they are in order.
func newestIn(parent string) (string, error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", err
	}
	newest := ""
	for _, entry := range entries {
		if _, _, id := parseName(entry.Name()); entry.IsDir() && id != "" {
			newest = max(newest, entry.Name())
		}
	}
	return newest, nil
}

// Lock opens an existing run directory for writing, to judge it again or to
// render its report. A *BusyError says that another process has it open; the
// lock of a process that died does not count, because the kernel drops it.
func Lock(path string) (*Dir, error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	file, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock run directory: %w", err)
	}
	if err := lockFor(file, lockPatience); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = &BusyError{Path: path, PID: lockHolder(file)}
		} else {
			err = fmt.Errorf("lock run directory %s: %w", path, err)
		}
		return nil, errors.Join(err, file.Close())
	}
	d := &Dir{path: path, lock: file}
	d.id = path[strings.LastIndexByte(path, '-')+1:]
	if err := d.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock run directory: %w", err), d.Close())
	}
	return d, nil
}

// lockPatience is how long Lock waits for readers, which hold the lock for
// the moment in which they look whether somebody is writing.
const lockPatience = 200 * time.Millisecond

func lockFor(file *os.File, patience time.Duration) error {
	for step := patience / 20; ; patience -= step {
		err := durable.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || patience <= 0 {
			return err
		}
		time.Sleep(step)
	}
}

// sign writes the process id into the lock file. The id is information; the
// lock is flock's, which is why the file can stay where it is.
func (d *Dir) sign() error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func lockHolder(file *os.File) int {
	line, err := bufio.NewReader(io.LimitReader(file, 32)).ReadString('\n')
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	return pid
}

// Path is the directory's path.
func (d *Dir) Path() string { return d.path }

// ID is the run's identity, eight hexadecimal digits.
func (d *Dir) ID() string { return d.id }

// Close unlocks the directory. It is idempotent.
func (d *Dir) Close() error {
	err := d.lock.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// File is the path of a file given by its path in the directory, as the
// summary and the manifest have it.
func (d *Dir) File(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// The names of the files that belong to one repeat of one variant. They are
// slash-separated paths in the run directory.

// HistoryName is where the recorded operations go (package history).
func HistoryName(variant string, repeat int) string {
	return fmt.Sprintf("history/%s.%d.history", escape(variant), repeat)
}

// AuditName is where the final audit goes (JSON).
func AuditName(variant string, repeat int) string {
	return fmt.Sprintf("audit/%s.%d.json", escape(variant), repeat)
}

// TimelineName is where the Timeline goes (JSON).
func TimelineName(variant string, repeat int) string {
	return fmt.Sprintf("timeline/%s.%d.json", escape(variant), repeat)
}

// HGRMName is where an operation kind's percentiles over all repeats go.
func HGRMName(variant, kind string) string {
	return fmt.Sprintf("hdr/%s.%s.hgrm", escape(variant), escape(kind))
}

// HLogName is where the response times of an operation kind in one repeat go, over
// time (an HdrHistogram log).
func HLogName(variant, kind string, repeat int) string {
	return fmt.Sprintf("hdr/%s.%s.%d.hlog", escape(variant), escape(kind), repeat)
}

// ViolationsName is where the violations of an invariant go that a checker
// spelt out, the first few of each repeat, one JSON object a line.
func ViolationsName(variant, invariant string) string {
	return fmt.Sprintf("violations/%s.%s.ndjson", escape(variant), escape(invariant))
}

// LogName is where the log of a store or a role goes.
func LogName(name string) string { return fmt.Sprintf("logs/%s.log", escape(name)) }

// FilesName is the folder of a variant that keeps files of its own, while it is under test.
func FilesName(name string) string { return "files/" + escape(name) }

// escape makes any name one harmless path element, different names
// different elements.
func escape(name string) string {
	return strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// WriteFile writes a file of the directory so that it is there completely or
// not at all, even after a crash: into a temporary file, to the disk, renamed.
func (d *Dir) WriteFile(name string, write func(io.Writer) error) (err error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("write %s: not a path in the run directory", name)
	}
	path := d.File(name)
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, bare(err)),
				removeIfThere(temporary.Name()))
		}
	}()
	if err := fill(temporary, write); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(path))
}

// fill writes, flushes and closes a file.
func fill(file *os.File, write func(io.Writer) error) error {
	buffered := bufio.NewWriterSize(file, 64<<10)
	err := write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// bare drops the temporary file's name from an error: the reader asked for
// another file.
func bare(err error) error {
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		return inPath.Err
	}
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteJSON writes a value as indented JSON. A number that JSON cannot hold,
// such as NaN, is an error.
func (d *Dir) WriteJSON(name string, value any) error {
	return d.WriteFile(name, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	})
}

// WriteManifest records what is about to run. It comes first, so that a run
// that dies can still be judged.
func (d *Dir) WriteManifest(m Manifest) error {
	m.SchemaVersion = SchemaVersion
	return d.WriteJSON(ManifestFile, m)
}

// WriteSummary records what the run found. A summary that contradicts itself
// is refused.
func (d *Dir) WriteSummary(s Summary) error {
	s.SchemaVersion = SchemaVersion
	if err := s.Validate(); err != nil {
		return fmt.Errorf("write %s: %w", SummaryFile, err)
	}
	return d.WriteJSON(SummaryFile, withoutNulls(reflect.ValueOf(s)).Interface())
}

// withoutNulls copies a value such that no list in it is nil, at any depth:
// whoever reads the JSON meets [] where there is nothing, and never null.
func withoutNulls(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(withoutNulls(v.Field(i)))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return out // bytes, such as a json.RawMessage
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(withoutNulls(v.Index(i)))
		}
	}
	return out
}

// WriteScenario keeps the resolved scenario (scenario.Scenario.YAML).
func (d *Dir) WriteScenario(yaml []byte) error {
	return d.WriteFile(ScenarioFile, func(w io.Writer) error {
		_, err := w.Write(yaml)
		return err
	})
}

// WriteEnvironment keeps what the run stands on.
func (d *Dir) WriteEnvironment(e Environment) error { return d.WriteJSON(EnvironmentFile, e) }

// WriteTimeline keeps a repeat's timeline and returns its name.
func (d *Dir) WriteTimeline(variant string, repeat int, t Timeline) (name string, err error) {
	name = TimelineName(variant, repeat)
	return name, d.WriteJSON(name, t)
}

// WriteAudit keeps a repeat's audit and returns its name.
func (d *Dir) WriteAudit(variant string, repeat int, audit json.RawMessage) (string, error) {
	name := AuditName(variant, repeat)
	return name, d.WriteFile(name, func(w io.Writer) error {
		if !json.Valid(audit) {
			return errors.New("the audit is not valid JSON")
		}
		_, err := w.Write(audit)
		return err
	})
}
