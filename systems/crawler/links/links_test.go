package links_test

import (
	"net/url"
	"slices"
	"testing"

	"stampede/systems/crawler/links"
	"stampede/systems/crawler/web"
)

// TestNormal: references as RFC 3986 resolves them (section 5.4), and their one normal form.
func TestNormal(t *testing.T) {
	base, err := url.Parse("http://h1.test/b/c/d?q")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"g": "/b/c/g", "./g": "/b/c/g", "g/": "/b/c/g/", "/g": "/g", "?y": "/b/c/d?y", "g?y": "/b/c/g?y",
		"#s": "/b/c/d?q", "g#s": "/b/c/g", "": "/b/c/d?q", ".": "/b/c/", "..": "/b/", "../g": "/b/g",
		"../..": "/", "../../g": "/g", "../../../g": "/g", "/./g": "/g", "/../g": "/g", "g.": "/b/c/g.",
		"..g": "/b/c/..g", "./g/.": "/b/c/g/", "g/../h": "/b/c/h", "//h1.test/g": "/g",
		"HTTP://H1.TEST:80/%7Ea": "/~a", "http://h1.test": "/", "http://h1.test:/": "/", "/%7e%2f%c3": "/~%2F%C3",
		"/é": "/%C3%A9", "/a?sid=1": "/a", "/a?b=1&SID=2&c=%7E": "/a?b=1&c=~", "/a//b": "/a/b",
		"/a?": "/a",
	} {
		got, err := links.Normal(base, ref, []string{"sid"})
		if err != nil || got.String() != "http://h1.test"+want {
			t.Errorf("%q is %v, %v; want %s", ref, got, err, want)
		}
		if err == nil {
			again, err := links.Normal(nil, got.String(), nil)
			if err != nil || again.String() != got.String() {
				t.Errorf("the normal form of %q is %v, %v", got, again, err)
			}
		}
	}
	if got, err := links.Normal(base, " /g ", nil); err != nil || got.Path != "/g" {
		t.Errorf("spaces around a reference: %v, %v", got, err)
	}
	for _, ref := range []string{"mailto:a@b", "ftp://h1.test/", "http://[::x", "javascript:a()",
		"http://user:pw@h1.test/", "https://h1.test/", "http:///a"} {
		if got, err := links.Normal(base, ref, nil); err == nil {
			t.Errorf("%q is %v", ref, got)
		}
	}
}

// TestWeb: what is found in every page of a web is what the web's graph says, however it is
// spelled.
func TestWeb(t *testing.T) {
	shape := web.Shape{WebSeed: 7, Hosts: 60, Island: 5, HostsPerIP: 2, Pages: 20, HostileRobots: 0.5,
		Traps: 0.4, HostilePages: 0.2, HugeBytes: 1000, Hidden: 3}
	found := 0
	for host := range shape.Hosts {
		keys := append(shape.Sitemaps(host), shape.Host(host)+"/sitemap-1.xml",
			shape.Host(host)+"/calendar/3", shape.Host(host)+"/loop/loop/")
		for j := range 20 {
			keys = append(keys, shape.Key(host, j))
		}
		for _, key := range keys {
			page, is := shape.Find(key)
			if !is || page.Status != 200 {
				continue
			}
			var want []string
			for _, l := range page.Links {
				if !l.NoFollow && !slices.Contains(want, "http://"+l.Key) {
					want = append(want, "http://"+l.Key)
				}
			}
			at, err := url.Parse("http://" + key)
			if err != nil {
				t.Fatal(err)
			}
			find := links.Find
			if page.Sitemap {
				find = links.Sitemap
			}
			a := shape.Answer(key, 0, web.Never, uint64(host))
			got := find(at, a.Body, []string{web.SessionParam})
			if page.HTML || page.Sitemap {
				found += len(got)
				if !slices.Equal(got, want) && a.Status == 200 && !page.Torn {
					t.Errorf("%s links to\n%v, and should to\n%v", key, got, want)
				}
			}
		}
	}
	if found < 500 {
		t.Errorf("%d links were found", found)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("<base href=//x><a href='/a?b&amp;c'>"))
	at := &url.URL{Scheme: "http", Host: "h1.test", Path: "/"}
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, list := range [][]string{links.Find(at, page, nil), links.Sitemap(at, page, nil)} {
			for _, address := range list {
				again, err := links.Normal(nil, address, nil)
				if err != nil || again.String() != address {
					t.Errorf("%q is not in its normal form: %v, %v", address, again, err)
				}
			}
		}
	})
}
