package rundir

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"stampede/harness/bounds"
	"stampede/harness/plain"
)

// Validate returns every contradiction in a summary: unknown verdicts,
// variants that appear twice, counts that do not add up, percentiles out of
// order, paths that lead out of the run directory.
func (s Summary) Validate() error {
	wrong := []error{bounds.Check(s)}
	if s.Run.ID == "" || s.Run.Scenario == "" || s.Run.System == "" {
		wrong = append(wrong, errors.New("run: id, scenario or system is missing"))
	}
	seen := make(map[string]bool)
	for _, v := range s.Variants {
		if seen[v.Name] || v.Name == "" {
			wrong = append(wrong, fmt.Errorf("variant %s appears twice, or has no name",
				plain.Line(v.Name)))
		}
		seen[v.Name] = true
		if !slices.Contains(answers(), v.Correctness) {
			wrong = append(wrong, fmt.Errorf("variant %s: correctness: %q is not one of %v",
				plain.Line(v.Name), v.Correctness, answers()))
		}
		for _, r := range v.Repeats {
			for _, path := range []string{r.History, r.Audit, r.Timeline, r.Telemetry, r.Windows} {
				if path != "" && !filepath.IsLocal(filepath.FromSlash(path)) {
					wrong = append(wrong, fmt.Errorf("%q is not a path in the run directory", path))
				}
			}
		}
	}
	return errors.Join(append(wrong, contradictions(reflect.ValueOf(s.Variants), "variants")...)...)
}

func answers() []string {
	return []string{Holds, Violated, Caught, NotCaught, NotProvoked, NotExercised, Undecided}
}

// contradictions are those of the counts and percentiles in a value, which lies at a path.
func contradictions(v reflect.Value, at string) (wrong []error) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return contradictions(v.Elem(), at)
		}
	case reflect.Slice:
		for i := range v.Len() {
			wrong = append(wrong, contradictions(v.Index(i), fmt.Sprintf("%s[%d]", at, i))...)
		}
	case reflect.Struct:
		switch v := v.Interface().(type) {
		case Load:
			return []error{v.check(at)}
		case Percentiles:
			if list := []int64{v.P50, v.P90, v.P99, v.P999, v.Max}; !slices.IsSorted(list) {
				return []error{fmt.Errorf("%s: percentiles %v are not in order", at, list)}
			}
			return nil
		}
		for f, inner := range v.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() {
				wrong = append(wrong, contradictions(inner, at+"."+name)...)
			}
		}
	}
	return wrong
}

func (l Load) check(at string) error {
	switch {
	case l.Scheduled != l.Started+l.Dropped:
		return fmt.Errorf("%s: scheduled %d is not started %d + dropped %d", at, l.Scheduled, l.Started,
			l.Dropped)
	case l.Started != l.OK+l.Refused+l.Unknown:
		return fmt.Errorf("%s: started %d is not ok %d + refused %d + unknown %d", at, l.Started, l.OK,
			l.Refused, l.Unknown)
	}
	return nil
}
