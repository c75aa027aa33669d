package suttest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/env"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// toy is a system in memory: a counter of a few units. Its places are maps by
// prefix, so that an instance can be opened twice on the same one.
type toy struct {
	mu     sync.Mutex
	places map[string]*place
	made   int
	flaws
}

// place is what a store would hold.
type place struct {
	mu       sync.Mutex
	prepared bool
	left     int
	sold     map[uint64]bool
}

// flaws are what may be wrong with the toy, one at a time.
type flaws struct {
	noIdea, twins, unknownBreak, breaksNotApplicable bool

	races   func(*sut.Races) // changes what races
	noRaces string           // "" is that there are

	openWithoutStores, prepareTwice, restlessAudit, leak, closeTwice, useAfterClose bool
	deafToCancel, acceptsAnything                                                   bool

	roleGivesUp, roleStays, roleIsMute, neverSettles bool
	countsNothing, alwaysCounts                      bool

	roleName  string // "" is idler
	apiPlaces []string

	oversells, undecided, breaksNothing bool

	neverEmpty, alwaysEmpty bool

	gaugeFails, gaugeTalks, gaugeStays bool

	secondSellsLess bool
}

const units = 10

func newToy(f flaws) *toy { return &toy{places: map[string]*place{}, flaws: f} }

func (y *toy) space(testing.TB) env.Namespace {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.made++
	prefix := fmt.Sprintf("place%d:", y.made)
	y.places[prefix] = &place{left: units, sold: map[uint64]bool{}}
	return env.Namespace{Prefix: prefix, Release: func(context.Context) error { return nil }}
}

func (y *toy) place(prefix string) *place {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.places[prefix]
}

func (y *toy) suite() suttest.Suite {
	return suttest.Suite{
		System: y.system(), Space: y.space, Ops: 200, Patience: 2 * time.Second,
		Summary: func(audit json.RawMessage) (string, error) { return string(audit), nil },
	}
}

func (y *toy) system() sut.System {
	v := y.variant("first")
	second := y.variant("second")
	if y.noIdea {
		v.Idea = ""
	}
	if y.twins {
		second.Name = v.Name
	}
	if y.unknownBreak {
		v.Breaks = []sut.Break{{Invariant: "no-such", Under: sut.Load}}
	}
	if y.breaksNotApplicable {
		v.Breaks = []sut.Break{{Invariant: "no-oversell", Under: sut.Load}}
		v.NotApplicable = map[string]string{"no-oversell": "because"}
	}
	if y.breaksNothing {
		v.Breaks = []sut.Break{{Invariant: "no-oversell", Under: sut.Load}}
	}
	races := &sut.Races{Kinds: []string{"take"}, Least: 1, Invariants: []string{"no-oversell"}}
	switch {
	case y.noRaces != "":
		races = nil
	case y.races != nil:
		y.races(races)
	}
	return sut.System{
		Name: "toy", Summary: "a toy", Races: races, NoRaces: strings.TrimSpace(y.noRaces),
		Workload: func(uint64, any) (sut.Workload, error) { return takes{}, nil },
		Variants: []sut.Variant{v, second},
		Invariants: func(any) []check.Invariant {
			return []check.Invariant{noOversell{undecided: y.undecided}}
		},
	}
}

func (y *toy) variant(name string) sut.Variant {
	return sut.Variant{
		Name: name, Idea: "a counter", Guarantees: "enough", GivesUp: "persistence",
		Needs: []sut.Service{sut.Postgres},
		Roles: []sut.Role{{Name: cmp.Or(y.roleName, "idler"), Summary: "waits", Run: y.role,
			Places: []string{"idle"}}},
		Places: y.apiPlaces,
		Gauge:  func(context.Context, sut.Config) (sut.Gauge, error) { return gauge{y}, nil },
		Open: func(_ context.Context, cfg sut.Config) (sut.Instance, error) {
			p := y.place(cfg.Prefix)
			if p == nil && !y.openWithoutStores {
				return nil, errors.New("no such place")
			}
			if y.leak {
				go func() { select {} }()
			}
			return &instance{toy: y, place: p, variant: name}, nil
		},
	}
}

// role idles where there are stores, and complains where there are none.
func (y *toy) role(ctx context.Context, cfg sut.Config) error {
	if y.place(cfg.Prefix) == nil && y.roleGivesUp {
		return errors.New("no stores")
	}
	for y.roleStays {
		cfg.Worked()
		time.Sleep(time.Millisecond)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if y.place(cfg.Prefix) == nil {
				cfg.Logger.Warn("no stores")
			} else if !y.roleIsMute {
				cfg.Worked()
			}
		}
	}
}

