package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Bottleneck says in words what was waited for longest so far, and what second. Pools count only
// if there is nothing else: what waits in one mostly waits for something behind it.
func (s *Sim) Bottleneck() string {
	all := slices.DeleteFunc(s.Usage(), func(u Usage) bool {
		return u.Servers == 0 || u.MeanQueue() < few
	})
	if slices.ContainsFunc(all, func(u Usage) bool { return !u.Pool }) {
		all = slices.DeleteFunc(all, func(u Usage) bool { return u.Pool })
	}
	slices.SortStableFunc(all, func(a, b Usage) int { return cmp.Compare(b.Waited, a.Waited) })
	var parts []string
	for _, u := range all[:min(2, len(all))] {
		parts = append(parts, u.words())
	}
	if len(parts) == 0 {
		return "hardly anything was waited for"
	}
	return "most waits were for " + strings.Join(parts, ", then ")
}

// few is how many wait on average at least where waiting is worth telling.
const few = 0.05

func (u Usage) words() string {
	what := strings.ReplaceAll(u.Name, ".", " ")
	switch {
	case strings.HasSuffix(u.Name, ".log"):
		what = "a flush of " + what
	case u.Pool:
		what = fmt.Sprintf("one of the %d %s", u.Servers, what)
	case u.Key != "":
		what = fmt.Sprintf("the row lock of %s in %s", u.Key, strings.TrimSuffix(u.Name, ".rows"))
	case u.Name == "cpu" || strings.HasSuffix(u.Name, ".cpu"):
		what = fmt.Sprintf("the %d cores of %s", u.Servers, strings.TrimSuffix(u.Name, ".cpu"))
		if u.Name == "cpu" {
			what = fmt.Sprintf("the %d cores", u.Servers)
		}
	}
	return fmt.Sprintf("%s (%.1f waiting on average, %.0f %% busy)", what, u.MeanQueue(),
		100*min(1, u.Utilisation()))
}
