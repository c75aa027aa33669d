package ui

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"stampede/reports/page"
)

//go:embed pages.gohtml ui.css ui.js
var assets embed.FS

// pages are the templates with what they have in common.
type pages struct {
	templates *template.Template
	policy    string
	style     template.HTML
	script    template.HTML
}

// framed is a page in its frame.
type framed struct {
	Style, Script template.HTML
	Page          any
}

func newPages() pages {
	css, js := page.Look()
	css += "\n" + asset("ui.css")
	js += "\n" + asset("ui.js")
	p := pages{
		templates: template.Must(template.ParseFS(assets, "pages.gohtml")),
		style:     template.HTML("<style>" + css + "</style>"),
		script:    template.HTML("<script>" + js + "</script>"),
	}
	p.policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
		page.Digest(css), page.Digest(js))
	return p
}

func asset(name string) string {
	data, err := assets.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("ui: embedded file %s: %v", name, err))
	}
	return strings.TrimSpace(string(data))
}

// write answers with a page.
func (p pages) write(w http.ResponseWriter, code int, name string, page any) {
	var b bytes.Buffer
	err := p.templates.ExecuteTemplate(&b, name, framed{p.style, p.script, page})
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = b.WriteTo(w) // a reader that has gone needs none
}