type instance struct {
	*toy
	place   *place
	variant string
	audits  int
	closed  bool
}

func (i *instance) Prepare(context.Context) error {
	if i.place.prepared && !i.prepareTwice {
		return errors.New("prepared already")
	}
	i.place.prepared = true
	if i.secondSellsLess && i.variant == "second" {
		i.place.left--
	}
	return nil
}

func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	switch {
	case ctx.Err() != nil && !i.deafToCancel:
		return history.Reply{}, ctx.Err()
	case i.closed && !i.useAfterClose:
		return history.Reply{}, errors.New("closed")
	case op.Kind != "take" && !i.acceptsAnything:
		return history.Reply{}, fmt.Errorf("unknown kind: %w", sut.ErrRefused)
	}
	runtime.Gosched() // so that others begin meanwhile, also on one core
	return history.Reply{}, i.take(op)
}

func (i *instance) take(op history.Op) error {
	p := i.place
	p.mu.Lock()
	defer p.mu.Unlock()
	floor := 0
	if i.oversells {
		floor = -3
	}
	if p.left <= floor {
		return fmt.Errorf("nothing left: %w", sut.ErrRefused)
	}
	p.left--
	p.sold[op.ID] = true
	return nil
}

func (i *instance) Audit(context.Context) (json.RawMessage, error) {
	i.audits++
	sold := len(i.place.sold)
	if i.restlessAudit {
		sold += i.audits
	}
	return json.Marshal(sold)
}

func (i *instance) Close() error {
	if i.closed && i.closeTwice {
		return errors.New("closed already")
	}
	i.closed = true
	return nil
}

// Quiesced says that nothing is left to do, unless it never does.
func (i *instance) Quiesced(context.Context) (string, error) {
	if i.neverSettles {
		return "something", nil
	}
	return "", nil
}

// Backlog counts what Quiesced tells of, or claims to.
func (i *instance) Backlog(context.Context) (int64, error) {
	if i.neverSettles && !i.countsNothing || i.alwaysCounts {
		return 1, nil
	}
	return 0, nil
}

// Empty says whether anything was sold.
func (i *instance) Empty(context.Context) (string, error) {
	sold := len(i.place.sold)
	if i.alwaysEmpty || sold == 0 && !i.neverEmpty {
		return "", nil
	}
	return fmt.Sprintf("%d sold", sold), nil
}

// gauge sees nothing of interest.
type gauge struct{ *toy }

func (g gauge) Sample(context.Context) (json.RawMessage, error) {
	switch {
	case g.gaugeFails:
		return nil, errors.New("blind")
	case g.gaugeTalks:
		return json.RawMessage("well, "), nil
	}
	return json.RawMessage("{}"), nil
}

func (g gauge) Close() error {
	if g.gaugeStays {
		return errors.New("not yet")
	}
	return nil
}

// takes is a workload of takers.
type takes struct{}

func (takes) Kinds() []string { return []string{"take"} }
func (takes) Op(i uint64) history.Op {
	return history.Op{ID: i + 1, Kind: "take", Key: "k", Client: "c"}
}
func (takes) Follow(history.Op, history.Outcome, history.Reply) []sut.FollowUp { return nil }

// noOversell reads the number that the audit is.
type noOversell struct{ undecided bool }

func (noOversell) Name() string      { return "no-oversell" }
func (noOversell) Statement() string { return "no more are sold than there are" }
func (n noOversell) Check(
	_ context.Context, _ history.History, audit json.RawMessage,
) check.Verdict {
	var sold int
	switch err := json.Unmarshal(audit, &sold); {
	case err != nil || n.undecided:
		return check.Verdict{Reason: "cannot say"}
	case sold > units:
		return check.Verdict{Status: check.Broken, Checked: sold, Count: 1,
			Violations: []check.Violation{{Text: fmt.Sprintf("%d sold", sold)}}}
	}
	return check.Verdict{Status: check.Held, Checked: sold}
}

// spy is a test whose failures are kept instead of reported.
type spy struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (s *spy) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *spy) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

func (s *spy) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *spy) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }

// failures runs one check and returns what it complained of.
func failures(t *testing.T, f flaws, name string) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		newToy(f).suite().Checks()[name](s)
	}()
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.failures, "\n")
}

