package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"html"
	"strings"
	"time"
)

// Answer is what the web says to a request.
type Answer struct {
	Status                   int
	Type, Location, Encoding string
	Body                     []byte
	Declared                 int  // the length that is declared, if it is another one
	News                     bool // the text will be another one soon
	Takes                    time.Duration
	Silent, Shut             bool   // there is none; the connection stays, or is closed
	Hash                     string // of the body as a crawler should keep it
}

// Answer is what the web says at a time to a request for a key that was asked for so often before.
// Nonce is another one each time.
func (s Shape) Answer(key string, at time.Duration, before int, nonce uint64) (a Answer) {
	name, path := Split(key)
	host, is := s.Number(name)
	if !is {
		return Answer{Status: 502, Body: []byte("no such host")}
	}
	kind := s.Kind(host)
	a.Takes = s.Takes(host)
	if a.Silent, a.Shut = kind == Dead, kind == Shut; a.Silent || a.Shut {
		return a
	}
	if path == "/robots.txt" {
		var text string
		a.Status, text = s.Robots(host, s.Version(at))
		if s.RobotsOf(host) == FlakyRobots && before < flakyTimes {
			a.Status, text = 503, "not now"
		}
		a.Type, a.Body = "text/plain", []byte(text)
		return a
	}
	p, is := s.Find(key)
	switch {
	case !is:
		a.Status, a.Type, a.Body = 404, "text/html", []byte("<h1>not found</h1>")
	case before < p.Fails && !p.Torn:
		a.Status, a.Type, a.Body = 503, "text/html", []byte("<h1>not now</h1>")
	case p.Redirect != nil:
		a.Status, a.Location, a.Body = p.Status, p.Redirect.Text, []byte("elsewhere")
	default:
		s.fill(&a, host, path, p, at, nonce)
	}
	return a
}

// Answers says whether a host answers at all.
func (s Shape) Answers(host int) bool { return s.Kind(host) != Dead && s.Kind(host) != Shut }

// Takes is how long a host takes for an answer.
func (s Shape) Takes(host int) time.Duration {
	if s.Kind(host) == Slow {
		return cmp.Or(s.SlowTime, s.PageTime).D()
	}
	return s.PageTime.D()
}

// fill writes the body of a page.
func (s Shape) fill(a *Answer, host int, path string, p Page, at time.Duration, nonce uint64) {
	a.Status, a.Type, a.News = p.Status, p.Type, p.News
	switch {
	case p.Sitemap:
		a.Body = sitemap(p)
	case p.Twin > 0:
		a.Body = fmt.Appendf(nil, "<html><p>copied everywhere, number %d</p></html>", p.Twin)
	case p.Huge:
		a.Body = bytes.Repeat([]byte("<p>and so on, and on</p>\n"), s.HugeBytes/25+1)
		return
	case p.Bomb:
		a.Encoding, a.Body = "gzip", bomb(4*s.HugeBytes)
		return
	default:
		a.Body = s.html(host, path, p, at, nonce)
	}
	if p.Torn {
		a.Declared = len(a.Body)
		a.Body = a.Body[:len(a.Body)/2]
	} else if p.Status == 200 {
		a.Hash = fmt.Sprintf("%x", sha256.Sum256(a.Body))
	}
}

// html writes a page of HTML.
func (s Shape) html(host int, path string, p Page, at time.Duration, nonce uint64) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<!doctype html><html><head><title>%s of %d</title>", html.EscapeString(path),
		host)
	if p.base != "" {
		fmt.Fprintf(&out, "<base href=%q><base href=\"/unfollowed/\">", p.base)
	}
	out.WriteString("<link rel=\"canonical\" href=\"/unfollowed/2\">" +
		"<meta http-equiv=\"refresh\" content=\"9;url=/unfollowed/3\">")
	out.WriteString("</head><body><!-- <a href=\"/commented/out\"> -->\n")
	edition := 0
	if p.News && s.NewsEvery > 0 {
		edition = int(at / s.NewsEvery.D())
	}
	fmt.Fprintf(&out, "<p>%s</p><p>edition %d</p>\n", html.EscapeString(p.words), edition)
	for i, l := range p.Links {
		text := l.Text
		if s.Kind(host) == Sessions {
			text = withSession(text, nonce)
		}
		rel := ""
		if l.NoFollow {
			rel = ` rel="me NoFollow"`
		}
		text = html.EscapeString(text)
		if i%5 == 4 {
			fmt.Fprintf(&out, "<map><area%s href='%s' alt='link %d'></map>\n", rel, text, i)
			continue
		}
		fmt.Fprintf(&out, "<A class=x%s HREF='%s'>link %d</A>\n", rel, text, i)
	}
	out.WriteString("<a href=\"mailto:nobody@h0.test\">mail</a><a " +
		"href=\"ftp://h0.test/f\">files</a><a href=\"http://[::bad\">wrong</a><a " +
		"href=\"http://me@h0.test/unfollowed/4\">user</a></body></html>")
	return out.Bytes()
}

// withSession adds a session's identity to what a link says.
func withSession(text string, nonce uint64) string {
	text, fragment, has := strings.Cut(text, "#")
	sep := "?"
	if strings.Contains(text, "?") {
		sep = "&"
	}
	text += fmt.Sprintf("%s%s=%x", sep, SessionParam, mix(nonce))
	if has {
		text += "#" + fragment
	}
	return text
}

func sitemap(p Page) []byte {
	var out bytes.Buffer
	outer, inner := p.words, "url"
	if outer == "sitemapindex" {
		inner = "sitemap"
	}
	fmt.Fprintf(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s xmlns=%q>", outer,
		"http://www.sitemaps.org/schemas/sitemap/0.9")
	for _, l := range p.Links {
		fmt.Fprintf(&out, "<%s><loc>\n %s </loc></%s>", inner, html.EscapeString(l.Text), inner)
	}
	fmt.Fprintf(&out, "</%s>", outer)
	return out.Bytes()
}

// bomb is so many zeros, compressed.
func bomb(n int) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(make([]byte, n)) // into memory
	_ = z.Close()
	return out.Bytes()
}
