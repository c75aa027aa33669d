// Package words writes numbers, marks and names, the same in every form of report.
package words

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"stampede/harness/plain"
	"stampede/harness/rundir"
)

// Percents writes a range of shares: "91 to 97 %".
func Percents(least, most float64) string {
	a, b := Percent(least), Percent(most)
	if a == b {
		return a + " %"
	}
	return a + " to " + b + " %"
}

// Decade names 10^e seconds.
func Decade(e int) string {
	units := map[int]string{-3: "ns", -2: "µs", -1: "ms", 0: "s"}
	group := min(int(math.Floor(float64(e)/3)), 0)
	unit, ok := units[group]
	if !ok {
		return fmt.Sprintf("1e%d s", e)
	}
	return fmt.Sprintf("%.0f %s", math.Pow(10, float64(e-3*group)), unit)
}

// PlainNumber formats a tick: 0.5, 20, 5k, 1.5M.
func PlainNumber(x float64) string {
	switch {
	case math.Abs(x) >= 1e6:
		return fmt.Sprintf("%.4gM", x/1e6)
	case math.Abs(x) >= 1e4:
		return fmt.Sprintf("%.4gk", x/1e3)
	}
	return fmt.Sprintf("%.4g", x)
}

// Letter returns A, B, … Z, AA, AB, … for 0, 1, …
func Letter(i int) string {
	name := ""
	for i >= 0 {
		name = string(rune('A'+i%26)) + name
		i = i/26 - 1
	}
	return name
}

// QuantileName writes 1 - 10^-nines as a percentage, with as many digits as
// it takes to tell it from its neighbours in a table.
func QuantileName(nines float64) string {
	digits := max(1, int(math.Ceil(nines-1e-9))-1)
	text := fmt.Sprintf("%.*f", digits, (1-math.Pow(10, -nines))*100)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}

// NonEmpty are the texts that are not empty.
func NonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

// JoinNonEmpty joins the parts that are not empty.
func JoinNonEmpty(separator string, parts ...string) string {
	return strings.Join(NonEmpty(parts...), separator)
}

// With is a list with an element that it has but once.
func With[T comparable](list []T, element T) []T {
	if slices.Contains(list, element) {
		return list
	}
	return append(list, element)
}

// Split are the elements that are chosen, and the others, both in their order.
func Split[T any](list []T, chosen func(T) bool) (yes, no []T) {
	for _, element := range list {
		if chosen(element) {
			yes = append(yes, element)
		} else {
			no = append(no, element)
		}
	}
	return yes, no
}

