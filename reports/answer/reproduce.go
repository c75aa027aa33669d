package answer

import (
	"regexp"
	"strings"

	"stampede/harness/plain"
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
	command = narrowed.ReplaceAllString(command, "")
	if strings.Contains(command, "variants=") || strings.Contains(command, "baseline=") {
		// The last setting of a value is the one that counts, whatever the flags are.
		return command + " --set 'variants=[" + variant + "]' --set baseline=" + variant + note
	}
	return command + " --design " + variant + note
}

// narrowed are the flags that choose designs.
var narrowed = regexp.MustCompile(` --(design|baseline) \S+`)

// Command is a command line and what it does.
type Command struct{ ID, Line, What string }

// Again are the commands that take up a stored run: one that runs it again and one that
// judges it again. The former cannot be told where the run was given servers, passwords or
// certificates, which it does not keep.
func Again(d Data) (all []Command) {
	if d.Place == "" {
		return nil
	}
	place, r := plain.Word(d.Place), d.Summary.Run
	given := d.Summary.Environment.Backend == external || strings.Contains(r.Target, "@") ||
		strings.Contains(r.Reproduce, " --target-ca ")
	if !given {
		all = append(all, Command{"replay-cmd", "stampede replay " + place,
			"The same from what this run has recorded; it reports what has changed, such as the " +
				"version of a store:"})
	}
	return append(all, Command{"check-cmd", "stampede check " + place,
		"What was recorded, judged again; that needs no store and no server:"})
}

// external is the backend of servers that the user has, as env.External.
const external = "external"

// plainName is a name that means nothing to a shell or to YAML, as all of ours.
var plainName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

// secrets begins the comment behind a command, which says which passwords to put in.
const secrets = " # with STAMPEDE_"
