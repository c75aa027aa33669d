package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/events"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// design is a variant of the ledger, a system that keeps the ids of the
// operations in a set of the store. What is nil is done well.
type design struct {
	name   string
	breaks []sut.Break
	roles  []sut.Role
	// bare instances know neither whether they are empty nor whether they are
	// at rest.
	bare bool

	open, prepare, close func() error
	empty, quiesced      func() (string, error)
	// do comes before the operation, which it ends by an error; forgets says
	// that the operation is acknowledged and not kept.
	do      func(ctx context.Context, id uint64) error
	forgets func(id uint64) bool
	audit   func() (json.RawMessage, error)
	// files, if set, is told of the folder of a design that keeps files, when it is opened.
	files func(folder string)
	// gauge, if set, makes the design's gauge.
	gauge func() (sut.Gauge, error)
	// as is what the instance is opened as, if not as it is.
	as func(sut.Instance) sut.Instance
}

// ledger is the system with some designs, and counts their instances.
type ledger struct {
	store   *store
	designs []design

	opened, closed atomic.Int64
}

// ledgerParams are the ledger's parameters.
type ledgerParams struct {
	Keys uint64 `json:"keys" doc:"how many keys there are"`
}

func (l *ledger) system() sut.System {
	s := sut.System{
		Name: "ledger", Summary: "keeps numbers",
		Params: func() any { return &ledgerParams{Keys: 1000} },
		Workload: func(seed uint64, params any) (sut.Workload, error) {
			if params.(*ledgerParams).Keys == 0 {
				return nil, errors.New("keys is 0")
			}
			return adds{seed, params.(*ledgerParams).Keys}, nil
		},
		Invariants: func(any) []check.Invariant { return []check.Invariant{kept{}, asked{}} },
	}
	for _, d := range l.designs {
		v := sut.Variant{
			Name: d.name, Idea: "keeps numbers in a set", Needs: []sut.Service{sut.Redis},
			Breaks: d.breaks, Roles: d.roles, KeepsFiles: d.files != nil,
			Open: func(_ context.Context, cfg sut.Config) (sut.Instance, error) {
				if d.files != nil {
					d.files(cfg.Folder)
				}
				return l.open(d, cfg)
			},
		}
		if d.gauge != nil {
			v.Gauge = func(context.Context, sut.Config) (sut.Gauge, error) { return d.gauge() }
		}
		s.Variants = append(s.Variants, v)
	}
	s.Target = func(string, sut.Config) (sut.Instance, error) {
		return l.open(l.designs[0], sut.Config{Prefix: "target"})
	}
	return s
}

func (l *ledger) open(d design, cfg sut.Config) (sut.Instance, error) {
	if d.open != nil {
		if err := d.open(); err != nil {
			return nil, err
		}
	}
	l.opened.Add(1)
	inst := &instance{design: d, ledger: l, set: cfg.Prefix}
	if d.bare {
		return struct{ sut.Instance }{inst}, nil
	}
	if d.as != nil {
		return d.as(inst), nil
	}
	return inst, nil
}

// verify checks that every instance was closed.
func (l *ledger) verify(t *testing.T) {
	t.Helper()
	if opened, closed := l.opened.Load(), l.closed.Load(); opened != closed {
		t.Errorf("%d instances were opened and %d closed", opened, closed)
	}
}

// adds is a workload whose operations each add their id, under random keys.
type adds struct{ seed, keys uint64 }

func (adds) Kinds() []string { return []string{"add"} }

func (w adds) Op(i uint64) history.Op {
	key := rand.New(rand.NewPCG(w.seed, i)).Uint64N(w.keys)
	return history.Op{ID: i + 1, Kind: "add", Key: fmt.Sprint(key)}
}

func (adds) Follow(history.Op, history.Outcome, history.Reply) []sut.FollowUp { return nil }

// instance is a design at work.
type instance struct {
	design

	ledger *ledger
	set    string
}

func (i *instance) Prepare(context.Context) error {
	if i.prepare != nil {
		return i.prepare()
	}
	return i.ledger.store.update(i.set, func(set map[uint64]bool) { clear(set) })
}

func (i *instance) Empty(context.Context) (found string, err error) {
	if i.empty != nil {
		return i.empty()
	}
	err = i.ledger.store.update(i.set, func(set map[uint64]bool) {
		if len(set) > 0 {
			found = fmt.Sprintf("%d numbers", len(set))
		}
	})
	return found, err
}

