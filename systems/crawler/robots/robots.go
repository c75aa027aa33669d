// Package robots reads robots.txt by RFC 9309 and says what a crawler may ask for.
package robots

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Most is how many bytes of a file are read: a parser must take so many (section 2.5).
const Most = 500 << 10

// Rules are those of a file for one crawler.
type Rules struct {
	Rules []Rule `json:"rules,omitempty"`
	// Delay is the Crawl-delay, which is not in the RFC; 0 if there is none.
	Delay time.Duration `json:"delay,omitempty"`
	// Sitemaps are the addresses of sitemaps, for all crawlers.
	Sitemaps []string `json:"sitemaps,omitempty"`
}

// Rule is a line of a file. Its pattern is normalised: a $ in it is %24, but for one at its end.
type Rule struct {
	Allow   bool   `json:"allow,omitempty"`
	Pattern string `json:"pattern"`
}

// None is what applies to who may ask for everything: there is no file (section 2.3.1.3).
func None() *Rules { return &Rules{} }

// All is what applies where a file cannot be had: everything is disallowed (section 2.3.1.4).
func All() *Rules { return &Rules{Rules: []Rule{{Pattern: "/"}}} }

// Parse reads a file for the crawler of a product token, such as "examplebot". Lines that it does
// not understand are left out. Groups with the token are one; without any, those of * are (section
// 2.2.1).
func Parse(text []byte, agent string) *Rules {
	text = bytes.TrimPrefix(text[:min(len(text), Most)], []byte("\xef\xbb\xbf"))
	var own, others Rules
	var sitemaps []string
	var mine, all bool // whom the lines are for
	agents := false    // the line before was a user-agent
	found := false
	for line := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		name, value, is := field(line)
		if !is {
			continue
		}
		switch name {
		case "user-agent":
			if !agents {
				mine, all = false, false
			}
			agents = true
			mine, all = mine || sameAgent(value, agent), all || value == "*"
			found = found || mine
			continue
		case "sitemap":
			sitemaps = append(sitemaps, value)
			continue // it belongs to no group
		case "allow", "disallow", "crawl-delay":
			agents = false
		default:
			continue // as if the line was not there
		}
		if mine {
			own.add(name, value)
		}
		if all {
			others.add(name, value)
		}
	}
	if !found {
		own = others
	}
	own.Sitemaps = sitemaps
	return &own
}

// field takes a line apart: a name in lower case, and a value without a comment.
func field(line []byte) (name, value string, is bool) {
	text, _, _ := strings.Cut(string(line), "#")
	name, value, is = strings.Cut(text, ":")
	return strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value), is
}

// sameAgent compares product tokens, which are of letters, - and _; what follows one is a version.
func sameAgent(line, agent string) bool {
	end := strings.IndexFunc(line, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
	})
	if end >= 0 {
		line = line[:end]
	}
	return line != "" && strings.EqualFold(line, agent)
}

// longestDelay is the longest Crawl-delay that is heeded.
const longestDelay = 24 * time.Hour

// add adds a line of a group.
func (r *Rules) add(name, value string) {
	if name == "crawl-delay" {
		if s, err := strconv.ParseFloat(value, 64); err == nil && s >= 0 {
			r.Delay = max(r.Delay, time.Duration(min(s, longestDelay.Seconds())*float64(time.Second)))
		}
		return
	}
	if value == "" || value[0] != '/' && value[0] != '*' {
		return // an empty pattern matches nothing, and other ones are not of the grammar
	}
	text := strings.TrimSuffix(value, "$")
	r.Rules = append(r.Rules, Rule{Allow: name == "allow",
		Pattern: strings.ReplaceAll(Normal(text), "$", "%24") + value[len(text):]})
}

// Allowed says whether a crawler may ask for a path with its query. The longest rule that matches
// decides, and of equal ones the one that allows; robots.txt itself is always allowed (section
// 2.2.2).
func (r *Rules) Allowed(path string) bool {
	if path == "/robots.txt" {
		return true
	}
	// In a pattern %2A is the octet *, and %24 is $ (section 2.2.3).
	path = strings.NewReplacer("*", "%2A", "$", "%24").Replace(Normal(path))
	allowed, longest := true, -1
	for i := range r.Rules {
		one := &r.Rules[i]
		if n := len(one.Pattern); (n > longest || n == longest && one.Allow) && one.matches(path) {
			allowed, longest = one.Allow, n
		}
	}
	return allowed
}

// matches tells whether a path begins as the pattern does, in which * is any text. It takes the
// first place for each part between two *, which leaves most for those after it.
func (r *Rule) matches(path string) bool {
	pattern, end := strings.CutSuffix(r.Pattern, "$")
	parts := strings.Split(pattern, "*")
	rest, is := strings.CutPrefix(path, parts[0])
	if !is {
		return false
	}
	if len(parts) == 1 {
		return !end || rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	last := parts[len(parts)-1]
	if end {
		return strings.HasSuffix(rest, last)
	}
	return strings.Contains(rest, last)
}

// Normal writes a path or a pattern so that equal ones are equal (section 2.2.2): octets outside
// US-ASCII are percent-encoded, and what is encoded without need is not.
func Normal(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c > ' ' && c < 0x7f && c != '%' {
			out.WriteByte(c)
			continue
		}
		if c == '%' && i+2 < len(text) {
			if b, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				i += 2
				if c = byte(b); unreserved(c) {
					out.WriteByte(c)
					continue
				}
			}
		}
		fmt.Fprintf(&out, "%%%02X", c)
	}
	return out.String()
}

// unreserved are the octets that RFC 3986, section 2.3, says mean the same encoded or not.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-._~", c) >= 0
}
