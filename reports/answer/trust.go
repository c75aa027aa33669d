package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stampede/harness/plain"
	"stampede/harness/rundir"
	"stampede/reports/words"
)

// ValidityPart are the assumptions of one class.
type ValidityPart struct {
	Title, What string
	// Failed says which assumptions failed, of how many designs, and why of the first.
	Failed  []string
	Summary string
	Details []validityDetail
}

// validityDetail is an assumption as it was of one or more designs.
type validityDetail struct {
	Name string
	Mark words.Mark
	// Letters are the designs', none if they are all that there are.
	Letters []string
	// Count is in how many of the repeats it held.
	Count, Detail string
	// first is the name of the first of the designs, designs how many there are. The
	// assumption held in ok of all repeats.
	first            string
	designs, ok, all int
}

// ValidityOf has the assumptions about the evidence, which decide whether there is an answer
// about correctness, and those about the times, which decide whether they can be used.
func ValidityOf(standings []Standing) (parts []ValidityPart) {
	for _, part := range []struct{ class, title, good, bad string }{
		{rundir.Evidence, "Evidence", "All evidence for the correctness verdict is present.",
			"Where one of these fails there is no answer about correctness."},
		{rundir.Times, "Times", "Nothing interfered with the times.", "Where one of these fails, the " +
			"machine interfered: times are marked ≈, and correctness is judged all the same."},
	} {
		details := validityDetails(standings, part.class)
		if len(details) == 0 {
			continue
		}
		p := ValidityPart{Title: part.title, What: part.good, Details: details,
			Failed: failedLines(details, len(standings))}
		if len(p.Failed) > 0 {
			p.What = part.bad
		}
		p.Summary = fmt.Sprintf("All %s with their numbers and limits", words.Plural(namesIn(details),
			"assumption"))
		parts = append(parts, p)
	}
	return parts
}

// namesIn counts the assumptions.
func namesIn(details []validityDetail) int {
	names := map[string]bool{}
	for _, d := range details {
		names[d.Name] = true
	}
	return len(names)
}

// validityDetails has the designs of which an assumption says the same in one row.
func validityDetails(standings []Standing, class string) (details []validityDetail) {
	for _, name := range validityNames(standings, class) {
		from, judged := len(details), 0
		for _, st := range standings {
			one, known := validityOfDesign(st.Repeats, class, name)
			if !known {
				continue
			}
			judged++
			same := slices.IndexFunc(details[from:], func(d validityDetail) bool {
				return d.Mark == one.Mark && d.Detail == one.Detail
			})
			if same < 0 {
				same = len(details) - from
				if one.first = st.Letter + " " + st.Name; len(standings) == 1 {
					one.first = st.Name
				}
				details = append(details, validityDetail{Name: one.Name, Mark: one.Mark,
					Detail: one.Detail, first: one.first})
			}
			d := &details[from+same]
			d.Letters, d.designs = append(d.Letters, st.Letter), d.designs+1
			d.ok, d.all = d.ok+one.ok, d.all+one.all
			d.Count = fmt.Sprintf("%d/%d", d.ok, d.all)
		}
		if last := len(details) - 1; last == from && judged == len(standings) {
			details[last].Letters = nil
		}
	}
	return details
}

// validityNames are the assumptions of a class, in the order in which they are judged.
func validityNames(standings []Standing, class string) (names []string) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			for _, v := range r.Validity {
				if v.Class == class {
					names = words.With(names, v.Name)
				}
			}
		}
	}
	return names
}

// validityOfDesign counts the repeats in which an assumption held and quotes the first one
// in which it did not; false if it was not judged in any.
func validityOfDesign(
	repeats []rundir.Repeat, class, name string,
) (d validityDetail, known bool) {
	first, failed := "", ""
	d = validityDetail{Name: name, Mark: words.Mark{Icon: "✓", Word: "holds", Class: "good"}}
	for _, r := range repeats {
		for _, v := range r.Validity {
			if v.Name != name {
				continue
			}
			d.all++
			first = cmp.Or(first, v.Detail)
			if v.OK {
				d.ok++
			} else {
				failed = cmp.Or(failed, v.Detail)
			}
		}
	}
	d.Detail = cmp.Or(failed, first)
	if d.ok < d.all {
		d.Mark = words.Mark{Icon: "✗", Word: "fails", Class: "bad"}
		if class == rundir.Times {
			d.Mark = words.Mark{Icon: "≈", Word: "interfered", Class: "na"} // it makes no design wrong
		}
	}
	return d, d.all > 0
}

// failedLines has one line for each assumption that failed.
func failedLines(details []validityDetail, all int) (lines []string) {
	for i, d := range details {
		if d.ok == d.all || slices.ContainsFunc(details[:i], func(e validityDetail) bool {
			return e.Name == d.Name && e.ok < e.all
		}) {
			continue
		}
		designs := 0
		for _, e := range details[i:] {
			if e.Name == d.Name && e.ok < e.all {
				designs += e.designs
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s%s: %s", d.Name, howMany(designs, all), d.first,
			d.Detail))
	}
	return lines
}

// howMany introduces the first of several designs; one alone needs no introduction.
func howMany(n, all int) string {
	switch n {
	case 1:
		return ""
	case all:
		return fmt.Sprintf("all %d designs; the first, ", n)
	}
	return fmt.Sprintf("%d of %d designs; the first, ", n, all)
}

