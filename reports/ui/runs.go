package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stampede/harness/events"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// aPage is how many runs the list shows, mostSearches how many searches.
const (
	aPage        = 50
	mostSearches = 10
)

// runRow is a run in the list.
type runRow struct {
	Scenario, Name, Date, Profile string
	Seed                          uint64
	Verdict, Icon, Class          string
	// Parts are what a finished run says of correctness and of times, Fastest the fastest
	// design that holds.
	Parts   []part
	Fastest string
	// Report is where its page is, Follow where it is followed.
	Report, Follow string
	Live           bool
}

// part is a part of a verdict.
type part struct {
	Name string
	words.Mark
}

// homePage is the list of runs and scenarios.
type homePage struct {
	Title, Root       string
	Runs              []runRow
	Older, Newer      string
	Live              []runRow
	Searches          []searchRow
	Systems           []system
	Index             string
	Job               *jobState
	Form              string
	First, Last, Many int
	// Follow is where a page hears that the list has changed.
	Follow string
}

// system is the scenarios of one system.
type system struct {
	Name      string
	Scenarios []Scenario
}

// systems groups the scenarios, in the order in which they came.
func (s *Server) systems() (groups []system) {
	for _, sc := range s.Scenarios {
		i := slices.IndexFunc(groups, func(g system) bool { return g.Name == sc.System })
		if i < 0 {
			i, groups = len(groups), append(groups, system{Name: sc.System})
		}
		groups[i].Scenarios = append(groups[i].Scenarios, sc)
	}
	return groups
}

// searchRow is a search for a knee.
type searchRow struct {
	Scenario, Date, Report string
	Done                   bool
}

// seen remembers what finished runs came to, so that their summaries are read once.
type seen struct {
	mu   sync.Mutex
	runs map[string]remembered
}

type remembered struct {
	described
	at time.Time // of the summary
}

// described is a run, and its fastest design that holds.
type described struct {
	rundir.Entry
	fastest string
}

// describe is rundir.Describe with a memory.
func (m *seen) describe(e rundir.Entry) described {
	info, err := os.Stat(filepath.Join(e.Path, rundir.SummaryFile))
	if err != nil {
		e, _ = rundir.Describe(e)
		return described{Entry: e}
	}
	m.mu.Lock()
	known, ok := m.runs[e.Path]
	m.mu.Unlock()
	if ok && known.at.Equal(info.ModTime()) && rundir.StateOf(e.Path) == rundir.Finished {
		return known.described
	}
	e, summary := rundir.Describe(e)
	d := described{e, answer.Fastest(summary)}
	if e.State == rundir.Finished {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.runs == nil {
			m.runs = map[string]remembered{}
		}
		m.runs[e.Path] = remembered{d, info.ModTime()}
	}
	return d
}

// home lists the runs and what can be started.
func (s *Server) home(w http.ResponseWriter, r *http.Request) {
	names, err := rundir.Names(s.Root)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	from := 0
	if before := r.URL.Query().Get("before"); before != "" {
		from = slices.IndexFunc(names, func(e rundir.Entry) bool { return s.name(e.Path) == before }) + 1
	}
	p := homePage{Title: "stampede", Root: s.Root, Many: len(names), Systems: s.systems(),
		Index: s.href(indexPath), Form: s.keys.form, Searches: s.searches(),
		Follow: "/live?shown=" + s.signature()}
	shown := names[from:min(from+aPage, len(names))]
	for _, e := range shown {
		row := s.row(s.seen.describe(e))
		if row.Live {
			p.Live = append(p.Live, row)
		}
		p.Runs = append(p.Runs, row)
	}
	if from+len(shown) < len(names) {
		p.Older = "/?before=" + s.name(shown[len(shown)-1].Path)
	}
	if from > 0 {
		p.Newer = "/"
		if from > aPage {
			p.Newer = "/?before=" + s.name(names[from-aPage-1].Path)
		}
	}
	p.First, p.Last = from+1, from+len(shown)
	if j := s.current(); j != nil {
		state := s.stateOf(j)
		p.Job = &state
	}
	s.pages.write(w, http.StatusOK, "home", p)
}

// name is a run by its scenario's folder and its own.
func (s *Server) name(run string) string {
	return path.Join(filepath.Base(filepath.Dir(run)), filepath.Base(run))
}

func (s *Server) row(e described) runRow {
	row := runRow{Scenario: e.Scenario, Name: s.name(e.Path), Profile: e.Profile, Seed: e.Seed,
		Date: cmp.Or(words.Instant(e.Started), "?"), Follow: "/run/" + s.name(e.Path), Verdict: e.Verdict}
	switch {
	case e.State == rundir.Running:
		row.Live, row.Verdict, row.Icon, row.Class = true, "running", "▶", "live"
		return row
	case e.State == rundir.Unfinished:
		row.Verdict, row.Icon, row.Class = "ended without a report", "■", "warn"
		return row
	case e.Verdict == "":
		row.Verdict, row.Icon, row.Class = "cannot be read", "?", "warn"
		return row
	}
	verdict, correct := answer.VerdictMark(e.Verdict), answer.VerdictMark(e.Correctness)
	correct.Word = e.Correctness
	row.Icon, row.Class = verdict.Icon, verdict.Class
	row.Report, row.Fastest = s.report(row.Name), e.fastest
	row.Parts = []part{{"correct", correct}, {"timing", answer.TimingMark(e.Timing)}}
	if e.Simulated {
		row.Parts[1].Mark = words.Mark{Icon: words.None, Word: answer.SimulatedWord, Class: "na"}
	}
	return row
}

