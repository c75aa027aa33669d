package reports

import (
	"math"
	"strconv"

	"stampede/harness/plain"
	"stampede/harness/rundir"
)

// none stands where there is no number.
const none = "–"

// latency formats nanoseconds with three significant digits: "12.3 ms". The
// latency of operations that were dropped or never ended is "∞ (dropped)".
func latency(ns int64) string {
	if ns == rundir.Infinite {
		return "∞ (dropped)"
	}
	return seconds(float64(ns) / 1e9)
}

// percentile formats one of p's percentiles, or none if there is no sample.
func percentile(p rundir.Percentiles, ns int64) string {
	if p.Count == 0 {
		return none
	}
	return latency(ns)
}

// seconds formats a time of any size with three significant digits.
func seconds(s float64) string {
	switch abs := math.Abs(s); {
	case math.IsInf(s, 1):
		return "∞"
	case math.IsNaN(s):
		return none
	case abs == 0:
		return "0"
	case abs < 999.5e-9:
		return significant(s*1e9) + " ns"
	case abs < 999.5e-6:
		return significant(s*1e6) + " µs"
	case abs < 999.5e-3:
		return significant(s*1e3) + " ms"
	case abs < 999.5:
		return significant(s) + " s"
	}
	return grouped(int64(math.Round(s))) + " s"
}

// significant formats x, |x| < 1000, with three significant digits.
func significant(x float64) string {
	switch abs := math.Abs(x); {
	case abs >= 99.95:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case abs >= 9.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// Grouped formats n with commas between groups of three digits.
func Grouped(n int) string { return grouped(n) }

// grouped formats n with commas between groups of three digits.
func grouped[T ~int | ~int64 | ~uint64](n T) string {
	return plain.Count(int64(n))
}

// plural formats a count with its noun.
func plural[T ~int | ~int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// rate formats a number per second.
func rate(perS float64) string {
	if math.IsNaN(perS) || math.IsInf(perS, 0) {
		return none
	}
	if math.Abs(perS) < 999.5 {
		return significant(perS) + "/s"
	}
	return grouped(int64(math.Round(perS))) + "/s"
}

// share formats part of whole as a percentage, never rounding to 0 % or
// 100 % what is not.
func share(part, whole int64) string {
	if whole == 0 {
		return none
	}
	return percentage(float64(part) / float64(whole) * 100)
}

// percentage formats a number of percent.
func percentage(x float64) string {
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
		return grouped(int64(math.Round(x))) + " %"
	}
	return significant(x) + " %"
}

// times formats a ratio.
func times(ratio float64) string {
	switch {
	case ratio > 0 && ratio < 0.01:
		return strconv.FormatFloat(ratio, 'g', 2, 64) + "×"
	case ratio < 0.1:
		return strconv.FormatFloat(ratio, 'f', 3, 64) + "×"
	case ratio >= 999.5:
		return grouped(int64(math.Round(ratio))) + "×"
	}
	return significant(ratio) + "×"
}

// ratioOf formats a ratio to a baseline: of one repeat a side only two digits mean anything.
func ratioOf(ratio float64, repeats int) string {
	if repeats > 1 || ratio <= 0 {
		return times(ratio)
	}
	text := strconv.FormatFloat(ratio, 'e', 1, 64) // "1.1e+02"
	rounded, _ := strconv.ParseFloat(text, 64)     // it is a number
	if rounded >= 10 {
		return grouped(int64(math.Round(rounded))) + "×"
	}
	return strconv.FormatFloat(rounded, 'f', max(0, 1-int(math.Floor(math.Log10(rounded)))), 64) + "×"
}

// pValue formats a probability as statisticians do.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return none
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

// short cuts text to at most n runes, with an ellipsis.
func short(text string, n int) string {
	runes := []rune(plain.Text(text))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
