package measure

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestErrorClass(t *testing.T) {
	tests := map[string]string{
		"":                                   "",
		"connection refused":                 "connection refused",
		"read tcp 127.0.0.1:4->[::1]:5: EOF": "read tcp #->[::#]:#: EOF",
		"op 0190b2c4-5d6e-7f80-9a1b-2c3d4e5f6071 lost": "op # lost",
		"ERROR: deadlock detected (SQLSTATE 40P01)":    "ERROR: deadlock detected (SQLSTATE 40P01)",
		"status 503 after 12 tries":                    "status 503 after # tries",
		"unexpected status: 500":                       "unexpected status: 500",
		"timeout: at 2026-11-21T09:10:06":              "timeout: at #",
		"took 1.5s":                                    "took #",
		"POST /v1/buy: 503":                            "POST /v1/buy: #",
		"GET /v1x/buy of v1 in /v123":                  "GET /#/buy of # in /#",
		"Grüße an 3 Käufer":                            "Grüße an # Käufer",
	}
	for text, want := range tests {
		if got := ErrorClass(text); got != want {
			t.Errorf("ErrorClass(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzErrorClass(f *testing.F) {
	f.Add("dial tcp 127.0.0.1:5432: connect: connection refused")
	f.Add("SQLSTATE 40001")
	f.Fuzz(func(t *testing.T, text string) {
		class := ErrorClass(text)
		if len(class) > len(text) {
			t.Errorf("%q grew to %q", text, class)
		}
		if utf8.ValidString(text) && !utf8.ValidString(class) {
			t.Errorf("%q became %q", text, class)
		}
		if again := ErrorClass(class); again != class {
			t.Errorf("%q has class %q, and that has class %q", text, class, again)
		}
		if !strings.ContainsAny(text, "0123456789#") && class != text {
			t.Errorf("%q became %q", text, class)
		}
	})
}

func TestBucketWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "last"))
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		width := bucketWidth(last, limit)
		if n := last/width + 1; n > time.Duration(limit) {
			t.Fatalf("%s in %s: %d buckets, at most %d", last, width, n, limit)
		}
		if width > time.Millisecond && last/(width/5*2)+1 <= time.Duration(limit) {
			t.Fatalf("%s in %s: %s would do", last, width, width/5*2)
		}
	})
}
