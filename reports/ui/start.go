package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/rundir"
)

// mostRepeats bounds what a form may ask for.
const mostRepeats = 100

// startPage is the form that starts a scenario.
type startPage struct {
	Title    string
	Scenario Scenario
	Backends []string
	Form     string
	Given    given
	Problem  string
}

// given is what the form was filled in with.
type given struct {
	Profile, Backend, Seed, Repeats string
	Variants                        []string
}

// Has says whether a variant is chosen.
func (g given) Has(variant string) bool { return slices.Contains(g.Variants, variant) }

func (s *Server) scenario(name string) (Scenario, bool) {
	i := slices.IndexFunc(s.Scenarios, func(sc Scenario) bool { return sc.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return s.Scenarios[i], true
}

// form shows what can be chosen for a scenario.
func (s *Server) form(w http.ResponseWriter, r *http.Request) {
	sc, ok := s.scenario(r.PathValue("scenario"))
	if !ok {
		refuse(w, http.StatusNotFound, "There is no such scenario.")
		return
	}
	s.showForm(w, http.StatusOK, sc, given{Profile: sc.Profiles[0], Backend: s.Backends[0],
		Variants: sc.Variants}, "")
}

func (s *Server) showForm(w http.ResponseWriter, code int, sc Scenario, g given, problem string) {
	s.pages.write(w, code, "start", startPage{Title: "Start " + sc.Name, Scenario: sc,
		Backends: s.Backends, Form: s.keys.form, Given: g, Problem: problem})
}

// arguments turns a form into stampede's. What is not on offer is an error: a form can
// be made by others than the page.
func (s *Server) arguments(sc Scenario, g given) ([]string, error) {
	args := []string{"run", sc.Name, "--format=json", "--color=never", "--out=" + s.Root}
	var problems []error
	if !slices.Contains(sc.Profiles, g.Profile) {
		problems = append(problems, fmt.Errorf("there is no profile %q", g.Profile))
	}
	if !slices.Contains(s.Backends, g.Backend) {
		problems = append(problems, fmt.Errorf("there is no backend %q", g.Backend))
	}
	args = append(args, "--profile="+g.Profile, "--backend="+g.Backend)
	for _, v := range g.Variants {
		if !slices.Contains(sc.Variants, v) {
			problems = append(problems, fmt.Errorf("%s has no design %q", sc.Name, v))
		}
	}
	switch len(g.Variants) {
	case 0:
		problems = append(problems, errors.New("choose at least one design"))
	case len(sc.Variants):
	default:
		args = append(args, "--design="+strings.Join(g.Variants, ","))
	}
	if g.Seed != "" {
		seed, err := strconv.ParseUint(g.Seed, 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("the seed is %q; expected a whole number of 0 or "+
				"more, or nothing for a random one", g.Seed))
		}
		args = append(args, "--seed="+strconv.FormatUint(seed, 10))
	}
	if g.Repeats != "" {
		n, err := strconv.Atoi(g.Repeats)
		if err != nil || n < 1 || n > mostRepeats {
			problems = append(problems, fmt.Errorf("repeats are %q; expected 1 to %d, or nothing for "+
				"the scenario's own", g.Repeats, mostRepeats))
		}
		args = append(args, "--repeats="+strconv.Itoa(n))
	}
	return args, errors.Join(problems...)
}

// start runs what the form asks for.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	if !s.ownForm(w, r) {
		return
	}
	sc, ok := s.scenario(r.PostForm.Get("scenario"))
	if !ok {
		refuse(w, http.StatusNotFound, "There is no such scenario.")
		return
	}
	g := givenIn(r.PostForm)
	args, err := s.arguments(sc, g)
	if err != nil {
		s.showForm(w, http.StatusUnprocessableEntity, sc, g, err.Error())
		return
	}
	j, err := s.begin(sc, args)
	switch {
	case errors.Is(err, errBusy):
		s.showForm(w, http.StatusConflict, sc, g, err.Error())
	case err != nil:
		s.showForm(w, http.StatusInternalServerError, sc, g, err.Error())
	default:
		j.waitKnown(politeness)
		http.Redirect(w, r, "/job", http.StatusSeeOther)
	}
}

func givenIn(form url.Values) given {
	return given{Profile: form.Get("profile"), Backend: form.Get("backend"),
		Seed:    strings.TrimSpace(form.Get("seed")),
		Repeats: strings.TrimSpace(form.Get("repeats")), Variants: form["variant"]}
}

// errBusy says that something is being run already.
var errBusy = errors.New("one run at a time: two would measure each other")

// begin starts a run unless one, or a search, is going on, here or elsewhere in the
// folder.
func (s *Server) begin(sc Scenario, args []string) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("stampede ui is ending")
	case s.job != nil && !s.job.ended():
		return nil, fmt.Errorf("%w, and %s is being run", errBusy, s.job.scenario)
	}
	for _, root := range []string{s.Root, filepath.Join(s.Root, rundir.SearchFolder)} {
		names, err := rundir.Names(root)
		if err != nil {
			return nil, err
		}
		for _, e := range names[:min(len(names), aPage)] {
			if rundir.StateOf(e.Path) == rundir.Running {
				return nil, fmt.Errorf("%w, and %s is being written by another process", errBusy, e.Path)
			}
		}
	}
	j, err := startJob(s.Command(args...), sc.Name)
	if err == nil {
		s.job = j
		s.Logf("started: stampede %s", strings.Join(args, " "))
	}
	return j, err
}

// showJob leads to the run that was started last, as soon as it has a folder, and says
// before that what it is doing.
func (s *Server) showJob(w http.ResponseWriter, r *http.Request) {
	j := s.current()
	if j == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	state := s.stateOf(j)
	if state.Directory != "" {
		http.Redirect(w, r, "/run/"+state.Directory, http.StatusSeeOther)
		return
	}
	s.pages.write(w, http.StatusOK, "job", jobPage{Title: state.Scenario, State: state,
		Form: s.keys.form, Reload: !state.Ended})
}

// jobPage is a run that was started and has no folder.
type jobPage struct {
	Title  string
	State  jobState
	Form   string
	Reload bool
}

// stateOf is how a job stands, with its directory as long as that is there: a run that
// could not be started removes its own.
func (s *Server) stateOf(j *job) jobState {
	state := j.state()
	if has(s.folder(), state.Told) {
		state.Directory = state.Told
	}
	return state
}

// interrupt is Ctrl-C for the run that was started here. The form says how many there
// were before, so that a button that is pressed twice counts once.
func (s *Server) interrupt(w http.ResponseWriter, r *http.Request) {
	if !s.ownForm(w, r) {
		return
	}
	before, err := strconv.Atoi(r.PostForm.Get("interrupts"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "The form lacks the number of the interrupt.")
		return
	}
	j := s.current()
	if j == nil || j.ended() {
		refuse(w, http.StatusConflict, "Nothing that was started here is being run.")
		return
	}
	if times, sent := j.interrupt(before); sent {
		s.Logf("interrupted %s, %d", j.scenario, times)
	}
	// Who is about to end is given a moment, so that the page says so.
	select {
	case <-j.done:
	case <-time.After(time.Second / 5):
	}
	http.Redirect(w, r, "/job", http.StatusSeeOther)
}
