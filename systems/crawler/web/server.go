package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Exchange is a request and its answer in the web's log. Times are of the web's own monotonic
// clock, since it began.
type Exchange struct {
	Agent  string `json:"agent" doc:"the User-Agent, which is another one for each process"`
	Key    string `json:"key" doc:"host, path and query of the page in their one normal form"`
	IP     string `json:"ip" doc:"the address of the host, which several share"`
	AtNS   int64  `json:"at_ns" min:"0" doc:"when the request was there"`
	SeenNS int64  `json:"seen_ns" min:"0" doc:"the last time at which the client was certainly waiting for the answer: just before that was sent, or at_ns if it had gone by then"`
	Stale  bool   `json:"stale,omitzero" doc:"the client had gone before anybody looked at the request, which may have been sent long before"`
	Status int    `json:"status" min:"0" doc:"0 if there was no answer, or the client had gone when it was sent"`
	Hash   string `json:"hash" doc:"SHA-256 of a page that was sent as it is; empty if it was not, because it is torn or larger than may be read"`
	Bytes  int64  `json:"bytes" min:"0" doc:"of that page"`
}

// Server is the web as a proxy.
type Server struct {
	shape Shape
	began time.Time
	nonce atomic.Uint64

	mu     sync.Mutex
	before map[string]int // how often each key was asked for
	out    *os.File
}

// LogFile is the name of the log in a web's folder, AddressFile of where the web listens.
const (
	LogFile     = "web.log"
	AddressFile = "web.addr"
)

// Serve serves a web on the loopback until ctx is cancelled. Its log and its address go to a
// folder; a log that is there is continued, and no time is told twice. ready is called once it
// listens.
func Serve(ctx context.Context, shape Shape, folder string, ready func()) (err error) {
	list, err := ReadLog(folder)
	if err != nil {
		return err
	}
	s := &Server{shape: shape, began: time.Now(), before: map[string]int{}}
	for _, e := range list {
		s.before[e.Key]++
		if at := time.Now().Add(-time.Duration(e.SeenNS) - time.Second); at.Before(s.began) {
			s.began = at
		}
	}
	s.out, err = os.OpenFile(filepath.Join(folder, LogFile),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the web's log: %w", err)
	}
	defer func() { err = errors.Join(err, s.out.Close()) }()
	return Listen(ctx, http.HandlerFunc(s.serve), filepath.Join(folder, AddressFile), func() error {
		ready()
		<-ctx.Done()
		return nil
	})
}

// Listen serves on the loopback as long as work lasts, or until ctx is cancelled, which every
// request is told. Its address is in a file, which is written all at once.
func Listen(ctx context.Context, h http.Handler, file string, work func() error) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // it ends when it is closed
	}()
	if err = Point(file, ln.Addr().String()); err == nil {
		err = work()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(closing) // those who wait longer are cut off
	_ = server.Close()
	<-ended
	return err
}

// Point makes a file say where somebody listens. It changes all at once.
func Point(file, at string) error {
	err := os.WriteFile(file+".new", []byte(at), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("saying where the web is: %w", err)
	}
	return nil
}

type connKey struct{}

// connected says whether the client of a connection has not closed its side. What the kernel has
// heard of it counts, whether or not anybody has read it yet.
func connected(ctx context.Context) bool {
	sys, is := ctx.Value(connKey{}).(syscall.Conn)
	if !is {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = n > 0 || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	})
	return err == nil && open
}

// serve answers a request for a page, whose URL is whole, as a proxy's are; or for the address of a
// host, "/ip/h1.test", as a name server would.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if name, asked := strings.CutPrefix(r.URL.Path, "/ip/"); asked && !r.URL.IsAbs() {
		host, is := s.shape.Number(name)
		if !is {
			http.Error(w, "no such host", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, s.shape.IP(host))
		return
	}
	e := Exchange{Agent: r.UserAgent(), AtNS: int64(time.Since(s.began)),
		Key: Canonical(r.URL.Host, r.URL.EscapedPath(), r.URL.RawQuery)}
	e.SeenNS = e.AtNS
	if e.Stale = !connected(r.Context()); e.Stale {
		_ = s.write(e) // who knows when it was sent: nobody waits for it
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	before := s.before[e.Key]
	s.before[e.Key]++
	s.mu.Unlock()
	a := s.shape.Answer(e.Key, time.Duration(e.AtNS), before, s.nonce.Add(1))
	if name, _ := Split(e.Key); a.Status != http.StatusBadGateway {
		host, _ := s.shape.Number(name)
		e.IP = s.shape.IP(host)
	}
	pause := time.NewTimer(a.Takes)
	defer pause.Stop()
	if a.Silent {
		pause.Stop()
	}
	select {
	case <-pause.C:
	case <-r.Context().Done():
	}
	seen := int64(time.Since(s.began))
	live := connected(r.Context()) && !a.Silent
	if live {
		e.SeenNS, e.Status, e.Hash = seen, a.Status, a.Hash
		e.Bytes = int64(len(a.Body)) * int64(min(1, len(a.Hash)))
	}
	if err := s.write(e); err != nil || a.Silent || a.Shut || !live {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	s.send(w, a)
}

func (s *Server) write(e Exchange) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("writing the web's log: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the web's log: %w", err)
	}
	return nil
}

func (s *Server) send(w http.ResponseWriter, a Answer) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(a.Declared))
	for name, value := range map[string]string{"Content-Type": a.Type, "Location": a.Location,
		"Content-Encoding": a.Encoding} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if a.News {
		h.Set("Cache-Control", fmt.Sprintf("max-age=%g", s.shape.NewsEvery.D().Seconds()))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a client may go at any time
	if a.Declared > len(a.Body) {
		panic(http.ErrAbortHandler)
	}
}

// ReadLog reads the log of a web in a folder, nothing if there is none. What is written at the time
// may be cut off.
func ReadLog(folder string) ([]Exchange, error) {
	list := []Exchange{}
	f, err := os.Open(filepath.Join(folder, LogFile))
	if errors.Is(err, os.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the web's log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return list, nil // the end, or a line that is being written
		}
		var e Exchange
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the web's log: %w", err)
		}
		list = append(list, e)
	}
}
