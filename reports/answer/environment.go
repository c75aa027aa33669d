package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"stampede/harness/rundir"
	"stampede/reports/words"
)

// Section is a titled list of facts.
type Section struct {
	Title string
	Facts []words.Fact
}

// EnvironmentSections lists what the run stood on.
func EnvironmentSections(s rundir.Summary) []Section {
	e := s.Environment
	machine := Section{"Machine", words.Known(
		words.Fact{Term: "CPU", Value: e.CPU},
		words.Fact{Term: "Cores", Value: words.Positive(e.Cores)},
		words.Fact{Term: "Memory", Value: words.SizeOf(e.MemoryBytes)},
		words.Fact{Term: "Frequency governor", Value: e.Governor},
		words.Fact{Term: "Limit of cores", Value: LimitOfCores(e)},
		words.Fact{Term: "Limit of memory", Value: words.SizeOf(e.MemoryLimitBytes)},
		words.Fact{Term: "Operating system", Value: e.OS},
		words.Fact{Term: "Kernel", Value: e.Kernel},
		words.Fact{Term: "Backend", Value: backendText(e)},
		words.Fact{Term: "Roles and API", Value: e.Deploy},
		words.Fact{Term: "TCP proxy before the stores", Value: words.YesNo(e.Proxied)},
		words.Fact{Term: "Fingerprint", Value: e.Fingerprint, Code: true},
	)}
	sections := []Section{runSection(s), machine}
	for _, name := range words.SortedKeys(e.Components) {
		sections = append(sections, componentSection(name, e.Components[name]))
	}
	return sections
}

func runSection(s rundir.Summary) Section {
	r := s.Run
	commit, version := s.Tool.Commit, s.Tool.Version
	if strings.HasPrefix(commit, strings.TrimSuffix(version, "-dirty")) {
		version = "" // without a tag it is the beginning of the commit
	}
	if s.Tool.Dirty {
		commit += " (with uncommitted changes)"
	}
	return Section{"Run", words.Known(
		words.Fact{Term: "Run", Value: r.ID, Code: true},
		words.Fact{Term: "Scenario", Value: words.JoinNonEmpty(", profile ", r.Scenario, r.Profile)},
		words.Fact{Term: "System", Value: r.System},
		words.Fact{Term: "Target", Value: r.Target, Code: true},
		words.Fact{Term: "Seed", Value: fmt.Sprint(r.Seed), Code: true},
		words.Fact{Term: "Repeats", Value: fmt.Sprint(r.Repeats)},
		words.Fact{Term: "Started", Value: words.Instant(r.Started)},
		words.Fact{Term: "Finished", Value: words.Instant(r.Finished)},
		words.Fact{Term: "Scenario digest", Value: r.ScenarioDigest, Code: true},
		words.Fact{Term: "Arrival digest", Value: r.ArrivalDigest, Code: true},
		words.Fact{Term: "Tool", Value: words.JoinNonEmpty(" ", s.Tool.Name, version, commit)},
		words.Fact{Term: "Go", Value: s.Tool.Go},
		words.Fact{Term: "Schema", Value: s.SchemaVersion},
	)}
}

func componentSection(name string, c rundir.Component) Section {
	title := name
	if c.Kind != "" && c.Kind != name {
		title = fmt.Sprintf("%s (in fact %s)", name, c.Kind)
	}
	facts := words.Known(
		words.Fact{Term: "Version", Value: words.JoinNonEmpty(" ", c.Kind, c.Version)},
		words.Fact{Term: "Source", Value: c.Source, Code: true},
	)
	if c.FlushNS > 0 {
		facts = append(facts, words.Fact{Term: "One fdatasync on its disk, median",
			Value: words.Latency(c.FlushNS)})
	}
	for _, key := range words.SortedKeys(c.Settings) {
		value, word := SettingText(c.Settings[key])
		facts = append(facts, words.Fact{Term: key, Value: value, Code: !word})
	}
	return Section{title, facts}
}

// SettingText is a setting's value; what means "off" or "never" is said in this word.
func SettingText(value string) (text string, word bool) {
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
	return words.JoinNonEmpty(": ", e.Backend, e.BackendReason)
}

// Glance is the run in one line: what it was measured on.
func Glance(s rundir.Summary) string {
	var parts []string
	for _, name := range words.SortedKeys(s.Environment.Components) {
		c := s.Environment.Components[name]
		parts = append(parts, words.JoinNonEmpty(" ", cmp.Or(c.Kind, name), c.Version))
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
		machine = words.Plural(s.Environment.Cores, "core")
	}
	backend := ""
	if s.Environment.Simulated() {
		return words.JoinNonEmpty(" · ", SimulatedWord, s.Environment.BackendReason)
	}
	if s.Environment.Backend != "" {
		backend = "backend " + s.Environment.Backend
	}
	return words.JoinNonEmpty(" · ", stores, backend, deployed(s.Environment.Deploy), machine)
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

// FaultRow is one fault in one repeat.
type FaultRow struct {
	Mark, Letter, Variant, Name, Fault string
	Repeat                             int
	From, To, Recovered, Evidence      string
	Fired                              bool
	// Idle says why it strikes nothing of the design.
	Idle string
}

// FaultRows lists the faults of all designs and repeats.
func FaultRows(standings []Standing) (rows []FaultRow) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			for i, w := range FaultWindows(r) {
				row := FaultRow{Mark: fmt.Sprintf("F%d", i+1), Letter: st.Letter, Variant: st.Name,
					Name: w.Name, Fault: w.Fault, Repeat: r.Index + 1,
					From: words.Seconds(w.Start.Seconds()), To: phaseEnd(int64(w.End)),
					Recovered: words.None, Evidence: words.Short(strings.Join(w.Evidence, "; "), 300),
					Fired: len(w.Evidence) > 0}
				_, row.Idle = provedFault(r, w)
				if w.Recovered > 0 {
					row.Recovered = words.Seconds((w.Recovered - w.Start).Seconds()) + " after it began"
				}
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// LimitOfCores is what the control group allows, empty for no limit.
func LimitOfCores(e rundir.Environment) string {
	if e.CPULimitCores <= 0 {
		return ""
	}
	return words.PlainNumber(e.CPULimitCores)
}
