package plain_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/plain"
)

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th",
		13: "13th", 21: "21st", 112: "112th"} {
		if got := plain.Ordinal(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"größe 日本":               "größe 日本",
		"a\tb\r\nc":              "a b  c",
		"\x1b[31mred\x07":        "\uFFFD[31mred\uFFFD",
		"\u202Eevil\u2066":       "evil",
		"c1 \u009b31m":           "c1 \uFFFD31m",
		"broken \xff":            "broken \uFFFD",
		"::error::not a command": "::error::not a command",
	} {
		if got := plain.Text(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestLines: no line is an order to GitHub's runner, which ignores white space before one
// and knows an older form that may stand anywhere.
func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"a\n::error::b":     "a\n: :error::b",
		"a\r\n  ::error::b": "a\n  : :error::b",
		"::set-env x":       ": :set-env x",
		"a ::error::b":      "a ::error::b",
		"see ##[error]x":    "see ## [error]x",
		"\u00a0::error::b":  "\u00a0: :error::b",
		"\x1b\n\u202e":      "\uFFFD\n",
		"\u202e::error::b":  ": :error::b",
		"##\u202e[error]":   "## [error]",
		"one\n\ttwo\n":      "one\n two\n",
	} {
		if got := plain.Lines(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestLinesHoldForAnyText: whatever comes in, nothing that is an order goes out, and what
// has been through once stays as it is.
func TestLinesHoldForAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{":", "::", "##", "[", " ", "\t", "\n", "\r",
			"\x1b", "\u202e", "a", "\xff", "\u2028"})).Draw(t, "parts")
		out := plain.Lines(strings.Join(parts, ""))
		for line := range strings.SplitSeq(out, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
				t.Fatalf("%q has a command", out)
			}
		}
		if again := plain.Lines(out); again != out {
			t.Fatalf("%q becomes %q", out, again)
		}
	})
}

func TestBlock(t *testing.T) {
	text := "a:\n  b:\n\n\t- c: \"::x\"  \n"
	if got := plain.Block(text); got != text {
		t.Errorf("%q gives %q", text, got)
	}
	if got := plain.Block("a\x1b\r\n\u202eb\tc"); got != "a\uFFFD \nb\tc" {
		t.Errorf("it gives %q", got)
	}
}

// TestWord: a shell takes for one word what was one, and what needs no marks has none.
func TestWord(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "runs/a-1": "runs/a-1", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'",
		"größe": "'größe'",
	} {
		if got := plain.Word(word); got != want {
			t.Errorf("%q gives %s, want %s", word, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 105500: "105,500",
		-1234567: "−1,234,567"} {
		if got := plain.Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"one":                     "one",
		"one two three":           "one two|three",
		" more   than enough":     "more|than|enough",
		"abcdefghijklmnop qr stu": "abcdefgh|ijklmnop|qr stu",
		"at:abcdefgh":             "at:abcde|fgh",
		"naïve façade":            "naïve|façade",
	} {
		if got := strings.Join(plain.Wrap(text, 8), "|"); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
