package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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
		fact{Term: "Backend", Value: joinNonEmpty(": ", e.Backend, e.BackendReason)},
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
	commit := s.Tool.Commit
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
		fact{Term: "Tool", Value: joinNonEmpty(" ", s.Tool.Name, s.Tool.Version, commit)},
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
		facts = append(facts, fact{Term: key, Value: c.Settings[key], Code: true})
	}
	return section{title, facts}
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
	return joinNonEmpty(" · ", stores, backend, machine)
}

// validityRow is one variant's assumptions about the measurement.
type validityRow struct {
	Letter, Variant string
	OK              bool
	Cells           []validityCell
}

type validityCell struct {
	Name   string
	Mark   mark
	Count  string
	Detail string
	Absent bool
}

// validityDetail is an assumption as it was of one or more variants.
type validityDetail struct {
	Name string
	Mark mark
	// Letters are the variants', none if they are all that there are.
	Letters []string
	Detail  string
}

// validityDetails has the variants of which an assumption says the same in one row.
func validityDetails(columns []string, rows []validityRow) (details []validityDetail) {
	for i, name := range columns {
		from := len(details)
		for _, row := range rows {
			cell := row.Cells[i]
			if cell.Absent {
				continue
			}
			same := slices.IndexFunc(details[from:], func(d validityDetail) bool {
				return d.Mark == cell.Mark && d.Detail == cell.Detail
			})
			if same < 0 {
				same = len(details) - from
				details = append(details, validityDetail{Name: name, Mark: cell.Mark, Detail: cell.Detail})
			}
			details[from+same].Letters = append(details[from+same].Letters, row.Letter)
		}
		if last := len(details) - 1; last == from && len(details[last].Letters) == len(rows) {
			details[last].Letters = nil
		}
	}
	return details
}

// validityOf has an assumption per column and a variant per row; a cell counts the
// repeats in which it held and quotes the first that did not.
func validityOf(standings []standing) (v validityView) {
	v.Columns, v.Rows = validityTable(standings)
	v.Details = validityDetails(v.Columns, v.Rows)
	for i, name := range v.Columns {
		if failed := failedIn(i, v.Rows); len(failed) > 0 {
			first := failed[0]
			v.Failed = append(v.Failed, fmt.Sprintf("%s: %s%s %s: %s", name,
				howMany(len(failed), len(v.Rows)), first.Letter, first.Variant, first.Cells[i].Detail))
		}
	}
	return v
}

// failedIn are the variants of which the assumption in a column failed.
func failedIn(column int, rows []validityRow) (failed []validityRow) {
	for _, row := range rows {
		if cell := row.Cells[column]; !cell.Absent && cell.Mark.Class == "bad" {
			failed = append(failed, row)
		}
	}
	return failed
}

// howMany introduces the first of several variants; one alone needs no introduction.
func howMany(n, all int) string {
	switch n {
	case 1:
		return ""
	case all:
		return fmt.Sprintf("all %d designs; the first, ", n)
	}
	return fmt.Sprintf("%d of %d designs; the first, ", n, all)
}

// ofMeasurement says whether a reason for a variant's verdict is an assumption that failed,
// which the page tells once for all variants.
func ofMeasurement(v rundir.Variant, reason string) bool {
	return slices.ContainsFunc(v.Repeats, func(r rundir.Repeat) bool {
		return slices.ContainsFunc(r.Validity, func(a rundir.Validity) bool {
			return !a.OK && strings.HasSuffix(reason, strings.TrimSpace(a.Name+": "+a.Detail))
		})
	})
}

// otherReasons are the reasons for a verdict that are not about the measurement.
func otherReasons(reasons []string, variants ...rundir.Variant) (list []string) {
	for _, reason := range reasons {
		if !slices.ContainsFunc(variants, func(v rundir.Variant) bool {
			return ofMeasurement(v, reason)
		}) {
			list = append(list, reason)
		}
	}
	return list
}

func validityTable(standings []standing) (columns []string, rows []validityRow) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			for _, v := range r.Validity {
				if !slices.Contains(columns, v.Name) {
					columns = append(columns, v.Name)
				}
			}
		}
	}
	for _, st := range standings {
		row := validityRow{Letter: st.Letter, Variant: st.Name, OK: true}
		for _, name := range columns {
			cell := validityCellOf(st.Repeats, name)
			row.OK = row.OK && cell.Mark.Class != "bad"
			row.Cells = append(row.Cells, cell)
		}
		rows = append(rows, row)
	}
	return columns, rows
}

func validityCellOf(repeats []rundir.Repeat, name string) validityCell {
	ok, all := 0, 0
	first, failed := "", ""
	for _, r := range repeats {
		for _, v := range r.Validity {
			if v.Name != name {
				continue
			}
			all++
			first = cmp.Or(first, v.Detail)
			if v.OK {
				ok++
			} else {
				failed = cmp.Or(failed, v.Detail)
			}
		}
	}
	cell := validityCell{Name: name, Count: fmt.Sprintf("%d/%d", ok, all), Absent: all == 0,
		Detail: cmp.Or(failed, first), Mark: mark{"✓", "holds", "good"}}
	if ok < all {
		cell.Mark = mark{"✗", "fails", "bad"}
	}
	return cell
}

// repeatRow is one execution of one variant.
type repeatRow struct {
	Letter, Variant                  string
	Repeat, Order                    int
	Mark                             mark
	P50, P99, Throughput, CPU, Lag   string
	Scheduled, Dropped, Drain, Error string
}

func repeatRows(standings []standing) (rows []repeatRow) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			response, _ := mainResponse(r, st)
			row := repeatRow{
				Letter: st.Letter, Variant: st.Name, Repeat: r.Index + 1, Order: r.Order + 1,
				Mark: verdictMark(r.Verdict),
				P50:  percentile(response, response.P50), P99: percentile(response, response.P99),
				Throughput: none, CPU: none, Lag: none, Scheduled: none, Dropped: none, Drain: none,
				Error: r.Error,
			}
			// A repeat that failed, or was interrupted, has zero where nobody measured.
			if r.Error == "" || r.Load.Scheduled > 0 {
				row.Throughput = strings.TrimSuffix(rate(r.ThroughputPerS), "/s")
				row.Scheduled, row.Dropped = grouped(r.Load.Scheduled), grouped(r.Load.Dropped)
			}
			if r.Generator.CPUCores > 0 {
				row.CPU = significant(min(r.Generator.CPUCores, 999))
			}
			if r.Generator.LagP99NS > 0 {
				row.Lag = latency(r.Generator.LagP99NS)
			}
			if r.DrainNS > 0 {
				row.Drain = latency(r.DrainNS)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// faultRow is one fault in one repeat.
type faultRow struct {
	Mark, Letter, Variant, Name, Fault string
	Repeat                             int
	From, To, Recovered, Evidence      string
	Fired                              bool
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
