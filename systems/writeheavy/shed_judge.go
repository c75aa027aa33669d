package writeheavy

import (
	"maps"
	"slices"
)

// attempts are what the log of a design that sheds has of an add.
type attempts struct{ taken, refused, dropped int }

// shedAsTold compares the log of a design that sheds with what its clients were told, and follows
// the order of its decisions.
func shedAsTold(j judged) {
	if j.Decisions == nil {
		j.Checked(1)
		told := 0
		for _, sent := range j.truth.asked {
			told += sent.told
		}
		j.NeedTimely(!j.Contract.Sheds && told == 0, "no single process has the log of what was shed")
		if told == 0 {
			j.Note("nothing is shed")
		}
		return
	}
	log, shed := map[uint64]attempts{}, map[string]int{}
	for _, d := range j.Decisions {
		a := log[d.ID]
		switch d.Result {
		case DecisionTaken:
			a.taken++
		case DecisionRefused:
			a.refused++
			shed[d.Class]++
		default:
			a.dropped++
			shed[d.Class]++
		}
		log[d.ID] = a
		if class := j.truth.classes[d.ID]; class != d.Class {
			j.Violate([]uint64{d.ID}, "an add of class %q was sent as operation %d, and is in the log as %q",
				class, d.ID, d.Class)
		}
	}
	for id := range j.truth.asked {
		if _, there := log[id]; !there {
			log[id] = attempts{}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(log)) {
		j.Checked(1)
		j.toldOf(id, log[id])
	}
	j.classesKept()
	j.NeedTimely(len(shed) > 0, "nothing was shed")
	j.Note("of %d decisions %d refused adds of class high, %d of normal and %d of low",
		len(j.Decisions), shed[ClassHigh], shed[ClassNormal], shed[ClassLow])
}

// toldOf compares the attempts at an add: there are as many decisions as attempts at most, and none
// that was shed is answered as done. One that was not answered, or failed otherwise, may have been
// taken or shed.
func (j judged) toldOf(id uint64, log attempts) {
	sent, began, shed := j.truth.asked[id], log.taken-log.dropped, log.refused+log.dropped
	switch {
	case log.taken+log.refused > sent.attempts:
		j.Violate([]uint64{id}, "operation %d was sent %d times, and decided on %d times", id,
			sent.attempts, log.taken+log.refused)
	case sent.done > began:
		j.Violate([]uint64{id}, "operation %d was answered %d times as done, and let in %d times", id,
			sent.done, began)
	case sent.told > shed:
		j.Violate([]uint64{id}, "operation %d was told %d times that it is shed, and was shed %d times",
			id, sent.told, shed)
	}
}

// classesKept follows the decisions in their order: between two adds of a class that are refused,
// if none of it or of a more important class is taken, less important ones are taken up to their
// burst.
func (j judged) classesKept() {
	bursts := j.Contract.Bursts
	if len(bursts) == 0 {
		return
	}
	declared, most := slices.Max(bursts), int64(j.p.shedBurst())
	j.Need(declared <= most, "the audit declares bursts of %d adds; the most allowed is %d", declared,
		most)
	if declared > most {
		return
	}
	compared := 0
	for class := range bursts {
		refused, taken := uint64(0), map[int][]uint64{}
		for _, d := range j.Decisions {
			is := classes[d.Class]
			switch {
			case d.Result == DecisionTaken && is <= class:
				refused = 0
			case d.Result == DecisionTaken:
				taken[is] = append(taken[is], d.ID)
			case d.Result != DecisionRefused || is != class:
			case refused == 0:
				refused = d.ID
				clear(taken)
			default:
				compared++
				j.inverted(refused, d, taken)
			}
		}
	}
	j.Checked(compared)
	j.NeedTimely(compared > 0, "no class was refused twice before anything of it was taken")
}

// inverted looks at what was taken between two adds of a class that were refused.
func (j judged) inverted(first uint64, last Decision, taken map[int][]uint64) {
	for class, most := range j.Contract.Bursts {
		if ids := taken[class]; int64(len(ids)) > most {
			j.Violate([]uint64{first, ids[0], last.ID}, "operations %d and %d of class %s were refused, "+
				"and %d less important ones taken in between; %d may be", first, last.ID, last.Class, len(ids),
				most)
		}
	}
}