// SortedKeys are the keys of a map, in order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Positive formats a number above 0; it is "" for others.
func Positive(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// SizeOf formats a number of bytes; it is "" if there are none.
func SizeOf(n int64) string {
	if n <= 0 {
		return ""
	}
	return bytesText(n)
}

// YesNo is "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Instant formats a time in UTC.
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// None stands where there is no number.
const None = "–"

// Latency formats nanoseconds with three significant digits: "12.3 ms". The
// latency of operations that were dropped or never ended is "∞ (dropped)".
func Latency(ns int64) string {
	if ns == rundir.Infinite {
		return "∞ (dropped)"
	}
	return Seconds(float64(ns) / 1e9)
}

// Percentile formats one of p's percentiles, or none if there is no sample.
func Percentile(p rundir.Percentiles, ns int64) string {
	if p.Count == 0 {
		return None
	}
	return Latency(ns)
}

// Seconds formats a time of any size with three significant digits.
func Seconds(s float64) string {
	switch abs := math.Abs(s); {
	case math.IsInf(s, 1):
		return "∞"
	case math.IsNaN(s):
		return None
	case abs == 0:
		return "0"
	case abs < 999.5e-9:
		return Significant(s*1e9) + " ns"
	case abs < 999.5e-6:
		return Significant(s*1e6) + " µs"
	case abs < 999.5e-3:
		return Significant(s*1e3) + " ms"
	case abs < 999.5:
		return Significant(s) + " s"
	}
	return Grouped(int64(math.Round(s))) + " s"
}

// Significant formats x, |x| < 1000, with three significant digits.
func Significant(x float64) string {
	switch abs := math.Abs(x); {
	case abs >= 99.95:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case abs >= 9.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// Grouped formats n with commas between groups of three digits.
func Grouped[T ~int | ~int64 | ~uint64](n T) string {
	return plain.Count(int64(n))
}

// Plural formats a count with its noun.
func Plural[T ~int | ~int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Rate formats a number per second.
func Rate(perS float64) string {
	if math.IsNaN(perS) || math.IsInf(perS, 0) {
		return None
	}
	if math.Abs(perS) < 999.5 {
		return Significant(perS) + "/s"
	}
	return Grouped(int64(math.Round(perS))) + "/s"
}

// Share formats part of whole as a percentage, never rounding to 0 % or
// 100 % what is not.
func Share(part, whole int64) string {
	if whole == 0 {
		return None
	}
	return Percentage(float64(part) / float64(whole) * 100)
}

// Percentage formats a number of percent.
func Percentage(x float64) string {
	switch {
	case x == 0 || x == 100:
		return strconv.Itoa(int(x)) + " %"
	case x > 0 && x < 0.01:
		return "< 0.01 %"
	case x > 99.99 && x < 100:
		return "> 99.99 %"
	case x > 99 && x < 100:
		return strconv.FormatFloat(x, 'f', 2, 64) + " %"
	case math.Abs(x) >= 999.5:
		return Grouped(int64(math.Round(x))) + " %"
	}
	return Significant(x) + " %"
}

// Times formats a ratio.
func Times(ratio float64) string {
	switch {
	case ratio > 0 && ratio < 0.01:
		return strconv.FormatFloat(ratio, 'g', 2, 64) + "×"
	case ratio < 0.1:
		return strconv.FormatFloat(ratio, 'f', 3, 64) + "×"
	case ratio >= 999.5:
		return Grouped(int64(math.Round(ratio))) + "×"
	}
	return Significant(ratio) + "×"
}

// RatioOf formats a ratio to a baseline: of one repeat a side only two digits mean anything.
func RatioOf(ratio float64, repeats int) string {
	if repeats > 1 || ratio <= 0 {
		return Times(ratio)
	}
	text := strconv.FormatFloat(ratio, 'e', 1, 64) // "1.1e+02"
	rounded, _ := strconv.ParseFloat(text, 64)     // it is a number
	if rounded >= 10 {
		return Grouped(int64(math.Round(rounded))) + "×"
	}
	return strconv.FormatFloat(rounded, 'f', max(0, 1-int(math.Floor(math.Log10(rounded)))), 64) + "×"
}

// PValue formats a probability as statisticians do.
func PValue(p *float64) string {
	switch {
	case p == nil:
		return None
	case *p < 0.0001:
		return "< 0.0001"
	}
	return strconv.FormatFloat(*p, 'g', 2, 64)
}

// bytesText formats a size.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x := float64(n)
	i := 0
	for x >= 1024 && i < len(units)-1 {
		x /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + " B"
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " " + units[i]
}

// Short cuts text to at most n runes, with an ellipsis.
func Short(text string, n int) string {
	runes := []rune(plain.Text(text))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// Clock formats a time on the run's clock in milliseconds.
func Clock(ns int64) string {
	if ns == rundir.Infinite {
		return "never"
	}
	whole, part := ns/int64(time.Millisecond), ns%int64(time.Millisecond)/int64(10*time.Microsecond)
	return fmt.Sprintf("%s.%02d ms", Grouped(whole), part)
}

// Slug keeps what may stand in an anchor.
func Slug(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r < unicode.MaxASCII && unicode.IsUpper(r):
			return unicode.ToLower(r)
		}
		return '-'
	}, text)
}

// List joins names, at most n of them: "a, b and 3 more".
func List(names []string, n int) string {
	if len(names) > n {
		return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Choose is the form of a word for a number.
func Choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Percent writes a share without its sign, and says 100 of nothing less than all.
func Percent(share float64) string {
	if share > 0.99 && share < 1 {
		return fmt.Sprintf("%.1f", math.Floor(1000*share)/10)
	}
	return fmt.Sprintf("%.0f", 100*share)
}
