package suttest

import "testing"

// Checks are the parts of the suite that judge one variant, the first of the
// system.
func (s Suite) Checks() map[string]func(testing.TB) {
	v := s.System.Variants[0]
	return map[string]func(testing.TB){
		"statements":  s.statements,
		"lifecycle":   func(t testing.TB) { s.lifecycle(t, v) },
		"unreachable": func(t testing.TB) { s.unreachable(t, v) },
		"roles":       func(t testing.TB) { s.roles(t, v) },
		"hammer":      func(t testing.TB) { s.hammer(t, v) },
		"alike":       s.alike,
	}
}
