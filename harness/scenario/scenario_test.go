package scenario

import (
	"slices"
	"testing"

	"stampede/harness/sut"
)

// TestMustCatch: what a run must catch follows the triggers, and whether variants run side by side.
func TestMustCatch(t *testing.T) {
	v := sut.Variant{Breaks: []sut.Break{
		{Invariant: "a", Under: sut.Load}, {Invariant: "b", Under: sut.LostAck},
		{Invariant: "a", Under: sut.LostAck},
		{Invariant: "c", Under: sut.PostgresCrash, Shows: sut.Alone},
		{Invariant: "d", Under: sut.Load, Shows: sut.AtTimes},
	}}
	for _, test := range []struct {
		sc   Scenario
		want []string
	}{
		{Scenario{}, []string{}},
		{Scenario{Provokes: []string{"load"}}, []string{"a"}},
		{Scenario{Provokes: []string{"load", "lost-ack"}}, []string{"a", "b"}},
		{Scenario{Provokes: []string{"redis-loss"}}, []string{}},
		{Scenario{Provokes: []string{"postgres-crash"}, Variants: []string{"x", "y"}}, []string{"c"}},
		{Scenario{Provokes: []string{"postgres-crash"}, Variants: []string{"x", "y"},
			SideBySide: true}, []string{}},
		{Scenario{Provokes: []string{"postgres-crash"}, Variants: []string{"x"}, SideBySide: true},
			[]string{"c"}},
	} {
		if got := test.sc.MustCatch(v); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.sc, got, test.want)
		}
	}
}
