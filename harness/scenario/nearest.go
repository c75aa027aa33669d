package scenario

import "strings"

// oneOf lists names as an expectation.
func oneOf(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}
