package words

import (
	"math"
	"testing"
)

func TestFormats(t *testing.T) {
	tests := []struct{ got, want string }{
		{Latency(0), "0"}, {Latency(812), "812 ns"}, {Latency(45_100), "45.1 µs"},
		{Latency(12_340_000), "12.3 ms"}, {Latency(999_600), "1.00 ms"},
		{Latency(1_236_000_000), "1.24 s"},
		{Latency(4_000_000_000_000), "4,000 s"}, {Latency(math.MaxInt64), "∞ (dropped)"},
		{Grouped(0), "0"}, {Grouped(999), "999"}, {Grouped(1000), "1,000"},
		{Grouped(-1234567), "−1,234,567"},
		{Percents(0.998, 1), "99.8 to 100 %"}, {Percents(0.9996, 0.9999), "99.9 %"},
		{Percents(0.91, 0.97), "91 to 97 %"}, {Percents(1, 1), "100 %"},
		{Share(0, 0), "–"}, {Share(0, 10), "0 %"}, {Share(10, 10), "100 %"},
		{Share(1, 1_000_000), "< 0.01 %"},
		{Share(999_999, 1_000_000), "> 99.99 %"}, {Share(9_980, 10_000), "99.80 %"},
		{Share(1, 3), "33.3 %"},
		{Times(0.0926), "0.093×"}, {Times(2.104), "2.10×"}, {Times(12345), "12,345×"},
		{Times(0.00123), "0.0012×"},
		{QuantileName(0), "0 %"}, {QuantileName(1), "90 %"}, {QuantileName(2), "99 %"},
		{QuantileName(3), "99.9 %"}, {QuantileName(5), "99.999 %"},
		{QuantileName(-math.Log10(.5)), "50 %"},
		{Letter(0), "A"}, {Letter(25), "Z"}, {Letter(26), "AA"}, {Letter(27), "AB"}, {Letter(701), "ZZ"},
		{Decade(-6), "1 µs"}, {Decade(-4), "100 µs"}, {Decade(-3), "1 ms"},
		{Decade(0), "1 s"}, {Decade(2), "100 s"},
		{bytesText(512), "512 B"}, {bytesText(8 << 30), "8.0 GiB"},
		{Slug(`No-oversell "x"/日`), "no-oversell--x---"},
		{Short("abcdef", 4), "abc…"}, {List([]string{"a", "b", "c"}, 2), "a, b and 1 more"},
		{List([]string{"a", "b", "c"}, 3), "a, b and c"}, {List(nil, 3), ""},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// TestRatioOf: one repeat a side allows two digits.
func TestRatioOf(t *testing.T) {
	for ratio, want := range map[float64]string{111: "110×", 8.96: "9.0×", 14.2: "14×", 1.047: "1.0×",
		0.283: "0.28×", 0.0749: "0.075×", 9.97: "10×", 1234: "1,200×", 0: "0.000×"} {
		if got := RatioOf(ratio, 1); got != want {
			t.Errorf("%v of one repeat is %q, want %q", ratio, got, want)
		}
	}
	if got := RatioOf(8.96, 2); got != "8.96×" {
		t.Errorf("of two repeats it is %q", got)
	}
}