// TestSuitePassesASoundSystem: the suite has nothing to say against the toy.
func TestSuitePassesASoundSystem(t *testing.T) {
	suttest.Exercise(t, newToy(flaws{}).suite())
}

// TestSuiteFindsFlaws: each flaw is found by its check, in words that name it.
func TestSuiteFindsFlaws(t *testing.T) {
	tests := map[string]struct {
		flaws       flaws
		check, says string
	}{
		"no idea":         {flaws{noIdea: true}, "statements", "Idea is empty"},
		"two of one name": {flaws{twins: true}, "statements", "appears twice"},
		"unknown break":   {flaws{unknownBreak: true}, "statements", "no invariant"},
		"contradiction":   {flaws{breaksNotApplicable: true}, "statements", "not applicable"},
		"no races":        {flaws{noRaces: " "}, "statements", "either Races or a reason"},
		"a race of none": {flaws{races: func(r *sut.Races) { r.Least = 0 }}, "statements",
			"at least one operation"},
		"a race of no kind": {flaws{races: func(r *sut.Races) { r.Kinds = nil }}, "statements",
			"expected kinds"},
		"a race for nothing": {flaws{races: func(r *sut.Races) { r.Invariants = nil }}, "statements",
			"expected kinds, invariants"},
		"an unknown race": {flaws{races: func(r *sut.Races) { r.Kinds[0] = "tke" }}, "statements",
			"\"tke\" race"},
		"an unknown prize": {flaws{races: func(r *sut.Races) { r.Invariants[0] = "oversell" }},
			"statements", "no invariant"},
		"nobody races": {flaws{races: func(r *sut.Races) { r.Least = 1000 }}, "hammer",
			"at least 1000 are needed"},
		"role like a replica": {flaws{roleName: "idler-2"}, "statements", "name of a replica"},
		"role like the API":   {flaws{roleName: "api"}, "statements", "or of the API"},
		"two places":          {flaws{apiPlaces: []string{"a", "a"}}, "statements", "name of its own"},
		"spaced place":        {flaws{apiPlaces: []string{"put it"}}, "statements", "name of its own"},
		"opens on nothing":    {flaws{openWithoutStores: true}, "unreachable", "without stores"},
		"role gives up":       {flaws{roleGivesUp: true}, "unreachable", "gave up"},
		"prepares twice":      {flaws{prepareTwice: true}, "lifecycle", "second Prepare"},
		"restless audit":      {flaws{restlessAudit: true}, "lifecycle", "differ"},
		"leaks":               {flaws{leak: true}, "lifecycle", "goroutine"},
		"second close":        {flaws{closeTwice: true}, "lifecycle", "second Close"},
		"use after close":     {flaws{useAfterClose: true}, "lifecycle", "after Close"},
		"deaf to cancel":      {flaws{deafToCancel: true}, "lifecycle", "cancelled context succeeded"},
		"accepts anything":    {flaws{acceptsAnything: true}, "lifecycle", "unknown kind"},
		"role stays":          {flaws{roleStays: true}, "roles", "stopping the roles"},
		"role is mute":        {flaws{roleIsMute: true}, "roles", "has not worked since"},
		"never settles":       {flaws{neverSettles: true}, "roles", "still something to do"},
		"counts nothing": {flaws{neverSettles: true, countsNothing: true}, "roles",
			"Backlog: nothing, 5 times, and still there is something"},
		"always counts":      {flaws{alwaysCounts: true}, "roles", "Backlog: 1"},
		"oversells":          {flaws{oversells: true}, "hammer", "broken"},
		"undecided":          {flaws{undecided: true}, "hammer", "undecided"},
		"claims to oversell": {flaws{breaksNothing: true}, "hammer", "expected to be broken"},
		"never empty":        {flaws{neverEmpty: true}, "hammer", "just prepared, and there is 0 sold"},
		"always empty":       {flaws{alwaysEmpty: true}, "hammer", "after all operations"},
		"gauge fails":        {flaws{gaugeFails: true}, "hammer", "the gauge at"},
		"gauge's no JSON":    {flaws{gaugeTalks: true}, "hammer", "the gauge at"},
		"gauge stays":        {flaws{gaugeStays: true}, "hammer", "close the gauge"},
		"one sells less":     {flaws{secondSellsLess: true}, "alike", "[second] end with"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := failures(t, test.flaws, test.check)
			if !strings.Contains(got, test.says) {
				t.Errorf("expected a complaint with %q, got:\n%s", test.says, got)
			}
		})
	}
}