// ofAssumption says whether a reason for a design's verdict is an assumption that failed,
// which the page says once for all designs.
func ofAssumption(v rundir.Variant, reason string) bool {
	return slices.ContainsFunc(v.Repeats, func(r rundir.Repeat) bool {
		return slices.ContainsFunc(r.Validity, func(a rundir.Validity) bool {
			return !a.OK && strings.HasSuffix(reason, strings.TrimSpace(a.Name+": "+a.Detail))
		})
	})
}

// otherReasons are the reasons for a design's verdict that are no failed assumptions.
func otherReasons(v rundir.Variant) (list []string) {
	for _, reason := range v.Reasons {
		if !ofAssumption(v, reason) {
			list = append(list, strings.Replace(reason, "violated as expected: ", wordCaught+": ", 1))
		}
	}
	return list
}

// FloorText says how far the baseline differed from itself, and where in the run it ran; ""
// if it ran but once.
func FloorText(f *rundir.NoiseFloor, standings []Standing) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%s%s differed from itself by %s at p50 and by %s at p99. Designs that "+
		"differ by less, or by less than %s, are not told apart.", f.Variant,
		placesOf(f.Variant, standings), words.Times(f.P50), words.Times(f.P99), words.Times(1+
			rundir.QuietShare))
}

// placesOf says as which of all repeats a design ran, with a space before: " ran 4th and, for
// comparison with itself, 7th of 7 repeats, and".
func placesOf(design string, standings []Standing) string {
	var own, control []int
	all := 0
	for _, st := range standings {
		for _, r := range st.Repeats {
			all++
			switch {
			case st.Name != design:
			case r.Control:
				control = append(control, r.Order+1)
			default:
				own = append(own, r.Order+1)
			}
		}
	}
	if len(own) == 0 || len(control) == 0 {
		return ""
	}
	return fmt.Sprintf(" ran %s and, for comparison with itself, %s of %s, and", ordinals(own),
		ordinals(control), words.Plural(all, "repeat"))
}

// ordinals are places in order: "1st, 5th and 9th".
func ordinals(places []int) string {
	slices.Sort(places)
	var texts []string
	for _, n := range places {
		texts = append(texts, plain.Ordinal(n))
	}
	return words.List(texts, 6)
}

// attemptOf says what a repeat is for.
func attemptOf(r rundir.Repeat) string {
	text := "times not used"
	switch {
	case r.Control:
		text = "baseline again"
	case r.Used:
		text = "times used"
	}
	if r.Again != nil {
		text += fmt.Sprintf("; repeats %d", *r.Again+1)
	}
	return text
}

// RepeatRow is one execution of one variant.
type RepeatRow struct {
	Letter, Variant string
	Repeat, Order   int
	Mark, Timing    words.Mark
	// Attempt says what kind of repeat it is: one whose times are used, one that was run
	// again, the second run of the baseline.
	Attempt                          string
	P50, P99, Throughput, CPU, Lag   string
	Scheduled, Dropped, Drain, Error string
}

// repeatMark is the mark of a repeat: that a control passes says what it broke, or that
// nothing provoked it.
func (st Standing) repeatMark(r rundir.Repeat) words.Mark {
	switch {
	case r.Verdict != rundir.Pass || !st.Control():
		return VerdictMark(r.Verdict)
	case len(st.ExpectedBroken) == 0:
		return st.Mark()
	}
	for _, name := range st.ExpectedBroken {
		if !inEveryRepeat([]rundir.Repeat{r}, name) {
			return markTable[wordMissed]
		}
	}
	return markTable[wordCaught]
}

// RepeatRows lists every repeat of every design.
func RepeatRows(standings []Standing) (rows []RepeatRow) {
	for _, st := range standings {
		for _, r := range st.Repeats {
			response, _ := MainResponse(r, st)
			row := RepeatRow{
				Letter: st.Letter, Variant: st.Name, Repeat: r.Index + 1, Order: r.Order + 1,
				Mark: st.repeatMark(r), Timing: TimingMark(r.Timing), Attempt: attemptOf(r),
				P50: words.Percentile(response, response.P50), P99: words.Percentile(response, response.P99),
				Throughput: words.None, CPU: words.None, Lag: words.None, Scheduled: words.None,
				Dropped: words.None, Drain: words.None,
				Error: r.Error,
			}
			// A repeat that failed, or was interrupted, has zero where nobody measured.
			if r.Error == "" || r.Load.Scheduled > 0 {
				row.Throughput = strings.TrimSuffix(words.Rate(r.ThroughputPerS), "/s")
				row.Scheduled, row.Dropped = words.Grouped(r.Load.Scheduled), words.Grouped(r.Load.Dropped)
			}
			if r.Generator.CPUCores > 0 {
				row.CPU = words.Significant(min(r.Generator.CPUCores, 999))
			}
			if r.Generator.LagP99NS > 0 {
				row.Lag = words.Latency(r.Generator.LagP99NS)
			}
			for _, cell := range []*string{&row.P50, &row.P99, &row.Throughput} {
				if r.Timing == rundir.Noisy && *cell != words.None {
					*cell = "≈ " + *cell
				}
			}
			if r.DrainNS > 0 {
				row.Drain = words.Latency(r.DrainNS)
			}
			rows = append(rows, row)
		}
	}
	return rows
}
