package suttest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// noticeRuns is how many runs are corrupted in one way until an invariant notices it.
const noticeRuns = 25

// blind is a corruption of a run that knows nothing of the system. See Corruption.Do.
type blind struct {
	name string
	do   func(records []history.Record, audit reflect.Value, pick func(n int) int) bool
}

// noticed corrupts runs blindly: the answer to an operation is denied, invented, or exchanged
// with another one's, or it was another client's or about another key; what is in an answer is
// another value; an element of a list of the audit is dropped or doubled, and each field of it is
// exchanged with another element's, or raised and lowered. Some invariant must notice each of
// these in one of many runs, or else Unnoticed says why none can; before that nothing is wrong
// with any of the runs. Those that notice one are added to broken.
func (p Proof[E]) noticed(t *testing.T, broken map[string]bool) {
	if p.Parts == nil {
		t.Fatal("the proof has no Parts, so that nothing is corrupted blindly")
	}
	run, known := rapid.Custom(p.Some), map[string]bool{}
	for seed := 1; seed <= noticeRuns; seed++ {
		if before := map[string]bool{}; notices(p.Judge(run.Example(seed), t), before) {
			t.Fatalf("run %d is broken before it is corrupted, or cannot be read: %v", seed, before)
		}
	}
	records, audit := p.Parts(run.Example(1))
	for _, c := range slices.Concat(ofRecords(records), inAnswers(records),
		ofLists(reflect.TypeOf(audit).Elem(), nil)) {
		known[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			done, noticed := 0, false
			seeds, most := p.runs(c.name)
			for seed := 1; seed <= seeds && done < most && !noticed; seed++ {
				e := run.Example(seed)
				records, audit := p.Parts(e)
				pick := rand.New(rand.NewPCG(uint64(seed), 3)).IntN
				if c.do(records, reflect.ValueOf(audit).Elem(), pick) {
					done++
					noticed = notices(p.Judge(e, t), broken)
				}
			}
			if text := p.unexpected(c.name, done, noticed); text != "" {
				t.Error(text)
			}
		})
	}
	for _, byReason := range []map[string][]string{p.Unnoticed, p.Absent} {
		for _, names := range byReason {
			for _, name := range names {
				if !known[name] {
					t.Errorf("there is no corruption %q", name)
				}
			}
		}
	}
}

// runs is how many runs are tried for a corruption, and how many of them are corrupted at most:
// where one is to notice it, it ends with that; of those that none can notice a share is judged,
// and of those that no run has anything for a share is tried.
func (p Proof[E]) runs(name string) (seeds, most int) {
	if _, absent := reasonOf(p.Absent, name); absent {
		return Share(noticeRuns), noticeRuns
	}
	if _, unseen := reasonOf(p.Unnoticed, name); unseen {
		return noticeRuns, Share(noticeRuns)
	}
	return noticeRuns, noticeRuns
}

// unexpected says what is wrong with how often a corruption was done and whether it was
// noticed, "" if nothing is.
func (p Proof[E]) unexpected(name string, done int, noticed bool) string {
	unseen, may := reasonOf(p.Unnoticed, name)
	absent, never := reasonOf(p.Absent, name)
	switch {
	case done == 0 && !never:
		return "no run has anything to corrupt"
	case done > 0 && never:
		return fmt.Sprintf("%d runs have something to corrupt, although %s", done, absent)
	case noticed && may:
		return "it is noticed, although " + unseen
	case done > 0 && !noticed && !may:
		return fmt.Sprintf("no invariant noticed it in %d runs", done)
	}
	return ""
}

// reasonOf returns the reason under which a corruption is listed, and whether it is.
func reasonOf(byReason map[string][]string, name string) (reason string, listed bool) {
	for reason, names := range byReason {
		if slices.Contains(names, name) {
			return reason, true
		}
	}
	return "", false
}

// notices says whether an invariant is broken, or none could read the run.
func notices(verdicts map[string]check.Verdict, broken map[string]bool) (noticed bool) {
	unread := 0
	for name, v := range verdicts {
		switch {
		case v.Status == check.Broken:
			broken[name], noticed = true, true
		case unreadable(v):
			unread++
		}
	}
	return noticed || unread > 0 && unread == len(verdicts)
}

