package judge

import (
	"fmt"
	"slices"
	"strings"

	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// The assumptions about what happened, beside the faults' and those of measure.Gate. All of
// them are evidence.
const (
	finishedName = "finished"
	historyName  = "history"
	emptyName    = "empty"
	storesName   = "stores"
)

// ownFailures are the assumptions that fail by stampede's own doing.
var ownFailures = []string{measure.AccountingName, historyName, measure.ScheduleName}

// missing are the assumptions about evidence that do not hold.
func missing(r rundir.Repeat) (list []rundir.Validity) {
	for _, v := range r.Validity {
		if !v.OK && v.Class == rundir.Evidence {
			list = append(list, v)
		}
	}
	return list
}

// failedItself says that stampede failed in a repeat that came to its end.
func failedItself(missing []rundir.Validity) bool {
	own := false
	for _, v := range missing {
		if v.Name == finishedName {
			return false
		}
		own = own || slices.Contains(ownFailures, v.Name)
	}
	return own
}

// finished is the assumption that a repeat came to its end.
func finished(t Trial) rundir.Validity {
	v := rundir.Validity{Name: finishedName, OK: true, Detail: "the repeat finished"}
	switch {
	case t.Error != "":
		v.OK, v.Detail = false, t.Error
	case t.Interrupted:
		v.OK, v.Detail = false, "the load was stopped before its end"
	}
	return v
}

// assumptions are what must be so for the numbers and verdicts of a repeat to
// mean anything, beside what measure.Gate judges.
func (j *Judge) assumptions(h *history.File, t Trial, res *measure.Result) []rundir.Validity {
	out := []rundir.Validity{finished(t), wholeHistory(h, t), exercised(j.kinds(), res),
		j.enough(res.Recorded)}
	if v, asked := startedEmpty(t); asked {
		out = append(out, v)
	}
	if t.StoresAsked {
		out = append(out, steadyStores(t))
	}
	if len(t.Generators) > 0 {
		out = append(out, oneClock(t))
	}
	for _, f := range j.scenario.Faults {
		out = append(out, fired(f, Feels(j.variant(t.Variant), f), h.Faults()))
	}
	for i := range out {
		out[i] = evidence(out[i])
	}
	return out
}

// raced: operations competed for the same objects, so that what concurrency could break
// had occasion to.
func raced(r rundir.Races) rundir.Validity {
	return rundir.Validity{Name: rundir.Raced, OK: r.Raced >= r.Least, Detail: fmt.Sprintf(
		"%d of %d successful operations (%s) overlapped another one on the same key (at least %d), "+
			"up to %d at once", r.Raced, r.Successful, strings.Join(r.Kinds, ", "), r.Least, r.Peak)}
}

// evidence marks an assumption as one about evidence.
func evidence(v rundir.Validity) rundir.Validity {
	v.Class = rundir.Evidence
	return v
}

func wholeHistory(h *history.File, t Trial) rundir.Validity {
	v := rundir.Validity{Name: historyName, Detail: "every record is there, once and in order"}
	switch _, err := history.Validate(h); {
	case t.Lost > 0:
		v.Detail = fmt.Sprintf("%d records could not be written", t.Lost)
	case !h.Complete():
		v.Detail = fmt.Sprintf("it is cut short by %d bytes or more", h.Truncated())
	case err != nil:
		v.Detail = err.Error()
	default:
		v.OK = true
	}
	return v
}

// exercised: the main operation, the first of the kinds, succeeded at least once. The
// warm-up counts: what happened in it is judged too, and only its times are left out.
func exercised(kinds []string, res *measure.Result) rundir.Validity {
	v := rundir.Validity{Name: rundir.Exercised, Detail: "no operation succeeded"}
	if len(kinds) == 0 {
		return v
	}
	warm, _ := res.Tally(kinds[0], WarmUp)
	steady, _ := res.Tally(kinds[0], "run")
	v.OK = warm.OK+steady.OK > 0
	v.Detail = fmt.Sprintf("%d %s operations succeeded (at least 1)", warm.OK+steady.OK, kinds[0])
	return v
}

// minShare is the part of the planned operations that must be answered where a
// scenario does not say how many.
const minShare = 0.1

// enough: so many operations were answered, those of the warm-up included, that what was
// not violated means something. Dropped ones and those without an answer exercised nothing
// for certain.
func (j *Judge) enough(l rundir.Load) rundir.Validity {
	least := j.leastOperations()
	answered := l.OK + l.Refused
	return rundir.Validity{Name: rundir.Operations, OK: answered >= least,
		Detail: fmt.Sprintf("%d operations were answered (at least %d)", answered, least)}
}

// leastOperations is the least number of answers of a valid repeat, 1 or more.
func (j *Judge) leastOperations() int64 {
	l := j.scenario.Load
	if l.MinOperations > 0 {
		return int64(l.MinOperations)
	}
	if l.Users > 0 {
		return int64(l.Users)
	}
	process, err := l.Arrival.Schedule()
	if err != nil {
		return 1 // decoding has refused such a load
	}
	return max(1, int64(minShare*process.Mean()))
}

// startedEmpty: nothing had been done to the instance before the load. What
// cannot be asked is not judged.
func startedEmpty(t Trial) (v rundir.Validity, asked bool) {
	v = rundir.Validity{Name: emptyName, OK: true, Detail: "the stores were empty before the load"}
	if t.Empty == NotEmpty {
		v.OK, v.Detail = false, "the stores were not empty before the load: "+t.Found
	}
	return v, t.Empty == Empty || t.Empty == NotEmpty
}

// steadyStores: no store was started anew but by a fault, and each answered in
// the end.
func steadyStores(t Trial) rundir.Validity {
	v := rundir.Validity{Name: storesName, OK: t.StoreTrouble == "", Detail: t.StoreTrouble}
	if v.OK {
		v.Detail = "no store restarted without a fault, and each answered after the load"
	}
	return v
}

// fired: a fault left evidence in its window. A fault of a store that the
// variant does not use is injected all the same, so that all variants have
// the same windows, but need not show; nor need one of a role that it does not
// have.
func fired(f scenario.Fault, hit bool, faults []history.Window) rundir.Validity {
	v := rundir.Validity{Name: rundir.FaultAssumption + f.Name, OK: !hit, Detail: "it did not happen"}
	if !hit {
		v.Detail = "the design does not use " + f.Target
		if !sut.Service(f.Target).Store() {
			v.Detail = "the design has no such " + f.Target
		}
	}
	for _, w := range faults {
		switch {
		case w.Name != f.Name:
		case len(w.Evidence) > 0:
			v.OK, v.Detail = true, w.Evidence[0]
		case hit:
			v.Detail = "there is no evidence that it happened"
		}
	}
	return v
}
