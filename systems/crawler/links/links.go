// Package links finds the links of pages, and writes those that are the same in one way.
package links

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"stampede/systems/crawler/robots"
)

// ErrNone is that of a reference that leads to no page: it is malformed, or of another scheme.
var ErrNone = errors.New("no address of a page")

// longest is how many bytes an address may have.
const longest = 2000

// Normal resolves a reference against the address that it was found at (RFC 3986, section 5), and
// writes the result in its one normal form (section 6.2): scheme and host in lower case, no default
// or empty port, no dot segments, nothing encoded that need not be, no fragment. The parameters of
// a query that only say whose session it is are left out.
func Normal(base *url.URL, ref string, sessions []string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrNone, ref)
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	host := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(u.Host), ":80"), ":")
	if strings.ToLower(u.Scheme) != "http" || host == "" || u.User != nil || u.Opaque != "" {
		return nil, fmt.Errorf("%w: %q", ErrNone, ref)
	}
	text := "http://" + host + slashes(robots.Normal(cmp.Or(u.EscapedPath(), "/")))
	var params []string
	for p := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(p, "=")
		if p != "" && !slices.Contains(sessions, strings.ToLower(name)) {
			params = append(params, p)
		}
	}
	if len(params) > 0 {
		text += "?" + robots.Normal(strings.Join(params, "&"))
	}
	if u, err = url.Parse(text); err != nil || len(text) > longest {
		return nil, fmt.Errorf("%w: %q", ErrNone, ref)
	}
	return u.ResolveReference(&url.URL{RawQuery: u.RawQuery}), nil
}

// slashes makes one of several. RFC 3986 does not say that they are the same: this web does, as
// servers of files do, and its log has one key for both.
func slashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// Find lists the addresses that a page of HTML links to, each once and in order, but for those of
// rel=nofollow. What is wrong is left out.
func Find(at *url.URL, page []byte, sessions []string) (list []string) {
	base, seen := at, map[string]bool{}
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return list // the end: memory has no other errors
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			switch tag.DataAtom {
			case atom.Base:
				if u, err := at.Parse(attribute(tag, "href")); err == nil && base == at {
					base = u
				}
			case atom.A, atom.Area:
				href, rel := attribute(tag, "href"), strings.Fields(strings.ToLower(attribute(tag, "rel")))
				u, err := Normal(base, href, sessions)
				if href == "" || err != nil || slices.Contains(rel, "nofollow") || seen[u.String()] {
					continue
				}
				seen[u.String()] = true
				list = append(list, u.String())
			}
		}
	}
}

func attribute(tag html.Token, name string) string {
	for _, a := range tag.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// Sitemap lists the addresses in a sitemap, or in an index of sitemaps; those of other hosts are
// left out, as sitemaps.org says. It ends where the text is not XML any more.
func Sitemap(at *url.URL, text []byte, sessions []string) (list []string) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		start, is := token.(xml.StartElement)
		if !is || start.Name.Local != "loc" {
			continue
		}
		var loc string
		if d.DecodeElement(&loc, &start) != nil {
			return list
		}
		if u, err := Normal(nil, loc, sessions); err == nil && u.Host == at.Host {
			list = append(list, u.String())
		}
	}
}