// unreadable says whether a verdict is undecided because the history or the audit cannot be
// read. A check that panicked, or took too long, did not read it: check.Judge says so of "the
// check".
func unreadable(v check.Verdict) bool {
	return v.Status == check.Undecided && !v.NotExercised && !v.NotJudged() &&
		!strings.HasPrefix(v.Reason, "the check ")
}

// ofRecords are the corruptions of what clients saw, for each kind of operations. Those with
// several attempts are left alone: one of these may be answered in another way.
func ofRecords(sample []history.Record) (list []blind) {
	kinds := map[string]bool{}
	for i := range sample {
		kinds[sample[i].Op.Kind] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		change := func(what string, of history.Outcome, do func(r, other *history.Record) bool) {
			list = append(list, blind{what + " " + kind,
				func(records []history.Record, _ reflect.Value, pick func(int) int) bool {
					alone := Alone(records, kind, of)
					return len(alone) > 0 &&
						do(alone[pick(len(alone))], alone[pick(len(alone))])
				}})
		}
		change("deny", history.OK, func(r, _ *history.Record) bool {
			Deny(r, sut.ErrRefused)
			return true
		})
		change("invent", history.Refused, func(r, _ *history.Record) bool {
			r.Outcome, r.Code, r.Err = history.OK, "", ""
			return true
		})
		change("exchange answers to", history.OK, func(r, other *history.Record) bool {
			r.Reply, other.Reply = other.Reply, r.Reply
			return !reflect.DeepEqual(r.Reply, other.Reply)
		})
		change("change client of", history.OK, func(r, _ *history.Record) bool {
			r.Op.Client += "0"
			return true
		})
		change("change key of", history.OK, func(r, _ *history.Record) bool {
			r.Op.Key += "0"
			return true
		})
	}
	return list
}

// Alone are the records of a kind and an outcome whose operations have no other attempt.
func Alone(records []history.Record, kind string, of history.Outcome) (list []*history.Record) {
	attempts := map[uint64]int{}
	for i := range records {
		attempts[records[i].Op.ID]++
	}
	for i := range records {
		r := &records[i]
		if r.Op.Kind == kind && r.Outcome == of && attempts[r.Op.ID] == 1 {
			list = append(list, r)
		}
	}
	return list
}

// Deny makes a refusal of a record.
func Deny(r *history.Record, as error) {
	r.Outcome, r.Reply, r.Code, r.Err = history.Refused, history.Reply{}, sut.Code(as), as.Error()
}

// ofLists are the corruptions of the lists in a structure, and of the lists in their elements.
// The path is how the structure is reached: by the indices of fields that are lists.
func ofLists(in reflect.Type, path []reflect.StructField) (all []blind) {
	for _, f := range fields(in) {
		if f.Type.Kind() != reflect.Slice {
			continue
		}
		path := append(slices.Clone(path), f)
		of := f.Type.Elem()
		name := " of " + nameOf(path)
		all = append(all,
			blind{"drop" + name, onList(path, func(list reflect.Value, i int) reflect.Value {
				return reflect.AppendSlice(list.Slice(0, i), list.Slice(i+1, list.Len()))
			})},
			blind{"double" + name, onList(path, func(list reflect.Value, i int) reflect.Value {
				rest := reflect.AppendSlice(reflect.Zero(f.Type), list.Slice(i, list.Len()))
				return reflect.AppendSlice(list.Slice(0, i+1), rest)
			})})
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			continue
		}
		for _, field := range fields(of) {
			all = append(all, ofField(path, field)...)
		}
		all = append(all, ofLists(of, path)...)
	}
	return all
}

