package robots_test

import (
	"strings"
	"testing"
	"time"

	"github.com/temoto/robotstxt"
	"pgregory.net/rapid"

	"stampede/systems/crawler/robots"
)

// TestRules: what RFC 9309 says, one case for each sentence of section 2.2 and of its examples.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, file, path string
		want             bool
	}{
		{"no file", "", "/a", true},
		{"a rule", "User-agent: *\nDisallow: /a", "/ab", false},
		{"another path", "User-agent: *\nDisallow: /a", "/b", true},
		{"names in any case", "USER-AGENT: *\ndisALLOW: /a", "/a", false},
		{"paths in their case", "User-agent: *\nDisallow: /a", "/A", true},
		{"spaces", "  User-agent :  *  \n\tDisallow:\t/a ", "/a", false},
		{"comments", "User-agent: * # all\nDisallow: /a # this", "/a", false},
		{"line ends of all kinds", "User-agent: *\r\nDisallow: /a\rDisallow: /b\n", "/b", false},
		{"a byte order mark", "\xef\xbb\xbfUser-agent: *\nDisallow: /a", "/a", false},
		{"an empty rule", "User-agent: *\nDisallow:", "/a", true},
		{"a rule without a group", "Disallow: /a\nUser-agent: other\nDisallow: /", "/a", true},
		{"one's own group alone", "User-agent: *\nDisallow: /\nUser-agent: examplebot\nAllow: /",
			"/a", true},
		{"one's own group, before *", "User-agent: examplebot\nDisallow: /a\nUser-agent: *\nAllow: /",
			"/a", false},
		{"an agent in any case", "User-agent: ExampleBot\nDisallow: /a", "/a", false},
		{"an agent with a version", "User-agent: ExampleBot/2.1\nDisallow: /a", "/a", false},
		{"a part of an agent", "User-agent: example\nDisallow: /a", "/a", true},
		{"several agents", "User-agent: b\nUser-agent: examplebot\nUser-agent: c\nDisallow: /a",
			"/a", false},
		{"groups of one agent are one",
			"User-agent: examplebot\nDisallow: /a\nUser-agent: b\nDisallow: /c\n" +
				"User-agent: examplebot\nDisallow: /b", "/a", false},
		{"other lines do not end agents", "User-agent: b\nSitemap: http://x/\nHost: x\n" +
			"User-agent: examplebot\nDisallow: /a", "/a", false},
		{"the longest match allows", "User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", true},
		{"the longest match disallows", "User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b/c", false},
		{"equal ones allow", "User-agent: *\nDisallow: /a\nAllow: /a", "/a", true},
		{"* is any text", "User-agent: *\nDisallow: /*/b", "/a/x/b", false},
		{"* is no text", "User-agent: *\nDisallow: /a*b", "/ab", false},
		{"* counts one octet", "User-agent: *\nDisallow: /page/*\nAllow: /page/a", "/page/a", true},
		{"$ ends", "User-agent: *\nDisallow: /*.gif$", "/a.gif", false},
		{"$ ends, and more comes", "User-agent: *\nDisallow: /*.gif$", "/a.gif?b", true},
		{"$ counts", "User-agent: *\nAllow: /page/abc\nDisallow: /page/abc$", "/page/abc", false},
		{"* finds the last part", "User-agent: *\nDisallow: /*ab$", "/ab/ab", false},
		{"parts do not overlap", "User-agent: *\nDisallow: /a*ab", "/ab", true},
		{"%2A is a star", "User-agent: *\nDisallow: /path/file-with-a-%2A.html",
			"/path/file-with-a-*.html", false},
		{"%2A is no other text", "User-agent: *\nDisallow: /a-%2A.html", "/a-b.html", true},
		{"an encoded star", "User-agent: *\nDisallow: /a-%2a.html", "/a-%2A.html", false},
		{"%24 is a dollar", "User-agent: *\nDisallow: /path/foo-%24", "/path/foo-$", false},
		{"%24 is no end", "User-agent: *\nDisallow: /foo-%24", "/foo-", true},
		{"$ in the middle is itself", "User-agent: *\nDisallow: /a$b", "/a$bc", false},
		{"* is a star, too", "User-agent: *\nDisallow: /a*c", "/a*c", false},
		{"encoded without need", "User-agent: *\nDisallow: /bar/%62%61%7A", "/bar/baz", false},
		{"the path encoded", "User-agent: *\nDisallow: /bar/baz", "/bar/%62%61%7A", false},
		{"octets beyond ASCII", "User-agent: *\nDisallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", false},
		{"capitals of an encoding", "User-agent: *\nDisallow: /foo/%e3%83%84", "/foo/%E3%83%84", false},
		{"a reserved octet stays encoded", "User-agent: *\nDisallow: /a%2Fb", "/a/b", true},
		{"a query is part of it", "User-agent: *\nDisallow: /*?id=", "/q?id=1", false},
		{"robots.txt itself", "User-agent: *\nDisallow: /", "/robots.txt", true},
		{"nonsense is left out", "\x00\x01<html>\nUser-agent: *\nnonsense\nDisallow: /a", "/a", false},
	} {
		if got := robots.Parse([]byte(c.file), "examplebot").Allowed(c.path); got != c.want {
			t.Errorf("%s: %s allowed: %v", c.name, c.path, got)
		}
	}
}

