package web

import (
	"bytes"
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

	"stampede/harness/sut"
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

// Start serves a web from its return until stop is called. It listens at an address, host:port.
func Start(
	ctx context.Context, shape Shape, folder string,
) (at string, stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan string), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, shape, folder, func(at string) error {
			ready <- at
			<-ctx.Done()
			return nil
		})
	}()
	stop = func() error {
		cancel()
		return <-ended
	}
	select {
	case at = <-ready:
		return at, stop, nil
	case err = <-ended:
		cancel()
		return "", nil, fmt.Errorf("starting a web: %w", err)
	}
}

// Serve serves a web as long as work lasts: see Listen. Its log and its address go to a folder; a
// log that is there is continued, and no time is told twice.
func Serve(ctx context.Context, shape Shape, folder string, work func(string) error) (err error) {
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
	return Listen(ctx, http.HandlerFunc(s.serve), filepath.Join(folder, AddressFile), work)
}

// Listen serves on the loopback as long as work lasts, which is told the address. That is in a file
// too, which is written all at once. Every request is told when ctx is cancelled.
func Listen(ctx context.Context, h http.Handler, file string, work func(at string) error) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) }) // it ends when it is closed
	at := ln.Addr().String()
	if err = Point(file, at); err == nil {
		err = work(at)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(closing) // those who wait longer are cut off
	_ = server.Close()
	serving.Wait()
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
	if a.Silent {
		<-r.Context().Done()
	} else {
		sut.Pause(r.Context(), a.Takes)
	}
	seen := int64(time.Since(s.began))
	// Once the web ends, it is not known whether anybody still keeps what it answers.
	live := connected(r.Context()) && !a.Silent && r.Context().Err() == nil
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.NewEncoder(s.out).Encode(e); err != nil {
		return fmt.Errorf("writing the web's log: %w", err)
	}
	return nil
}

func (s *Server) send(w http.ResponseWriter, a Answer) {
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(max(a.Declared, len(a.Body))))
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
	text, err := os.ReadFile(filepath.Join(folder, LogFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the web's log: %w", err)
	}
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var e Exchange
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // it is being written
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("reading the web's log: %w", err)
		}
		list = append(list, e)
	}
}