// ofField are the corruptions of a field of the elements of a list.
func ofField(path []reflect.StructField, field reflect.StructField) []blind {
	name := fmt.Sprintf(" %s of %s", nameOf([]reflect.StructField{field}), nameOf(path))
	move := func(sign int64) func(v, _ reflect.Value) bool {
		return func(v, _ reflect.Value) bool { return moved(v, sign) }
	}
	switch field.Type.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return nil
	case reflect.Bool:
		return []blind{{"flip" + name, onField(path, field, func(v, _ reflect.Value) bool {
			v.SetBool(!v.Bool())
			return true
		})}}
	}
	all := []blind{{"exchange" + name, onField(path, field, func(v, other reflect.Value) bool {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(other)
		other.Set(was)
		return !v.Equal(other)
	})}}
	if field.Type.Kind() != reflect.String {
		all = append(all, blind{"raise" + name, onField(path, field, move(1))},
			blind{"lower" + name, onField(path, field, move(-1))})
	}
	return all
}

// far is how far a large number is moved, such as a time of the store's clock: an hour of it.
const far = int64(3_600_000_000_000)

// moved makes a number that is not zero larger or smaller.
func moved(v reflect.Value, sign int64) bool {
	step := func(n int64) int64 {
		if n > far {
			return sign * far
		}
		return sign
	}
	switch {
	case v.IsZero():
		return false
	case v.CanInt():
		v.SetInt(v.Int() + step(v.Int()))
	case v.CanUint():
		v.SetUint(v.Uint() + uint64(step(int64(v.Uint()))))
	case v.CanFloat():
		v.SetFloat(v.Float() + float64(sign))
	}
	return true
}

// fields are those of a structure that JSON has.
func fields(of reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(of), func(f reflect.StructField) bool {
		return !f.IsExported() || f.Anonymous || f.Tag.Get("json") == "-"
	})
}

// nameOf is how JSON names a path.
func nameOf(path []reflect.StructField) string {
	var names []string
	for _, f := range path {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, cmp.Or(name, f.Name))
	}
	return strings.Join(names, ".")
}

// listsAt are the lists at a path that have elements.
func listsAt(in reflect.Value, path []reflect.StructField) (lists []reflect.Value) {
	list := in.FieldByIndex(path[0].Index)
	if len(path) == 1 && list.Len() > 0 {
		return []reflect.Value{list}
	}
	for i := 0; len(path) > 1 && i < list.Len(); i++ {
		lists = append(lists, listsAt(reflect.Indirect(list.Index(i)), path[1:])...)
	}
	return lists
}

// onList changes a list at some place.
func onList(
	path []reflect.StructField, change func(list reflect.Value, i int) reflect.Value,
) func([]history.Record, reflect.Value, func(int) int) bool {
	return func(_ []history.Record, audit reflect.Value, pick func(int) int) bool {
		lists := listsAt(audit, path)
		if len(lists) == 0 {
			return false
		}
		list := lists[pick(len(lists))]
		list.Set(change(list, pick(list.Len())))
		return true
	}
}

// onField changes a field of some element, of those in which it is not zero if there are any;
// other is the field of another element, which differs if any does.
func onField(
	path []reflect.StructField, field reflect.StructField,
	change func(v, other reflect.Value) bool,
) func([]history.Record, reflect.Value, func(int) int) bool {
	return func(_ []history.Record, audit reflect.Value, pick func(int) int) bool {
		var all []reflect.Value
		for _, list := range listsAt(audit, path) {
			for i := range list.Len() {
				all = append(all, reflect.Indirect(list.Index(i)).FieldByIndex(field.Index))
			}
		}
		if len(all) == 0 {
			return false
		}
		return change(two(all, reflect.Value.IsZero, reflect.Value.Equal, pick))
	}
}

// two picks one of some values, which is not zero if any is not, and another one, which differs
// from it if any does.
func two[T any](
	all []T, zero func(T) bool, equal func(a, b T) bool, pick func(int) int,
) (one, other T) {
	filled := slices.DeleteFunc(slices.Clone(all), zero)
	if len(filled) == 0 {
		filled = all
	}
	one, from := filled[pick(len(filled))], pick(len(all))
	for i := range all {
		if other = all[(from+i)%len(all)]; !equal(one, other) {
			return one, other
		}
	}
	return one, one
}
