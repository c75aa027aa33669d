// Package compare holds runs against runs, and writes it as text, Markdown, JSON and a page.
package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/check"
	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/harness/stats"
	"stampede/reports/answer"
	"stampede/reports/words"
)

// Labelled is a run under the name that a comparison calls it by.
type Labelled struct {
	Label string
	Data  answer.Data
}

// Comparison compares the variants that two runs have in common.
type Comparison struct {
	// Base and Candidate are the labels, Sides the runs behind them in that order.
	Base      string  `json:"base"`
	Candidate string  `json:"candidate"`
	Sides     [2]Side `json:"sides"`
	// SameRun says that both are copies of one run: then nothing else is said.
	SameRun bool `json:"same_run,omitempty"`
	// Mismatches say why the runs' times must not be compared: another
	// machine, other stores, another scenario. Empty means that they may. What the times of
	// one design are worth is not among them: it takes nothing from the others.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Changes are the verdicts that differ, worse or better.
	Changes []VerdictChange `json:"changes,omitempty"`
	// OnlyBase and OnlyCandidate are the variants that just one run has.
	OnlyBase      []string `json:"only_base,omitempty"`
	OnlyCandidate []string `json:"only_candidate,omitempty"`
	// Metrics has the comparisons of each common variant; Base and Candidate
	// are the labels.
	Metrics []VariantComparison `json:"variants"`
	// Regressions are the metrics that got worse, significantly and by a large
	// share. Those of variants that are known to be wrong do not count.
	Regressions []Regression `json:"regressions,omitempty"`
	// Few says which variants had too few repeats to ever show a regression.
	Few []string `json:"too_few,omitempty"`
	// Noisy are the variants whose times are noisy on a side, WithoutTimes those that have
	// none on a side: neither shows a regression. Judged is how many others there are that
	// are not known to be wrong.
	Noisy        []string `json:"noisy,omitempty"`
	WithoutTimes []string `json:"without_times,omitempty"`
	Judged       int      `json:"judged"`
}

// Side is one of the runs that are compared.
type Side struct {
	Run         string    `json:"run"`
	Scenario    string    `json:"scenario"`
	Profile     string    `json:"profile"`
	Seed        uint64    `json:"seed"`
	Repeats     int       `json:"repeats"`
	Started     time.Time `json:"started"`
	Tool        string    `json:"tool"`
	Fingerprint string    `json:"fingerprint"`
	// Verdict is the word that the run is known by.
	Verdict string `json:"verdict"`
}

func sideOf(s rundir.Summary) Side {
	commit := s.Tool.Commit
	if s.Tool.Dirty {
		commit += " (with uncommitted changes)"
	}
	return Side{Run: s.Run.ID, Scenario: s.Run.Scenario, Profile: s.Run.Profile, Seed: s.Run.Seed,
		Repeats: s.Run.Repeats, Started: s.Run.Started, Fingerprint: s.Environment.Fingerprint,
		Tool: words.JoinNonEmpty(" ", s.Tool.Version, commit), Verdict: answer.VerdictWord(s)}
}

