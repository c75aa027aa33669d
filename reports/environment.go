package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/rundir"
)

// fact is one line of a list of terms and values.
type fact struct {
	Term, Value string
	Code        bool
}

// section is a titled list of facts.
type section struct {
	Title string
	Facts []fact
}

// environmentSections lists what the run stood on.
func environmentSections(s rundir.Summary) []section {
	e := s.Environment
	machine := section{"Machine", nonEmpty(
		fact{Term: "CPU", Value: e.CPU},
		fact{Term: "Cores", Value: positive(e.Cores)},
		fact{Term: "Memory", Value: sizeOf(e.MemoryBytes)},
		fact{Term: "Frequency governor", Value: e.Governor},
		fact{Term: "Limit of cores", Value: limitOfCores(e)},
		fact{Term: "Limit of memory", Value: sizeOf(e.MemoryLimitBytes)},
		fact{Term: "Operating system", Value: e.OS},
		fact{Term: "Kernel", Value: e.Kernel},
		fact{Term: "Backend", Value: backendText(e)},
		fact{Term: "Roles and API", Value: e.Deploy},
		fact{Term: "TCP proxy before the stores", Value: yesNo(e.Proxied)},
		fact{Term: "Fingerprint", Value: e.Fingerprint, Code: true},
	)}
	sections := []section{runSection(s), machine}
	for _, name := range sortedKeys(e.Components) {
		sections = append(sections, componentSection(name, e.Components[name]))
	}
	return sections
}

func runSection(s rundir.Summary) section {
	r := s.Run
	commit, version := s.Tool.Commit, s.Tool.Version
	if strings.HasPrefix(commit, strings.TrimSuffix(version, "-dirty")) {
		version = "" // without a tag it is the beginning of the commit
	}
	if s.Tool.Dirty {
		commit += " (with uncommitted changes)"
	}
	return section{"Run", nonEmpty(
		fact{Term: "Run", Value: r.ID, Code: true},
		fact{Term: "Scenario", Value: joinNonEmpty(", profile ", r.Scenario, r.Profile)},
		fact{Term: "System", Value: r.System},
		fact{Term: "Target", Value: r.Target, Code: true},
		fact{Term: "Seed", Value: fmt.Sprint(r.Seed), Code: true},
		fact{Term: "Repeats", Value: fmt.Sprint(r.Repeats)},
		fact{Term: "Started", Value: instant(r.Started)},
		fact{Term: "Finished", Value: instant(r.Finished)},
		fact{Term: "Scenario digest", Value: r.ScenarioDigest, Code: true},
		fact{Term: "Arrival digest", Value: r.ArrivalDigest, Code: true},
		fact{Term: "Tool", Value: joinNonEmpty(" ", s.Tool.Name, version, commit)},
		fact{Term: "Go", Value: s.Tool.Go},
		fact{Term: "Schema", Value: s.SchemaVersion},
	)}
}

func componentSection(name string, c rundir.Component) section {
	title := name
	if c.Kind != "" && c.Kind != name {
		title = fmt.Sprintf("%s (in fact %s)", name, c.Kind)
	}
	facts := nonEmpty(
		fact{Term: "Version", Value: joinNonEmpty(" ", c.Kind, c.Version)},
		fact{Term: "Source", Value: c.Source, Code: true},
	)
	if c.FlushNS > 0 {
		facts = append(facts, fact{Term: "One fdatasync on its disk, median",
			Value: latency(c.FlushNS)})
	}
	for _, key := range sortedKeys(c.Settings) {
		value, word := settingText(c.Settings[key])
		facts = append(facts, fact{Term: key, Value: value, Code: !word})
	}
	return section{title, facts}
}

// settingText is a setting's value; what means "off" or "never" is said in this word.
func settingText(value string) (text string, word bool) {
	switch value {
	case "":
		return "off", true
	case strconv.FormatInt(math.MaxInt64, 10):
		return "never", true
	}
	return value, false
}

// backendText is the backend and why it was chosen, once.
func backendText(e rundir.Environment) string {
	if strings.HasPrefix(e.BackendReason, e.Backend) {
		return e.BackendReason
	}
	return joinNonEmpty(": ", e.Backend, e.BackendReason)
}

// glance is the run in one line: what it was measured on.
func glance(s rundir.Summary) string {
	var parts []string
	for _, name := range sortedKeys(s.Environment.Components) {
		c := s.Environment.Components[name]
		parts = append(parts, joinNonEmpty(" ", cmp.Or(c.Kind, name), c.Version))
	}
	stores := strings.Join(parts, ", ")
	if stores != "" {
		stores = "real " + stores
	}
	if slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "kfake") }) {
		stores = strings.Join(parts, ", ")
	}
	machine := ""
	if s.Environment.Cores > 0 {
		machine = plural(s.Environment.Cores, "core")
	}
	backend := ""
	if s.Environment.Backend != "" {
		backend = "backend " + s.Environment.Backend
	}
	return joinNonEmpty(" · ", stores, backend, deployed(s.Environment.Deploy), machine)
}

// deployed says where the designs ran.
func deployed(how string) string {
	switch how {
	case "":
		return ""
	case "in-process":
		return "designs in the load generator's process"
	case "processes":
		return "designs in processes of their own"
	}
	return "designs in " + how
}

// faultRow is one fault in one repeat.
type faultRow struct {
	Mark, Letter, Variant, Name, Fault string
	Repeat                             int
	From, To, Recovered, Evidence      string
	Fired                              bool
	// Idle says why it strikes nothing of the design.
	Idle string
}

func faultRows(standings []standing) (rows []faultRow) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			for i, w := range faultWindows(r) {
				row := faultRow{Mark: fmt.Sprintf("F%d", i+1), Letter: st.Letter, Variant: st.Name,
					Name: w.Name, Fault: w.Fault, Repeat: r.Index + 1,
					From: seconds(w.Start.Seconds()), To: phaseEnd(int64(w.End)),
					Recovered: none, Evidence: short(strings.Join(w.Evidence, "; "), 300),
					Fired: len(w.Evidence) > 0}
				_, row.Idle = provedFault(r, w)
				if w.Recovered > 0 {
					row.Recovered = seconds((w.Recovered - w.Start).Seconds()) + " after it began"
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func nonEmpty(facts ...fact) []fact {
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

func joinNonEmpty(separator string, parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(parts, separator)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// limitOfCores is what the control group allows, empty for no limit.
func limitOfCores(e rundir.Environment) string {
	if e.CPULimitCores <= 0 {
		return ""
	}
	return plainNumber(e.CPULimitCores)
}

func sizeOf(n int64) string {
	if n <= 0 {
		return ""
	}
	return bytesText(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// instant formats a time in UTC.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
