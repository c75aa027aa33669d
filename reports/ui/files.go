package ui

import (
	"bytes"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"

	"stampede/reports/page"
)

// storedPolicy is what a stored page may do: run its own script, and nothing else. The
// sandbox gives it an origin of its own, so that whatever is in a folder of runs can
// neither read nor steer this page. It cannot load anything, fetch or post; it can still
// lead its own tab elsewhere, with what it knows in the address.
const storedPolicy = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; " +
	"style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// indexPath is the page over all runs, which is made when it is asked for.
const indexPath = "index.html"

// href is where a stored file is served.
func (s *Server) href(file string) string { return "/files/" + s.keys.files + "/" + file }

// file serves what is stored below the folder of the runs. The key in the path stands
// for the cookie: a stored page has another origin, and browsers send no cookie with
// what such a page links to.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", storedPolicy)
	name, asFolder := strings.CutSuffix(r.PathValue("path"), "/")
	root := s.folder()
	switch {
	case !same(r.PathValue("key"), s.keys.files):
		refuse(w, http.StatusForbidden, "This address is not, or no longer, one of this stampede ui.")
	case root == nil || !fs.ValidPath(name) || hiddenPath(name):
		refuse(w, http.StatusNotFound, "There is no such file.")
	case name == indexPath:
		s.index(w, r)
	default:
		stored(w, r, root, name, asFolder)
	}
}

// stored serves a file of the folder, or what a folder in it has; no link leads out.
func stored(
	w http.ResponseWriter, r *http.Request, root *os.Root, name string, asFolder bool,
) {
	info, err := root.Stat(name)
	if err == nil && info.IsDir() && asFolder {
		listing(w, root, name)
		return
	}
	if err != nil || !info.Mode().IsRegular() || asFolder {
		refuse(w, http.StatusNotFound, "There is no such file.")
		return
	}
	file, err := root.Open(name)
	if err != nil {
		refuse(w, http.StatusNotFound, "The file cannot be read.")
		return
	}
	defer file.Close() // opened for reading: nothing to lose
	w.Header().Set("Content-Type", contentType(name))
	http.ServeContent(w, r, name, info.ModTime(), file)
}

// listing lists a folder, to which reports have links.
func listing(w http.ResponseWriter, root *os.Root, name string) {
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		refuse(w, http.StatusNotFound, "The folder cannot be read.")
		return
	}
	var names []string
	for _, e := range entries {
		if !hiddenPath(e.Name()) {
			names = append(names, e.Name()+map[bool]string{true: "/"}[e.IsDir()])
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// A reader that has gone needs none.
	_ = folderPage.Execute(w, map[string]any{"Name": name, "Files": names})
}

// folderPage is a folder's list of files.
var folderPage = template.Must(template.New("folder").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>{{.Name}}</title><h1>{{.Name}}</h1>
<ul>{{range .Files}}<li><a href="./{{.}}">{{.}}</a></li>{{else}}<li>nothing</li>{{end}}</ul></html>
`))

// hiddenPath says that a part of a path begins with a dot: locks and half-written files.
func hiddenPath(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// contentType is by the name: pages are pages, numbers are JSON, and anything else that
// is not binary is plain text, which a browser shows and does not interpret.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html", ".json":
		return mime.TypeByExtension(ext)
	case ".history", ".gz", ".zst":
		return "application/octet-stream"
	}
	return "text/plain; charset=utf-8"
}

// index makes the page over all finished runs.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	x, err := page.LoadIndex(s.Root)
	var out bytes.Buffer
	if err = errors.Join(err, page.WriteIndex(&out, x)); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method != http.MethodHead {
		_, _ = out.WriteTo(w) // a reader that has gone needs none
	}
}