// Mismatch is something that differs between two runs whose times are compared.
type Mismatch struct {
	What      string `json:"what"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
	// Machine is set for what the runs stood on rather than what they did.
	Machine bool `json:"machine"`
}

// maxValue is how much of a value is shown where what differs is one line of text; pages and
// JSON have all of it.
const maxValue = 40

// values are both sides of a mismatch, cut.
func (m Mismatch) values() string {
	return words.OrNone(words.Short(m.Base, maxValue)) + " and " +
		words.OrNone(words.Short(m.Candidate, maxValue))
}

// difference is a line about what differs: one thing, or all of a store.
type difference struct {
	Mismatch
	text string
}

// differences are the lines about mismatches, one for each store.
func (c Comparison) differences(all []Mismatch) (lines []difference) {
	at := map[string]int{}
	for _, m := range all {
		store, setting, _ := strings.Cut(m.What, settingOf)
		text := fmt.Sprintf("%s differs: %s", words.OneLine(store), m.values())
		switch {
		case setting != "":
			text = fmt.Sprintf("%s differs: %s %s", words.OneLine(store), words.OneLine(setting), m.values())
		case m.Base == "":
			text = fmt.Sprintf("%s: only in %s", words.OneLine(m.What), words.OneLine(c.Candidate))
		case m.Candidate == "":
			text = fmt.Sprintf("%s: only in %s", words.OneLine(m.What), words.OneLine(c.Base))
		}
		if i, known := at[store]; known && m.Machine {
			lines[i].text += fmt.Sprintf("; %s %s", words.OneLine(setting), m.values())
			continue
		}
		at[store] = len(lines)
		lines = append(lines, difference{m, text})
	}
	return lines
}

// notComparable is the effect of a mismatch that nobody has allowed.
const notComparable = "not comparable"

// effect says what follows from a mismatch.
func (m Mismatch) effect(acrossMachines bool) string {
	if m.Machine && acrossMachines {
		return "compared all the same"
	}
	return notComparable
}

// Regression is a metric of a variant that got worse.
type Regression struct {
	Variant string `json:"variant"`
	rundir.Comparison
}

// String is the regression on one line, with its ratio and p.
func (r Regression) String() string {
	row := answer.ComparisonRows([]rundir.Comparison{r.Comparison})[0]
	what := row.Ratio + " of the base"
	if r.Ratio == 0 && r.Note != "" {
		what = r.Note
	}
	return fmt.Sprintf("%s: %s: %s, Holm p %s, n = %d", words.OneLine(r.Variant),
		words.OneLine(row.Metric),
		words.OneLine(what), words.OrNone(row.P), r.N)
}

// Worsened are the verdicts that are broken now. Those of invariants stand whatever the
// times are worth, if both runs are of one scenario and profile; objectives are about
// times. With acrossMachines, what the runs stood on may differ.
func (c Comparison) Worsened(acrossMachines bool) []VerdictChange {
	return c.changed(acrossMachines, check.Broken)
}

// changed are the verdicts that count and are no longer what they were.
func (c Comparison) changed(acrossMachines bool, to check.Status) (list []VerdictChange) {
	if a, b := c.Sides[0], c.Sides[1]; a.Scenario != b.Scenario || a.Profile != b.Profile {
		return nil
	}
	unlike := len(c.unlike(acrossMachines)) > 0
	for _, v := range c.Changes {
		if v.To == to && !v.Expected && !(v.Objective && unlike) {
			list = append(list, v)
		}
	}
	return list
}

// open are the verdicts that held and are not decided.
func (c Comparison) open(acrossMachines bool) (list []VerdictChange) {
	return slices.DeleteFunc(c.changed(acrossMachines, check.Undecided),
		func(v VerdictChange) bool { return v.From != check.Held })
}

// Undecided says why the comparison cannot tell whether anything regressed;
// empty means that it can: a regression that is shown is an answer, whatever else had too
// few repeats. With acrossMachines, what the runs stood on may differ.
func (c Comparison) Undecided(acrossMachines bool) []string {
	var why []string
	unlike, more := told(c.unlike(acrossMachines))
	for _, d := range c.differences(unlike) {
		why = append(why, d.text+andMore(more))
	}
	switch {
	case c.SameRun:
		return []string{sameRun}
	case len(c.Metrics) == 0:
		why = append(why, "the runs have no design in common")
	}
	if len(why) == 0 && len(c.Regressions) > 0 {
		return nil
	}
	for _, v := range c.open(acrossMachines) {
		why = append(why, v.String())
	}
	return append(why, c.Few...)
}

// Untimed says that nothing but the noise of the machine keeps the comparison from telling
// whether anything regressed: no design has clean times on both sides.
func (c Comparison) Untimed() bool {
	return !c.SameRun && c.Judged == 0 && len(c.Noisy)+len(c.WithoutTimes) > 0
}

// noise says of which designs times show no regression, a line each kind.
func (c Comparison) noise() (lines []string) {
	if len(c.Noisy) > 0 {
		lines = append(lines, fmt.Sprintf("noisy times, which show no regression: %s",
			words.List(lined(c.Noisy), 4)))
	}
	if len(c.WithoutTimes) > 0 {
		lines = append(lines, fmt.Sprintf("without times on both sides: %s",
			words.List(lined(c.WithoutTimes), 4)))
	}
	return lines
}

// lined makes names fit for a line each.
func lined(names []string) (list []string) {
	for _, name := range names {
		list = append(list, words.OneLine(name))
	}
	return list
}

// sameRun is what there is to say of two copies of one run.
const sameRun = "both are the same run"

// unlike is what keeps times from being compared. With acrossMachines, what the runs
// stood on may differ.
func (c Comparison) unlike(acrossMachines bool) (list []Mismatch) {
	for _, m := range c.Mismatches {
		if m.effect(acrossMachines) == notComparable {
			list = append(list, m)
		}
	}
	return list
}

// told are the mismatches that are listed: where the scenario differs, that one alone,
// for no other matters then; more counts the others.
func told(all []Mismatch) (list []Mismatch, more int) {
	i := slices.IndexFunc(all, func(m Mismatch) bool { return m.What == scenarioDiffers })
	if i < 0 {
		return all, 0
	}
	return all[i : i+1], len(all) - 1
}

// andMore ends a line about one mismatch.
func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// VerdictChange is an invariant or objective that is judged differently.
type VerdictChange struct {
	Variant string `json:"variant"`
	Name    string `json:"name"`
	// Objective says that it is an objective: it is about times.
	Objective bool         `json:"objective"`
	From      check.Status `json:"from"`
	To        check.Status `json:"to"`
	// Expected is set if both runs expected the variant to break this invariant, or
	// some invariant where it is an objective that changed.
	Expected bool `json:"expected"`
}

// String is the change on one line.
func (c VerdictChange) String() string {
	return fmt.Sprintf("%s: %s was %s, is %s", words.OneLine(c.Variant), words.OneLine(c.Name), c.From,
		c.To)
}

// VariantComparison compares one variant between two runs.
type VariantComparison struct {
	Variant string `json:"variant"`
	// KnownWrong is set for a variant that is expected to break invariants.
	KnownWrong  bool               `json:"known_wrong"`
	Comparisons []MetricComparison `json:"comparisons"`
}

// MetricComparison is a metric of a variant with its medians over the repeats on both
// sides: nanoseconds of a time, operations a second of a throughput.
type MetricComparison struct {
	rundir.Comparison
	BaseMedian      Median `json:"base_median"`
	CandidateMedian Median `json:"candidate_median"`
}

// Median is a number that may be infinite, or NaN if there is none. In JSON it is null
// then.
type Median float64

// MarshalJSON implements json.Marshaler.
func (m Median) MarshalJSON() ([]byte, error) {
	if v := float64(m); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// medianOf is a sample's median.
func medianOf(s stats.Sample) Median {
	if len(s.Values) == 0 {
		return Median(math.NaN())
	}
	return Median(stats.Median(s.Values))
}

// Runs compares a candidate run with a base run, variant by variant, with
// the repeats of each as samples. Runs whose environments differ in
// fingerprint are compared all the same, and flagged. A variant whose times are noisy on a
// side is compared as far as it differs by more than both runs' noise floors.
func Runs(base, candidate Labelled) Comparison {
	a, b := base.Data.Summary, candidate.Data.Summary
	c := Comparison{Base: base.Label, Candidate: candidate.Label,
		Sides:      [2]Side{sideOf(a), sideOf(b)},
		Mismatches: append(onMachine(a.Environment, b.Environment), mismatches(base, candidate)...),
		Metrics:    []VariantComparison{}}
	if c.SameRun = a.Run.ID != "" && a.Run.ID == b.Run.ID; c.SameRun {
		c.Mismatches = nil
		return c
	}
	floor := widerFloor(a.NoiseFloor, b.NoiseFloor)
	successes := stats.OfSuccesses(a.Variants) && stats.OfSuccesses(b.Variants)
	few := map[string][]string{} // the variants of which the same is said
	var reasons []string
	for _, va := range a.Variants {
		i := slices.IndexFunc(b.Variants, func(v rundir.Variant) bool { return v.Name == va.Name })
		if i < 0 {
			c.OnlyBase = append(c.OnlyBase, va.Name)
			continue
		}
		vb := b.Variants[i]
		c.Changes = append(c.Changes, changes(va, vb)...)
		sa, sb := stats.Samples(va, successes), stats.Samples(vb, successes)
		metrics := VariantComparison{Variant: va.Name, KnownWrong: len(vb.ExpectedBroken) > 0}
		for _, row := range stats.Family(base.Label, candidate.Label, sa, sb, a.Run.Seed) {
			metrics.Comparisons = append(metrics.Comparisons, MetricComparison{
				stats.AboveFloor(row, floor), medianOf(sampleOf(sa, row)), medianOf(sampleOf(sb, row))})
		}
		c.Metrics = append(c.Metrics, metrics)
		switch {
		case !metrics.timed():
			c.WithoutTimes = append(c.WithoutTimes, va.Name)
			continue
		case metrics.noisy():
			c.Noisy = append(c.Noisy, va.Name)
			continue
		case metrics.KnownWrong:
			continue
		}
		c.Judged++
		if why := c.judge(metrics, sa, sb); why != "" {
			if few[why] == nil {
				reasons = append(reasons, why)
			}
			few[why] = append(few[why], words.OneLine(va.Name))
		}
	}
	for _, why := range reasons {
		c.Few = append(c.Few, words.List(few[why], 3)+": "+why)
	}
	for _, vb := range b.Variants {
		if !slices.ContainsFunc(a.Variants, func(v rundir.Variant) bool { return v.Name == vb.Name }) {
			c.OnlyCandidate = append(c.OnlyCandidate, vb.Name)
		}
	}
	return c
}

// timed says that both sides have times; noisy that those of a side are noisy.
func (v VariantComparison) timed() bool {
	return slices.ContainsFunc(v.Comparisons, func(m MetricComparison) bool { return m.N > 0 })
}

func (v VariantComparison) noisy() bool {
	return slices.ContainsFunc(v.Comparisons, func(m MetricComparison) bool { return m.Approximate })
}

// widerFloor is the higher of two noise floors, nil if there is none.
func widerFloor(a, b *rundir.NoiseFloor) *rundir.NoiseFloor {
	if b == nil || a != nil && a.Of("") > b.Of("") {
		return a
	}
	return b
}

// judge finds what got worse in a variant, or says why it never could.
func (c *Comparison) judge(v VariantComparison, base, candidate []stats.Sample) string {
	for _, row := range v.Comparisons {
		a, b := sampleOf(base, row.Comparison), sampleOf(candidate, row.Comparison)
		if n, m := len(a.Values), len(b.Values); !stats.CanShow(n, m, len(v.Comparisons)) {
			return fmt.Sprintf("%d and %d repeats can never show a regression in %d metrics, "+
				"%d a side can", n, m, len(v.Comparisons), stats.LeastRepeats(len(v.Comparisons)))
		}
		if row.Significant && row.Large && stats.Worse(a, b) {
			c.Regressions = append(c.Regressions, Regression{v.Variant, row.Comparison})
		}
	}
	return ""
}

// sampleOf is the sample that a comparison was made from.
func sampleOf(samples []stats.Sample, c rundir.Comparison) stats.Sample {
	i := slices.IndexFunc(samples, func(s stats.Sample) bool {
		return s.Metric == c.Metric && s.Op == c.Op
	})
	return samples[i]
}

// differing describes two values that should be equal, if they are not.
func differing(what, x, y string) []Mismatch {
	if x == y {
		return nil
	}
	return []Mismatch{{What: what, Base: x, Candidate: y}}
}

// onMachine is Environments where fingerprints differ; one that differs in nothing that is
// named is named itself. A simulation is no machine that a measured run may be compared with.
func onMachine(a, b rundir.Environment) []Mismatch {
	if a.Fingerprint == b.Fingerprint {
		return nil
	}
	if a.Simulated() != b.Simulated() {
		return differing("the kind of times", kindOfTimes(a), kindOfTimes(b))
	}
	list := Environments(a, b)
	if len(list) == 0 {
		list = differing("environment fingerprint", a.Fingerprint, b.Fingerprint)
	}
	for i := range list {
		list[i].Machine = true
	}
	return list
}

func kindOfTimes(e rundir.Environment) string {
	if e.Simulated() {
		return "simulated"
	}
	return "measured"
}

// Environments lists what differs in what runs stood on, without the settings of a store that
// one run alone had.
func Environments(a, b rundir.Environment) (list []Mismatch) {
	x, y := standsOn(a), standsOn(b)
	for _, f := range y {
		if !slices.ContainsFunc(x, func(g words.Fact) bool { return g.Term == f.Term }) {
			x = append(x, words.Fact{Term: f.Term})
		}
	}
	for _, f := range x {
		if store, _, setting := strings.Cut(f.Term, settingOf); setting {
			_, before := a.Components[store]
			_, after := b.Components[store]
			if before != after {
				continue
			}
		}
		other := slices.IndexFunc(y, func(g words.Fact) bool { return g.Term == f.Term })
		value := ""
		if other >= 0 {
			value = y[other].Value
		}
		list = append(list, differing(f.Term, f.Value, value)...)
	}
	return list
}

// settingOf is between the name of a store and that of its setting.
const settingOf = ": "

// standsOn is all that a fingerprint is made of.
func standsOn(e rundir.Environment) []words.Fact {
	facts := words.Known(
		words.Fact{Term: "backend", Value: e.Backend},
		words.Fact{Term: "operating system", Value: e.OS},
		words.Fact{Term: "kernel", Value: e.Kernel},
		words.Fact{Term: "CPU", Value: e.CPU},
		words.Fact{Term: "cores", Value: words.Positive(e.Cores)},
		words.Fact{Term: "memory in GiB", Value: words.Positive(int(e.MemoryBytes >> 30))},
		words.Fact{Term: "frequency governor", Value: e.Governor},
		words.Fact{Term: "limit of cores", Value: answer.LimitOfCores(e)},
		words.Fact{Term: "limit of memory", Value: words.SizeOf(e.MemoryLimitBytes)},
		words.Fact{Term: "TCP proxy before the stores", Value: words.YesNo(e.Proxied)},
		words.Fact{Term: "deployment", Value: e.Deploy},
		words.Fact{Term: "generators", Value: e.Generators},
	)
	for _, name := range words.SortedKeys(e.Components) {
		c := e.Components[name]
		facts = append(facts, words.Fact{Term: name, Value: words.JoinNonEmpty(" ", c.Kind, c.Version)})
		for _, key := range words.SortedKeys(c.Settings) {
			value, _ := answer.SettingText(c.Settings[key])
			facts = append(facts, words.Fact{Term: name + settingOf + key, Value: value})
		}
	}
	return facts
}

// mismatches lists what else must be equal for times to be comparable.
func mismatches(base, candidate Labelled) (list []Mismatch) {
	a, b := base.Data.Summary.Run, candidate.Data.Summary.Run
	list = append(list, differing(scenarioDiffers, a.Scenario, b.Scenario)...)
	list = append(list, differing("profile", a.Profile, b.Profile)...)
	list = append(list, differing("scenario digest", words.Short(a.ScenarioDigest, 13),
		words.Short(b.ScenarioDigest, 13))...)
	if x, y := base.Data.Scenario, candidate.Data.Scenario; a.ScenarioDigest != b.ScenarioDigest {
		list = append(list, differing("scenario text", linesOnlyIn(x, y), linesOnlyIn(y, x))...)
	}
	list = append(list, differing("seed", strconv.FormatUint(a.Seed, 10),
		strconv.FormatUint(b.Seed, 10))...)
	list = append(list, differing("arrival digest", words.Short(a.ArrivalDigest, 13),
		words.Short(b.ArrivalDigest, 13))...)
	return list
}

// maxLines is how many lines of a scenario are said to differ.
const maxLines = 6

// linesOnlyIn are the lines of a text that another one does not have, the first few.
func linesOnlyIn(text, other string) string {
	known := map[string]bool{}
	for line := range strings.Lines(other) {
		known[strings.TrimSpace(line)] = true
	}
	var only []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !known[line] {
			only = append(only, strings.TrimPrefix(line, "- "))
		}
	}
	return words.List(only, maxLines)
}

// scenarioDiffers makes all other mismatches not worth telling.
const scenarioDiffers = "scenario"

func changes(a, b rundir.Variant) (list []VerdictChange) {
	for _, x := range a.Invariants {
		for _, y := range b.Invariants {
			if x.Invariant == y.Invariant && x.Status != y.Status && !x.NotJudged() && !y.NotJudged() {
				expected := slices.Contains(a.ExpectedBroken, x.Invariant) &&
					slices.Contains(b.ExpectedBroken, x.Invariant)
				promise := x.OnlyLate() || y.OnlyLate()
				list = append(list, VerdictChange{a.Name, x.Invariant, promise, x.Status, y.Status,
					expected})
			}
		}
	}
	expected := len(a.ExpectedBroken) > 0 && len(b.ExpectedBroken) > 0
	for _, x := range a.SLOs {
		for _, y := range b.SLOs {
			if x.Name == y.Name && x.Status != y.Status && !x.NotJudged && !y.NotJudged {
				list = append(list, VerdictChange{a.Name, x.Name, true, x.Status, y.Status, expected})
			}
		}
	}
	return list
}

// Text writes comparisons of candidates with one base: first why each
// may not count, then verdicts that changed, then the ratios with
// their marks. With acrossMachines, what the runs stood on may differ.
func Text(w io.Writer, acrossMachines bool, comparisons ...Comparison) error {
	var out bytes.Buffer
	for i, c := range comparisons {
		if i > 0 {
			out.WriteByte('\n')
		}
		compareText(&out, c, acrossMachines)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func compareText(out *bytes.Buffer, c Comparison, acrossMachines bool) {
	fmt.Fprintf(out, "%s against %s\n", words.OneLine(c.Candidate), words.OneLine(c.Base))
	if c.SameRun {
		out.WriteString("= " + sameRun + "\n")
		return
	}
	listed, more := told(c.Mismatches)
	for _, d := range c.differences(listed) {
		sayLine(out, fmt.Sprintf("! %s: %s%s", d.effect(acrossMachines), d.text, andMore(more)))
	}
	for _, change := range c.Changes {
		sayLine(out, fmt.Sprintf("%s %s", change.mark().Icon, change))
	}
	for _, line := range c.Only() {
		sayLine(out, words.OneLine(line))
	}
	compareTable(out, c, len(c.unlike(acrossMachines)) > 0)
}

// compareColumns is how wide a comparison is as text.
const compareColumns = 100

// sayLine writes a line, broken at its words where it is too long. A part of it that a log
// would obey at the beginning of a line is no order.
func sayLine(out *bytes.Buffer, text string) {
	for i, part := range plain.Wrap(text, compareColumns-2) {
		if i > 0 {
			out.WriteString("  ")
		}
		out.WriteString(plain.Line(part) + "\n")
	}
}

func compareTable(out *bytes.Buffer, c Comparison, unlike bool) {
	if len(c.Metrics) == 0 {
		out.WriteString("no design in common\n")
		return
	}
	for _, line := range c.noise() {
		sayLine(out, "≈ "+line)
	}
	var metrics []metricRow
	for _, v := range c.Metrics {
		metrics = append(metrics, metricRows(v)...)
	}
	if len(metrics) == 0 {
		return
	}
	all := commonMarks(metrics)
	rows := [][]string{{"DESIGN", "METRIC", "BASE", "CANDIDATE", "RATIO", "95 % CI", "EXACT p",
		"HOLM p", "n", "MARKS"}}
	for _, m := range metrics {
		_, own := words.Split(m.marks(), func(mark string) bool { return slices.Contains(all, mark) })
		rows = append(rows, []string{words.OneLine(m.Variant), words.OneLine(m.Metric), m.Base,
			m.Candidate, m.Ratio, words.OrNone(m.Interval), m.PExact, m.PHolm, fmt.Sprint(m.N),
			words.OrNone(strings.Join(own, ", "))})
	}
	out.WriteString("\n" + strings.Join(fittingLines(words.Telling(rows)), "\n") + "\n\n")
	if len(all) > 0 {
		sayLine(out, "all rows: "+strings.Join(all, ", "))
	}
	tellNotes(out, metrics)
	if slices.ContainsFunc(metrics, func(m metricRow) bool { return m.of.PHolm != nil }) {
		sayLine(out, "significant: exact Mann-Whitney, p < 0.05 after Holm's correction over the "+
			"metrics of a design; large: 5 % or more")
	} else {
		sayLine(out, "large: 5 % or more")
	}
	if unlike {
		return
	}
	for _, r := range c.Regressions {
		sayLine(out, "regression: "+r.String())
	}
}

// fittingLines are rows in line, without the columns that matter least where all are too wide.
func fittingLines(rows [][]string) []string {
	lines := words.Aligned(rows, len(rows[0]))
	for _, name := range []string{"EXACT p", "95 % CI", "n"} {
		if words.Widest(lines) <= compareColumns {
			break
		}
		if column := slices.Index(rows[0], name); column >= 0 {
			for i := range rows {
				rows[i] = slices.Delete(rows[i], column, column+1)
			}
			lines = words.Aligned(rows, len(rows[0]))
		}
	}
	return lines
}

// tellNotes writes each note once, with the rows that it is about unless it is about all.
func tellNotes(out *bytes.Buffer, metrics []metricRow) {
	about := map[string][]string{}
	var notes []string
	for _, m := range metrics {
		if m.Note == "" {
			continue
		}
		if about[m.Note] == nil {
			notes = append(notes, m.Note)
		}
		about[m.Note] = append(about[m.Note], words.OneLine(m.Variant)+" "+words.OneLine(m.Metric))
	}
	for _, note := range notes {
		which := words.List(about[note], 3)
		if len(about[note]) == len(metrics) {
			which = "all rows"
		}
		sayLine(out, which+": "+words.OneLine(note))
	}
}

// metricRow is one line of a comparison, formatted.
type metricRow struct {
	answer.ComparisonRow
	Variant, Base, Candidate string
	of                       MetricComparison
}

// metricRows leaves out what has no numbers on a side.
func metricRows(v VariantComparison) (rows []metricRow) {
	for _, m := range v.Comparisons {
		if m.N == 0 {
			continue
		}
		rows = append(rows, metricRow{answer.ComparisonRows([]rundir.Comparison{m.Comparison})[0],
			v.Variant, m.BaseMedian.text(m.Metric), m.CandidateMedian.text(m.Metric), m})
	}
	return rows
}

// text is a median of a metric with its unit.
func (m Median) text(metric string) string {
	if metric == "throughput" {
		return words.Rate(float64(m))
	}
	return words.Seconds(float64(m) / 1e9)
}

// marks are the two separate marks of a ratio, and that a side is noisy.
func (r metricRow) marks() (list []string) {
	if r.of.Approximate {
		list = append(list, "≈ noisy")
	}
	if r.Significant {
		list = append(list, "significant")
	}
	if r.Large {
		list = append(list, "large")
	}
	return list
}

// Marks are all of them.
func (r metricRow) Marks() string { return strings.Join(r.marks(), ", ") }

// commonMarks are the marks that all rows have, none of a single row.
func commonMarks(rows []metricRow) []string {
	if len(rows) < 2 {
		return nil
	}
	return slices.DeleteFunc(rows[0].marks(), func(mark string) bool {
		return slices.ContainsFunc(rows, func(r metricRow) bool {
			return !slices.Contains(r.marks(), mark)
		})
	})
}
