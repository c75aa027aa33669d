package crawler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

// addressFile says where the process listens that has the frontier.
const addressFile = "frontier.addr"

// serveFrontier fetches with a frontier in memory, and answers APIs that ask for it.
func serveFrontier(ctx context.Context, st *opened, folder string) (err error) {
	m, err := openMemory(st.Params, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.log.Close()) }()
	return serveBook(ctx, m, m.waits, folder, func(ctx context.Context) error {
		return newFetcher(st, m, remembered).run(ctx)
	})
}

// serveBook answers APIs as long as it works.
func serveBook(
	ctx context.Context, b book, left func() int, folder string, work func(context.Context) error,
) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /seed", func(w http.ResponseWriter, r *http.Request) {
		var req seedCall
		err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&req)
		if err == nil {
			err = b.seed(r.Context(), req.Op, req.Found)
		}
		answerCall(w, struct{}{}, err)
	})
	mux.HandleFunc("GET /look", func(w http.ResponseWriter, r *http.Request) {
		page, err := b.look(r.Context(), r.URL.Query().Get("url"))
		answerCall(w, page, err)
	})
	mux.HandleFunc("GET /left", func(w http.ResponseWriter, _ *http.Request) {
		answerCall(w, left(), nil)
	})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serving the frontier: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(ln) // it ends when it is closed
	}()
	if err = web.Publish(folder, addressFile, ln.Addr().String()); err == nil {
		err = work(ctx)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = server.Shutdown(closing) // those who wait longer are cut off
	_ = server.Close()
	<-ended
	return err
}

type seedCall struct {
	Op    uint64
	Found found
}

func answerCall(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(reply) // who asked may have gone
}

// remote is the frontier of another process.
type remote struct {
	*opened
	http *http.Client
}

func newRemote(st *opened) *remote {
	return &remote{st, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (r *remote) seed(ctx context.Context, op uint64, f found) error {
	raw, err := json.Marshal(seedCall{op, f})
	if err == nil {
		err = r.call(ctx, http.MethodPost, "/seed", raw, &struct{}{})
	}
	return stores.Failed("keeping a seed", err)
}

func (r *remote) look(ctx context.Context, address string) (p Page, err error) {
	err = r.call(ctx, http.MethodGet, "/look?url="+url.QueryEscape(address), nil, &p)
	return p, stores.Failed("looking for a page", err)
}

// left asks once.
func (r *remote) left(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(r.Config))
	defer cancel()
	at, err := r.where()
	if err == nil {
		err = r.ask(ctx, http.MethodGet, at+"/left", nil, &n)
	}
	return n, err
}

func (r *remote) where() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.Config.Folder, addressFile))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return "http://" + strings.TrimSpace(string(text)), nil
}

// call asks the process that has the frontier, and waits a little for one that is being started.
// That nobody listens proves that nothing was done.
func (r *remote) call(ctx context.Context, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(r.Config))
	defer cancel()
	until := time.Now().Add(stores.Timeout(r.Config) / 2)
	for {
		at, err := r.where()
		if err == nil {
			err = r.ask(ctx, method, at+path, body, into)
		}
		if !errors.Is(err, ErrUnavailable) || time.Now().After(until) || !sut.Pause(ctx, idle) {
			return err
		}
	}
}

func (r *remote) ask(ctx context.Context, method, at string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the frontier: %w", err)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return fmt.Errorf("asking the frontier: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New("it answered " + strconv.Itoa(resp.StatusCode) + ": " + string(raw))
	}
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("asking the frontier: %w", err)
	}
	return nil
}