// TestLimits: a parser reads 500 KiB, and what a host that cannot be asked means.
func TestLimits(t *testing.T) {
	filler := strings.Repeat("# comment\n", robots.Most/10)
	file := []byte("User-agent: *\nDisallow: /a\n" + filler + "Disallow: /b\n")
	r := robots.Parse(file, "examplebot")
	if r.Allowed("/a") || !r.Allowed("/b") {
		t.Error("what is read are not the first 500 KiB")
	}
	if !robots.None().Allowed("/a") || robots.All().Allowed("/a") {
		t.Error("no file allows everything, and one that cannot be had nothing")
	}
	r = robots.Parse([]byte("Sitemap: http://x.test/s.xml\nUser-agent: *\nCrawl-delay: 1.5"), "a")
	if r.Delay != 1500*time.Millisecond || len(r.Sitemaps) != 1 {
		t.Errorf("delay %v, sitemaps %v", r.Delay, r.Sitemaps)
	}
}

// TestBesideTemoto: it agrees with temoto/robotstxt where that follows the RFC. What that is known
// to do otherwise is not drawn: equal rules of which one allows; * and $, whose octets it counts in
// a regular expression; percent-encoding; and robots.txt itself.
func TestBesideTemoto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`(/[ab]{1,2}){1,3}`)
		seen := map[string]bool{}
		file := ""
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			file += "User-agent: " + rapid.SampledFrom([]string{"*", "examplebot", "other"}).Draw(t,
				"agent") + "\n"
			for range rapid.IntRange(1, 4).Draw(t, "rules") {
				rule := path.Draw(t, "rule")
				if !seen[rule] {
					file += rapid.SampledFrom([]string{"Allow: ", "Disallow: "}).Draw(t, "kind") + rule + "\n"
				}
				seen[rule] = true
			}
			file += "Crawl-delay: 0\n" // so that no group is empty
		}
		other, err := robotstxt.FromString(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := path.Draw(t, "asked")
		want := other.FindGroup("examplebot").Test(asked)
		if got := robots.Parse([]byte(file), "examplebot").Allowed(asked); got != want {
			t.Fatalf("%s allowed: %v, by the other one %v, of\n%s", asked, got, want, file)
		}
	})
}

// FuzzParse: no file and no path breaks it, and rules mean the same once they were written in their
// normal form.
func FuzzParse(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /*a*$\nAllow: /%", "/ba%2")
	f.Fuzz(func(t *testing.T, file, path string) {
		r := robots.Parse([]byte(file), "examplebot")
		if r.Allowed(path) != r.Allowed(robots.Normal(path)) && robots.Normal(path) != "/robots.txt" {
			t.Errorf("%q and its normal form %q differ", path, robots.Normal(path))
		}
		for i := range r.Rules {
			if again := robots.Normal(r.Rules[i].Pattern); again != r.Rules[i].Pattern {
				t.Errorf("the normal form of %q is %q", r.Rules[i].Pattern, again)
			}
		}
	})
}
