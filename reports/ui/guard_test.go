package ui_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/reports/ui"
)

func TestListensToThisMachineAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:80",
		"127.0.0.1", "", "127.0.0.1.example.org:0"} {
		if l, err := ui.Listen(address); err == nil || !strings.Contains(err.Error(), "--listen is") {
			t.Errorf("%q: %v", address, err)
			if l != nil {
				l.Close()
			}
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
		l, err := ui.Listen(address)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		if _, err := ui.Listen(l.Addr().String()); err == nil ||
			!strings.Contains(err.Error(), "in use") {
			t.Errorf("twice: %v", err)
		}
		l.Close()
	}
}

// TestWhoIsLetIn: nobody without the cookie, and the cookie for the token alone.
func TestWhoIsLetIn(t *testing.T) {
	s := newSite(t, "runs")
	for _, path := range []string{"/", "/live", "/start/sale", "/job", "/run/sale/x", "/nothing",
		"/?token=", "/?token=AAAAAAAAAAAAAAAAAAAAAAAAAA", "/files/x/index.html"} {
		if code, text := s.get(t, path); code != http.StatusForbidden || strings.Contains(text, "<") {
			t.Errorf("%s without a cookie: %d\n%s", path, code, text)
		}
	}
	if code, _ := s.post(t, "/start", url.Values{}); code != http.StatusForbidden {
		t.Errorf("posting without a cookie: %d", code)
	}
	s.enter(t)
	if code, text := s.get(t, "/"); code != http.StatusOK || !strings.Contains(text, "Who wins?") {
		t.Errorf("with the cookie: %d\n%s", code, text)
	}
	at, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	cookies := s.Jar.Cookies(at)
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "stampede-ui-") ||
		strings.Contains(s.server.URL(), cookies[0].Value) {
		t.Fatalf("%+v", cookies)
	}
	cookies[0].Value = "wrong"
	s.Jar.SetCookies(at, cookies)
	if code, _ := s.get(t, "/"); code != http.StatusForbidden {
		t.Errorf("with a wrong cookie: %d", code)
	}
}

// TestCookie: for this server, for requests of its own pages, and for no script.
func TestCookie(t *testing.T) {
	s := newSite(t, "runs")
	response, err := s.Get(s.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	c := response.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	policy := response.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-",
		"frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q", policy)
		}
	}
}

// TestOnceURL: an address for a command line works once.
func TestOnceURL(t *testing.T) {
	s := newSite(t, "runs")
	once := s.server.OnceURL()
	for i, want := range []int{http.StatusOK, http.StatusForbidden} {
		if code, _ := s.get(t, once); code != want {
			t.Errorf("time %d: %d", i, code)
		}
	}
}

// TestForeignRequests are refused, with the cookie and the form's key as well: from
// another name, another page, another page on this machine.
func TestForeignRequests(t *testing.T) {
	s := inside(t, "runs")
	form := s.form(t)
	port := s.base[strings.LastIndexByte(s.base, ':'):]
	for name, headers := range map[string][]string{
		"another name":          {"Host", "evil.example" + port},
		"another port":          {"Host", "127.0.0.1:1"},
		"no port":               {"Host", "127.0.0.1"},
		"a name that begins so": {"Host", "localhost.evil.example" + port},
	} {
		if code, _ := s.get(t, "/", headers...); code != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", name, code)
		}
		if code, _ := s.get(t, "/files/x/y", headers...); code != http.StatusMisdirectedRequest {
			t.Errorf("a file by %s: %d", name, code)
		}
	}
	for name, headers := range map[string][]string{
		"a foreign origin":       {"Origin", "https://evil.example"},
		"no origin":              {"Origin", "null"},
		"another port":           {"Origin", "http://127.0.0.1:1"},
		"another site":           {"Sec-Fetch-Site", "cross-site"},
		"another port, fetching": {"Sec-Fetch-Site", "same-site"},
		"a form on another site": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "document"},
	} {
		for _, path := range []string{"/start", "/interrupt"} {
			if code, text := s.post(t, path, form, headers...); code != http.StatusForbidden {
				t.Errorf("%s to %s: %d\n%s", name, path, code, text)
			}
		}
	}
	for name, headers := range map[string][]string{
		"a frame": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest",
			"iframe"},
		"a stream": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
	} {
		if code, _ := s.get(t, "/live", headers...); code != http.StatusForbidden {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code, _ := s.get(t, "/", "Host", "localhost"+port); code != http.StatusForbidden {
		t.Errorf("localhost has no cookie: %d", code)
	}
	if folder, err := os.ReadDir(s.root); err == nil {
		t.Errorf("something was started: %v", folder)
	}
}

// TestPort80: browsers leave it out of the name, and no other port.
func TestPort80(t *testing.T) {
	for address, cases := range map[string]map[string]int{
		"127.0.0.1:80": {"127.0.0.1": http.StatusForbidden, "localhost": http.StatusForbidden,
			"127.0.0.1:80": http.StatusForbidden, "[::1]": http.StatusMisdirectedRequest,
			"127.0.0.1:8080": http.StatusMisdirectedRequest, "evil.example": http.StatusMisdirectedRequest},
		"[::1]:80":       {"[::1]": http.StatusForbidden, "127.0.0.1": http.StatusMisdirectedRequest},
		"127.0.0.1:8080": {"127.0.0.1": http.StatusMisdirectedRequest},
	} {
		at, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		handler := ui.New(ui.Options{}, at).Handler()
		for host, want := range cases {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Host = host
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s at %s: %d, want %d", host, address, w.Code, want)
			}
		}
	}
}

