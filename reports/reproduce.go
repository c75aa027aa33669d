package reports

import (
	"regexp"
	"strings"

	"stampede/harness/rundir"
)

// ReproduceVariant is the command line that runs one variant of a run again as it was run
// there: with the same seed, profile, stores and repeats. A run without a command has none,
// and that of a server or of one variant is its own.
func ReproduceVariant(s rundir.Summary, variant string) string {
	whole := s.Run.Reproduce
	if whole == "" || s.Run.Target != "" || len(s.Variants) < 2 || !plainName.MatchString(variant) {
		return whole
	}
	command, note := whole, ""
	if at := strings.LastIndex(whole, secrets); at >= 0 {
		command, note = whole[:at], whole[at:]
	}
	// The last setting of a value is the one that counts.
	return command + " --set 'variants=[" + variant + "]' --set baseline=" + variant + note
}

// plainName is a name that means nothing to a shell or to YAML, as all of ours.
var plainName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

// secrets begins the comment behind a command, which says which passwords to put in.
const secrets = " # with STAMPEDE_"