func (i *instance) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	if i.do != nil {
		if err := i.do(ctx, op.ID); err != nil {
			return history.Reply{}, err
		}
	}
	return history.Reply{Value: 1}, i.ledger.store.update(i.set, func(set map[uint64]bool) {
		if i.forgets == nil || !i.forgets(op.ID) {
			set[op.ID] = true
		}
	})
}

func (i *instance) Quiesced(context.Context) (string, error) {
	if i.quiesced != nil {
		return i.quiesced()
	}
	return "", i.ledger.store.update(i.set, func(map[uint64]bool) {})
}

func (i *instance) Audit(context.Context) (audit json.RawMessage, err error) {
	if i.design.audit != nil {
		return i.design.audit()
	}
	err = i.ledger.store.update(i.set, func(set map[uint64]bool) {
		ids := []uint64{}
		for id := range set {
			ids = append(ids, id)
		}
		audit, _ = json.Marshal(ids) // numbers can be encoded
	})
	return audit, err
}

func (i *instance) Close() error {
	i.ledger.closed.Add(1)
	if i.design.close != nil {
		return i.design.close()
	}
	return nil
}

// auditOf is an audit as a set; false if there is none.
func auditOf(audit json.RawMessage) (map[uint64]bool, bool) {
	var ids []uint64
	if audit == nil || json.Unmarshal(audit, &ids) != nil {
		return nil, false
	}
	set := map[uint64]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set, true
}

// kept is the invariant that what was acknowledged is there.
type kept struct{}

func (kept) Name() string      { return "kept" }
func (kept) Statement() string { return "Every number that was acknowledged is there." }

func (kept) Check(_ context.Context, h history.History, audit json.RawMessage) check.Verdict {
	set, ok := auditOf(audit)
	if !ok {
		return check.Verdict{Reason: "there is no audit"}
	}
	v := check.Verdict{Status: check.Held}
	for rec, err := range h.All() {
		if err != nil || rec.Outcome != history.OK {
			continue
		}
		v.Checked++
		if !set[rec.Op.ID] {
			v.Violations = append(v.Violations, check.Violation{
				Text: fmt.Sprintf("%d was acknowledged and is gone", rec.Op.ID), Ops: []uint64{rec.Seq}})
		}
	}
	return proved(v)
}

// asked is the invariant that nothing is there that nobody asked for.
type asked struct{}

func (asked) Name() string      { return "asked" }
func (asked) Statement() string { return "Nothing is there that was refused or not asked for." }

func (asked) Check(_ context.Context, h history.History, audit json.RawMessage) check.Verdict {
	set, ok := auditOf(audit)
	if !ok {
		return check.Verdict{Reason: "there is no audit"}
	}
	v := check.Verdict{Status: check.Held, Checked: 1 + len(set)}
	for rec, err := range h.All() {
		if err == nil && (rec.Outcome == history.OK || rec.Outcome == history.Unknown) {
			delete(set, rec.Op.ID)
		}
	}
	for id := range set {
		v.Violations = append(v.Violations, check.Violation{Text: fmt.Sprintf("%d came by itself", id)})
	}
	return proved(v)
}

// proved is broken if there are violations, whose operations are its witness.
func proved(v check.Verdict) check.Verdict {
	for _, violation := range v.Violations {
		v.Witness = append(v.Witness, violation.Ops...)
	}
	if v.Count = len(v.Violations); v.Count > 0 {
		v.Status = check.Broken
	}
	return v
}

// watcher is an observer that remembers, and calls when a phase begins.
type watcher struct {
	entering func(step)

	mu     sync.Mutex
	events []events.Event
	steps  []step
	lines  []string
}

// step is a phase of a repeat as it begins; the last one is "done".
type step struct {
	events.Repeat
	phase events.PhaseName
}

func (w *watcher) Observe(e events.Event) {
	w.mu.Lock()
	w.events = append(w.events, e)
	s := step{}
	switch {
	case e.Phase != nil:
		s = step{e.Phase.Repeat, e.Phase.Phase}
	case e.RepeatDone != nil:
		s = step{e.RepeatDone.Repeat, "done"}
	}
	if s.phase != "" {
		w.steps = append(w.steps, s)
	}
	w.mu.Unlock()
	if w.entering != nil && s.phase != "" {
		w.entering(s)
	}
}

func (w *watcher) Logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// said is all that was logged.
func (w *watcher) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// role makes a role of a function.
func role(run func(ctx context.Context) error) []sut.Role {
	return []sut.Role{{Name: "sweeper", Run: func(ctx context.Context, cfg sut.Config) error {
		cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "at work")
		working, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for sut.Pause(working, time.Millisecond) {
				cfg.Worked()
			}
		}()
		return run(ctx)
	}}}
}
