package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// keys are what tells the one person from everybody else who can reach the port:
// other users of the machine, and pages in the same browser.
type keys struct {
	token   string // in the address that is printed
	session string // in the cookie that the address is exchanged for
	form    string // in the page's forms
	files   string // in the paths of stored files

	mu   sync.Mutex
	once map[string]bool // addresses that work one time
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// admits says whether a token opens the door.
func (k *keys) admits(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.once[token] {
		delete(k.once, token)
		return true
	}
	return same(token, k.token)
}

// URL is the address of the page, with the token.
func (s *Server) URL() string { return s.address(s.keys.token) }

// OnceURL is an address that works one time, for the command line of a browser, which
// other users of the machine can read.
func (s *Server) OnceURL() string {
	token := rand.Text()
	s.keys.mu.Lock()
	s.keys.once[token] = true
	s.keys.mu.Unlock()
	return s.address(token)
}

func (s *Server) address(token string) string {
	return "http://" + s.host + "/?token=" + url.QueryEscape(token)
}

// checkHost refuses requests to another name than ours: a page of somebody else's
// whose name was made to point at this machine (DNS rebinding).
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, port, err := net.SplitHostPort(s.host)
		ours := []string{s.host, "localhost:" + port}
		if port == "80" { // which browsers leave out
			ours = append(ours, strings.TrimSuffix(s.host, ":80"), "localhost")
		}
		if err != nil || !slices.Contains(ours, strings.ToLower(r.Host)) {
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("This is stampede at %s, and the "+
				"request is for %q.", s.host, r.Host))
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// entered lets in who has the cookie, and exchanges the token for it.
func (s *Server) entered(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", s.pages.policy)
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		if r.URL.Path == "/" && r.Method == http.MethodGet && r.URL.Query().Has("token") {
			s.enter(w, r)
			return
		}
		if !ownRequest(r) {
			refuse(w, http.StatusForbidden, foreign)
			return
		}
		cookie, err := r.Cookie(s.cookieName())
		if err != nil || !same(cookie.Value, s.keys.session) {
			refuse(w, http.StatusForbidden, "Open the address that stampede ui has printed, with its "+
				"token, in this browser.")
			return
		}
		if err := protection.Check(r); err != nil {
			refuse(w, http.StatusForbidden, foreign)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign says why a request of another page is refused.
const foreign = "The request comes from another page than stampede's own."

// ownRequest says whether a page of ours asks, or a person who goes to one, as far as
// the browser tells: no other page loads or frames anything here.
func ownRequest(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// cookieName is one for each port: cookies know none, so that this one also goes to the
// servers on the other ports of this address.
func (s *Server) cookieName() string {
	return "stampede-ui-" + s.host[strings.LastIndexByte(s.host, ':')+1:]
}

// enter gives who has the token the cookie. The page that follows is a request of this
// one: a redirect would count as one of where the address was clicked, without cookie.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if !s.keys.admits(r.URL.Query().Get("token")) {
		refuse(w, http.StatusForbidden, "This address is not, or no longer, one of this stampede ui. "+
			"Open the one that it has printed.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: s.keys.session, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode})
	s.pages.write(w, http.StatusOK, "enter", nil)
}

// ownForm says whether a form is one of ours.
func (s *Server) ownForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "The form could not be read: "+err.Error())
		return false
	}
	if !same(r.PostForm.Get("form"), s.keys.form) {
		refuse(w, http.StatusForbidden, "The form is not one of this stampede ui. Load its page again.")
		return false
	}
	return true
}

// refuse answers with a sentence in plain text.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	w.WriteHeader(code)
	fmt.Fprintln(w, why)
}
