// Package ui serves a page on this machine, for one person: it lists the runs of a
// folder, follows the ones that are going on, and starts new ones.
package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Options say what is served.
type Options struct {
	// Root is the folder of the runs. It need not exist yet.
	Root string
	// Scenarios can be started.
	Scenarios []Scenario
	// Backends are the values of --backend that can be chosen, the default first.
	Backends []string
	// Command makes a command of stampede's arguments.
	Command func(args ...string) *exec.Cmd
	// Logf tells what is worth a line.
	Logf func(format string, args ...any)
}

// Scenario is one that can be started.
type Scenario struct {
	Name, Question, System string
	Variants, Profiles     []string
	// Known says which variants are known to be wrong.
	Known map[string]bool
}

const (
	// mostFollowers bounds how many pages follow something at a time.
	mostFollowers = 16
	// patience is how long a run may take to end after the server was told to,
	// before it is told again and then killed.
	patience = 2 * time.Minute
	// politeness is how long answers under way may take then.
	politeness = 5 * time.Second
)

// Server is the page's server. Its methods may be called from many goroutines.
type Server struct {
	Options
	keys  keys
	pages pages
	seen  seen
	// followers has a place for each page that follows something.
	followers chan struct{}
	closing   chan struct{}
	host      string // that it listens on

	mu     sync.Mutex
	root   *os.Root // nil until the folder is there
	job    *job     // the run that was started last, nil before
	closed bool
}

// New makes a server for the address that it will listen on; see Listen.
func New(opts Options, at net.Addr) *Server {
	s := &Server{Options: opts, host: at.String(), followers: make(chan struct{}, mostFollowers),
		closing: make(chan struct{}), pages: newPages()}
	s.keys = keys{token: rand.Text(), session: rand.Text(), form: rand.Text(), files: rand.Text(),
		once: map[string]bool{}}
	return s
}

// Listen opens a port of this machine alone. An address that others could reach is an
// error.
func Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--listen is %q; expected host:port, such as 127.0.0.1:0: %w",
			address, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("--listen is %q; this page starts programs, so it is served to this "+
			"machine alone: 127.0.0.1, [::1] or localhost", address)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return l, nil
}

// Serve answers on a listener until ctx ends. Then it interrupts the run that it has
// started, if one is going on, and returns when that has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(logWriter{s.Logf}, "", 0)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		failed = nil
	}
	s.close()
	polite, cancel := context.WithTimeout(context.WithoutCancel(ctx), politeness)
	defer cancel()
	if server.Shutdown(polite) != nil {
		err = errors.Join(err, server.Close())
	}
	if failed != nil {
		if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
	}
	s.finishJob()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		err = errors.Join(err, s.root.Close())
	}
	return err
}

// close starts nothing more and lets go of who follows.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}

// finishJob waits for the run that was started, which it interrupts unless somebody has.
func (s *Server) finishJob() {
	j := s.current()
	if j == nil || j.ended() {
		return
	}
	times, first := j.interrupt(0)
	if first {
		s.Logf("interrupting the run of %s, which is judged and reported", j.scenario)
	} else {
		s.Logf("waiting for the run of %s to end", j.scenario)
	}
	for times < kill {
		select {
		case <-j.done:
			return
		case <-time.After(patience):
			times, _ = j.interrupt(times)
		}
	}
	<-j.done
}

// Abandon lets the run that was started leave at once, if it has been interrupted: for
// who does not wait for Serve to return.
func (s *Server) Abandon() {
	if j := s.current(); j != nil {
		j.interrupt(j.state().Interrupts)
	}
}

// current is the run that was started last, nil if none was.
func (s *Server) current() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

// folder opens the folder of the runs, nil if there is none. One that was removed and
// made again is another.
func (s *Server) folder() *os.Root {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	now, err := os.Stat(s.Root)
	if s.root != nil {
		before, beforeErr := s.root.Stat(".")
		if err == nil && beforeErr == nil && os.SameFile(now, before) {
			return s.root
		}
		_ = s.root.Close() // whoever reads in it finds nothing, as there is nothing
		s.root = nil
	}
	if err == nil {
		if root, err := os.OpenRoot(s.Root); err == nil {
			s.root = root
		}
	}
	return s.root
}

// Handler answers requests; see Serve.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("GET /live", s.followRuns)
	mux.HandleFunc("GET /start/{scenario}", s.form)
	mux.HandleFunc("POST /start", s.start)
	mux.HandleFunc("GET /job", s.showJob)
	mux.HandleFunc("POST /interrupt", s.interrupt)
	mux.HandleFunc("GET /run/{scenario}/{run}", s.showRun)
	mux.HandleFunc("GET /run/{scenario}/{run}/live", s.followRun)
	outside := http.NewServeMux()
	outside.HandleFunc("GET /files/{key}/{path...}", s.file)
	outside.Handle("/", s.entered(mux))
	return s.checkHost(outside)
}

// logWriter gives the server's own complaints a line each.
type logWriter struct {
	logf func(format string, args ...any)
}

// Write logs a line.
func (w logWriter) Write(p []byte) (int, error) {
	w.logf("%s", string(p[:max(0, len(p)-1)]))
	return len(p), nil
}
