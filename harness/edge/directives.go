package edge

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSeconds is what a larger number of seconds counts as (RFC 9111 section 1.2.2).
const maxSeconds = 1 << 31

// invalid stands for an argument that cannot be read. It is no number, token or quoted text.
const invalid = "\x00"

// directives are those of Cache-Control by lower-case name, with their arguments, which are ""
// where there are none. Unknown ones are kept and ignored.
type directives map[string]string

// parseDirectives reads the lines of a Cache-Control field. A directive that comes twice with
// different arguments has an invalid one (section 4.2.1 allows to take it as stale).
func parseDirectives(lines []string) directives {
	if len(lines) == 0 {
		return nil
	}
	d := directives{}
	for _, line := range lines {
		for line != "" {
			var item string
			item, line = cutItem(line, '\\')
			d.add(strings.TrimSpace(item))
		}
	}
	return d
}

func (d directives) add(item string) {
	name, arg, given := strings.Cut(item, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return
	}
	if given {
		arg = unquote(arg)
	}
	if before, twice := d[name]; twice && before != arg {
		arg = invalid
	}
	d[name] = arg
}

// cutItem cuts a list at its first comma that is not in quotes, in which escape, if not 0, takes
// the character after it for itself.
func cutItem(list string, escape byte) (item, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == escape && escape != 0:
			i++
		case c == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// unquote is the value of an argument, be it a token or a quoted text.
func unquote(arg string) string {
	if !strings.HasPrefix(arg, `"`) {
		if arg == "" || strings.ContainsAny(arg, " \t\"") {
			return invalid
		}
		return arg
	}
	var text strings.Builder
	for i := 1; i < len(arg); i++ {
		switch {
		case arg[i] == '"' && i == len(arg)-1:
			return text.String()
		case arg[i] == '"':
			return invalid
		case arg[i] == '\\':
			i++
		}
		if i < len(arg) {
			text.WriteByte(arg[i])
		}
	}
	return invalid
}

// has says whether one of the directives is there, whatever its argument: no-cache and private
// with a list of fields are taken as if they named all fields.
func (d directives) has(names ...string) bool {
	for _, name := range names {
		if _, given := d[name]; given {
			return true
		}
	}
	return false
}

// seconds is the argument of a directive. An invalid one is 0, which is always the careful
// reading: a response is stale, a request wants no stale response.
func (d directives) seconds(name string) (value time.Duration, given bool) {
	arg, given := d[name]
	value, _ = deltaSeconds(arg)
	return value, given
}

// deltaSeconds reads a number of seconds, digits only.
func deltaSeconds(text string) (value time.Duration, valid bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxSeconds {
		n = maxSeconds
	}
	return time.Duration(n) * time.Second, true
}

// requestDirectives are those of a viewer's request. Pragma counts only where there is no
// Cache-Control (section 5.4).
func requestDirectives(h http.Header) directives {
	lines := h.Values("Cache-Control")
	if len(lines) == 0 && parseDirectives(h.Values("Pragma")).has("no-cache") {
		return directives{"no-cache": ""}
	}
	return parseDirectives(lines)
}