// report is where the page of a run or a search is, "" if it has none.
func (s *Server) report(name string) string {
	root := s.folder()
	if root == nil {
		return ""
	}
	file := path.Join(name, rundir.ReportFile)
	if info, err := root.Stat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return s.href(file)
}

// searches are the newest searches for knees.
func (s *Server) searches() (rows []searchRow) {
	entries, err := rundir.Names(filepath.Join(s.Root, rundir.SearchFolder))
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), mostSearches)] {
		report := s.report(path.Join(rundir.SearchFolder, s.name(e.Path)))
		rows = append(rows, searchRow{Scenario: e.Scenario, Report: report,
			Date: cmp.Or(words.Instant(e.Started), "?"), Done: rundir.StateOf(e.Path) != rundir.Running})
	}
	return rows
}

// found is a run that a request names.
type found struct {
	name, path string
	events     *os.File // nil if there are none
	progress   events.Progress
	tail       events.Tail
}

// has says whether a folder has a run of that name. A link in place of a folder is none.
func has(root *os.Root, name string) bool {
	if root == nil || !fs.ValidPath(name) || hiddenPath(name) || strings.Count(name, "/") != 1 {
		return false
	}
	for _, folder := range []string{path.Dir(name), name} {
		if info, err := root.Lstat(folder); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// find opens the run that a request names. One that was started here last and could not
// be run has removed its folder: what it said is elsewhere.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (f *found, ok bool) {
	name := path.Join(r.PathValue("scenario"), r.PathValue("run"))
	root := s.folder()
	if !has(root, name) {
		if j := s.current(); j != nil {
			if state := s.stateOf(j); state.Told == name && (!state.Ended || state.NotRun()) {
				http.Redirect(w, r, "/job", http.StatusSeeOther)
				return nil, false
			}
		}
		refuse(w, http.StatusNotFound, "There is no such run.")
		return nil, false
	}
	f = &found{name: name, path: filepath.Join(s.Root, filepath.FromSlash(name))}
	file := path.Join(name, events.FileName)
	if info, err := root.Stat(file); err == nil && info.Mode().IsRegular() {
		if f.events, err = root.Open(file); err != nil {
			f.events = nil
		}
		f.tail.File = f.events
	}
	return f, true
}

func (f *found) close() {
	if f.events != nil {
		_ = f.events.Close() // opened for reading: nothing to lose
	}
}

// read takes in what has happened since the last time.
func (f *found) read() error {
	if f.events == nil {
		return nil
	}
	added, err := f.tail.Next()
	for _, e := range added {
		f.progress.Add(e)
	}
	return err
}

// showRun is the page of one run.
func (s *Server) showRun(w http.ResponseWriter, r *http.Request) {
	f, ok := s.find(w, r)
	if !ok {
		return
	}
	defer f.close()
	err := f.read()
	p := s.runPage(f, time.Now())
	if err != nil {
		p.Problem = err.Error()
	}
	s.pages.write(w, http.StatusOK, "run", p)
}

// followRuns tells a page when the list of runs is not as it was shown there.
func (s *Server) followRuns(w http.ResponseWriter, r *http.Request) {
	before := r.URL.Query().Get("shown")
	s.follow(w, r, listEvery, func(send func(kind, data string) error) (over bool, err error) {
		now := s.signature()
		if now == before {
			return false, nil
		}
		before = now
		return false, send("changed", "")
	})
}

// signature changes when a run is started, and when one ends.
func (s *Server) signature() string {
	names, err := rundir.Names(s.Root)
	j := s.current()
	text := fmt.Sprint(j != nil && j.ended())
	if err == nil && len(names) > 0 {
		text += fmt.Sprint(len(names), names[0].Path)
		for _, e := range names[:min(len(names), aPage)] {
			if state := rundir.StateOf(e.Path); state != rundir.Finished {
				text += " " + string(state)
			}
		}
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// followRun tells a page how a run goes on: the parts of the page that have changed.
func (s *Server) followRun(w http.ResponseWriter, r *http.Request) {
	f, ok := s.find(w, r)
	if !ok {
		return
	}
	defer f.close()
	shown, gone := map[string]string{}, 0
	s.follow(w, r, lookEvery, func(send func(kind, data string) error) (over bool, err error) {
		if err := f.read(); err != nil {
			return true, send("problem", err.Error())
		}
		p := s.runPage(f, time.Now())
		if p.Live {
			gone = 0
		} else if gone++; gone < 3 && p.Report == "" && !p.Dead {
			// Between the run and its report nobody has the folder for a moment.
			p.Live = true
		}
		changed, err := s.changed(p, shown)
		if err == nil && len(changed) > 0 {
			err = send("parts", changed)
		}
		if err == nil && !p.Live {
			return true, send("over", "")
		}
		return false, err
	})
}

// changed are the parts of a page that are not as they were shown, as JSON.
func (s *Server) changed(p runPage, shown map[string]string) (string, error) {
	parts := map[string]string{}
	add := func(id, block string, data any) error {
		var b bytes.Buffer
		if err := s.pages.templates.ExecuteTemplate(&b, block, data); err != nil {
			return fmt.Errorf("drawing %s: %w", block, err)
		}
		if b.String() != shown[id] {
			parts[id], shown[id] = b.String(), b.String()
		}
		return nil
	}
	for id, block := range map[string]string{"state": "state", "reasons": "reasons",
		"clock": "clock", "actions": "actions", "notes": "notes"} {
		if err := add(id, block, p); err != nil {
			return "", err
		}
	}
	for _, lane := range p.Lanes {
		if err := add(lane.ID, "lane", lane); err != nil {
			return "", err
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	text, err := json.Marshal(parts)
	return string(text), err
}
