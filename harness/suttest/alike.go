package suttest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// alike performs the same operations one after the other on every variant,
// without roles and without waiting, and compares the final audits. Without
// concurrency and faults all variants, the wrong ones too, are the same.
func (s Suite) alike(t testing.TB) {
	if s.AlikeParams != nil {
		s.Params = s.AlikeParams
	}
	summaries := map[string][]string{}
	for _, v := range s.System.Variants {
		summary := s.perform(t, v)
		summaries[summary] = append(summaries[summary], v.Name)
	}
	if len(summaries) == 1 {
		return
	}
	for summary, names := range summaries {
		slices.Sort(names)
		t.Errorf("%v end with\n%s", names, summary)
	}
}

// The comparison performs one in oneByOne operations, and fewest at least: one after the other
// they take long.
const (
	oneByOne = 8
	fewest   = 50
)

// perform does some scheduled operations in order, each followed by all that
// follows from it, and sums up the audit.
func (s Suite) perform(t testing.TB, v sut.Variant) string {
	workload, err := s.System.Workload(s.Seed, s.Params)
	if err != nil {
		t.Fatalf("workload: %v", err)
	}
	cfg := s.config(t, v)
	inst, err := v.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: open: %v", v.Name, err)
	}
	// Closed here and not when the test ends: the stores may not have
	// connections for all variants at once.
	defer func() {
		if err := inst.Close(); err != nil {
			t.Errorf("%s: close: %v", v.Name, err)
		}
	}()
	if err := inst.Prepare(t.Context()); err != nil {
		t.Fatalf("%s: prepare: %v", v.Name, err)
	}
	defer s.startServers(t, v, cfg)()
	for i := range uint64(max(s.Ops/oneByOne, fewest)) {
		due := []history.Op{workload.Op(i)}
		for len(due) > 0 {
			op := due[0]
			reply, err := inst.Do(t.Context(), op)
			due = due[1:]
			outcome := sut.Outcome(err)
			if outcome == history.Unknown {
				t.Fatalf("%s: %s of %s without faults: %v", v.Name, op.Kind, op.Key, err)
			}
			for _, next := range workload.Follow(op, outcome, reply) {
				due = append(due, next.Op)
			}
		}
	}
	audit, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatalf("%s: audit: %v", v.Name, err)
	}
	summary, err := s.Summary(audit)
	if err != nil {
		t.Fatalf("%s: summing up the audit: %v", v.Name, err)
	}
	return summary
}

// Lines makes a Suite's Summary of what lists the lines of an audit, in any order.
func Lines[A any](lines func(audit A) []string) func(raw json.RawMessage) (string, error) {
	return func(raw json.RawMessage) (string, error) {
		audit, err := api.DecodeAudit[A](raw)
		if err != nil {
			return "", err
		}
		list := lines(audit)
		slices.Sort(list)
		return strings.Join(list, "\n"), nil
	}
}
