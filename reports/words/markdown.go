package words

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"stampede/harness/plain"
)

// MarkdownLimit is what a summary may have: a GitHub step summary over 1 MiB
// aborts the upload.
const MarkdownLimit = 900_000

// Limited cuts at the last line that fits, with a note; where not even that fits,
// nothing is left.
func Limited(text []byte, limit int) []byte {
	const note = "\n*Cut: the summary would be larger than CI systems accept. See report.html.*\n"
	if len(text) <= limit {
		return text
	}
	if limit < len(note) {
		return nil
	}
	cut := bytes.LastIndexByte(text[:limit-len(note)], '\n')
	return append(text[:cut+1:cut+1], note...)
}

// Template parses a template of plain text, in which md is EscapeMD.
func Template(text string, functions template.FuncMap) (*template.Template, error) {
	t, err := template.New("").Funcs(template.FuncMap{"md": EscapeMD}).Funcs(functions).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	return t, nil
}

// EscapeMD takes the meaning from Markdown's, HTML's and GitHub's special
// characters, and from what would make a list or a rule of a line's beginning, or an order
// to GitHub's runner where it is printed in a log.
func EscapeMD(text string) string {
	text = strings.TrimSpace(plain.Line(text))
	if leading.MatchString(text) {
		mark := strings.IndexAny(text, ".)-+=")
		return text[:mark] + `\` + text[mark:mark+1] + special.Replace(text[mark+1:])
	}
	return special.Replace(text)
}

// leading is a list's mark or a rule at the beginning of a line.
var leading = regexp.MustCompile(`^([0-9]{1,9}[.)]( |$)|[-+]( |$)|[-=][-= ]*$)`)

var special = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`",
	"~", `\~`, "$", `\$`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`,
	"@", "@\u200b")
