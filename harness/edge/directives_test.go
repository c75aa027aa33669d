package edge

import (
	"strings"
	"testing"
	"time"
)

func TestDirectives(t *testing.T) {
	for _, c := range []struct {
		text, name string
		seconds    int64
		given      bool
	}{
		{"max-age=5", "max-age", 5, true},
		{" , No-Store ,, MAX-Age=5 ", "max-age", 5, true},
		{`x="a, max-age=7, \", b", max-age="5"`, "max-age", 5, true},
		{`x="a, max-age=7`, "max-age", 0, false},
		{"max-age", "max-age", 0, true},
		{"max-age=", "max-age", 0, true},
		{"max-age= 5", "max-age", 0, true},
		{"max-age=-5", "max-age", 0, true},
		{"max-age=5.5", "max-age", 0, true},
		{`max-age="5`, "max-age", 0, true},
		{`max-age="5"6`, "max-age", 0, true},
		{"max-age=5, max-age=6", "max-age", 0, true},
		{"max-age=5, max-age=5", "max-age", 5, true},
		{"max-age=2147483649", "max-age", maxSeconds, true},
		{"", "max-age", 0, false},
	} {
		got, given := parseDirectives([]string{c.text}).seconds(c.name)
		if int64(got/time.Second) != c.seconds || given != c.given {
			t.Errorf("%s: %s is %s, %t", c.text, c.name, got, given)
		}
	}
}

// FuzzDirectives: whatever a field has, a line of its own is understood, and numbers have bounds.
func FuzzDirectives(f *testing.F) {
	for _, text := range []string{
		"", "max-age=5, private", `no-cache="a, b", x`, `a="\"`, "=,=5", `"`, "MAX-AGE=1,max-age=2",
		"s-maxage=99999999999999999999", "a=\xff\x00", `private="`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := parseDirectives([]string{text, "no-store"})
		if !d.has("no-store") {
			t.Errorf("%q hides another line", text)
		}
		for name := range d {
			if name == "" || name != strings.ToLower(name) {
				t.Errorf("%q: a directive is named %q", text, name)
			}
			if v, _ := d.seconds(name); v < 0 || v > maxSeconds*time.Second {
				t.Errorf("%q: %s is %s", text, name, v)
			}
		}
	})
}