// TestForms: only ours do anything, and only by POST.
func TestForms(t *testing.T) {
	s := inside(t, "runs")
	form := s.form(t)
	for _, path := range []string{"/start?" + form.Encode(), "/interrupt?" + form.Encode()} {
		if code, _ := s.get(t, path); code != http.StatusMethodNotAllowed && code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	for _, key := range []string{"", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		form.Set("form", key)
		for _, path := range []string{"/start", "/interrupt"} {
			if code, text := s.post(t, path, form); code != http.StatusForbidden ||
				!strings.Contains(text, "not one of this") {
				t.Errorf("key %q: %d\n%s", key, code, text)
			}
		}
	}
	form.Set("form", strings.Repeat("x", 100<<10))
	if code, _ := s.post(t, "/start", form); code != http.StatusBadRequest {
		t.Errorf("a form of 100 KiB: %d", code)
	}
	if _, err := os.Stat(s.root); err == nil {
		t.Error("something was started")
	}
}

// TestFiles: what is below the folder is served as harmless as it can be, and nothing
// else is.
func TestFiles(t *testing.T) {
	s := inside(t, "runs")
	run, name := s.write(t, time.Now())
	for file, text := range map[string]string{rootFile(s, "../secret.txt"): "secret",
		rootFile(s, name, "evil.html"):            "<script>alert(1)</script>",
		rootFile(s, name, "logs", "x.log"):        "<b>",
		rootFile(s, name, "summary2.json"):        "{}",
		rootFile(s, name, "vector.svg"):           "<svg/>",
		rootFile(s, name, ".hidden"):              "hidden",
		rootFile(s, name, "history", "a.history"): "\x00"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Dir(s.root)
	for from, to := range map[string]string{
		rootFile(s, name, "out.txt"): filepath.Join(outside, "secret.txt"),
		rootFile(s, name, "up.txt"):  "../../../secret.txt",
		rootFile(s, "sale", "away"):  outside,
		rootFile(s, "elsewhere"):     outside,
		rootFile(s, name, "in.txt"):  "logs/x.log",
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.finish(); err != nil {
		t.Fatal(err)
	}
	_, home := s.get(t, "/")
	base := "/files/" + between(home, `href="/files/`, `/index.html`) + "/"
	for path, want := range map[string]string{
		name + "/report.html": "text/html; charset=utf-8",
		name + "/evil.html":   "text/html; charset=utf-8",
		name + "/logs/x.log":  "text/plain; charset=utf-8", name + "/summary2.json": "application/json",
		name + "/vector.svg":        "text/plain; charset=utf-8",
		name + "/in.txt":            "text/plain; charset=utf-8",
		name + "/history/a.history": "application/octet-stream",
		name + "/events.ndjson":     "text/plain; charset=utf-8",
		"index.html":                "text/html; charset=utf-8",
		name + "/logs/":             "text/html; charset=utf-8",
	} {
		s.served(t, base+path, want)
	}
	if _, text := s.get(t, base+name+"/"); !strings.Contains(text, `href="./report.html"`) ||
		!strings.Contains(text, `href="./logs/"`) || strings.Contains(text, ".hidden") {
		t.Errorf("the folder: %s", text)
	}
	for _, path := range []string{"../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt",
		name + "/../../../secret.txt", name + "/out.txt", name + "/up.txt", "sale/away/secret.txt",
		"elsewhere/secret.txt", name + "/.hidden", name + "/.lock", name, "sale/away/", "",
		"elsewhere/", name + "/report.html/", "/", "/etc/passwd",
		name + "/nothing.txt", "C:/x", `..\secret.txt`} {
		code, text := s.get(t, base+path)
		if code == http.StatusOK || strings.Contains(text, "secret\n") || text == "secret" {
			t.Errorf("%s: %d\n%s", path, code, text)
		}
	}
	for _, path := range []string{"/run/sale/away", "/run/elsewhere/runs", "/run/sale/..",
		"/run/..%2f/x", "/run/sale/" + filepath.Base(name) + "x"} {
		if code, text := s.get(t, path); code != http.StatusNotFound &&
			code != http.StatusTemporaryRedirect && code != http.StatusMovedPermanently {
			t.Errorf("%s: %d\n%s", path, code, text)
		}
	}
}

func rootFile(s *site, parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// served fails unless a file is there, as a type, and may do nothing here.
func (s *site) served(t *testing.T, path, as string) {
	t.Helper()
	fresh := &http.Client{Transport: s.Transport} // it needs no cookie
	response, err := fresh.Get(s.base + path)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	policy := response.Header.Get("Content-Security-Policy")
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != as ||
		!strings.HasPrefix(policy, "sandbox allow-scripts; default-src 'none'") ||
		strings.Contains(policy, "allow-same-origin") ||
		response.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: %s %q", path, response.Status, response.Header)
	}
}

// between is what stands between two texts.
func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, ok := strings.Cut(rest, after)
	if !ok {
		return ""
	}
	return found
}
