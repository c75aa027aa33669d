package crawler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

// addressFile says where the process listens that has the frontier, and leftPath is where it tells
// how many pages wait.
const (
	addressFile = "frontier.addr"
	leftPath    = "/left"
)

// serveFrontier fetches with a frontier in memory, and serves the API to the processes that clients
// ask.
func serveFrontier(ctx context.Context, st *opened) (err error) {
	m, err := openMemory(st.Params, st.Config.Folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.log.Close()) }()
	own := st.Config
	own.FailPoint = nil // of the fetcher; those of the API are passed by its own processes
	handler, err := API().HandlerOf(newDesk(&opened{Config: own, Params: st.Params}, m), own)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET "+leftPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, m.waits())
	})
	return web.Listen(ctx, mux, filepath.Join(own.Folder, addressFile), func(string) error {
		return newFetcher(st, m, remembered).run(ctx)
	})
}

// remote is the crawler whose frontier another process has.
type remote struct {
	*opened

	mu     sync.Mutex
	at     string
	target sut.Instance
}

// where is the process that has the frontier.
func where(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, addressFile))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return "http://" + string(text), nil
}

// reach reaches it.
func (r *remote) reach() (sut.Instance, error) {
	at, err := where(r.Config.Folder)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if at != r.at {
		target, err := API().Target(at, r.Config)
		if err != nil {
			return nil, err
		}
		if r.target != nil {
			_ = r.target.Close() // of a process that is gone
		}
		r.at, r.target = at, target
	}
	return r.target, nil
}

// asked asks for an operation, and waits a little for a process that is being started. A refusal
// proves that nothing was done.
func asked[R any](ctx context.Context, r *remote, kind string, request any) (reply R, err error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(r.Config))
	defer cancel()
	until := time.Now().Add(stores.Timeout(r.Config) / 2)
	for op := API().Op(kind, request); ; {
		var got history.Reply
		target, err := r.reach()
		if err == nil {
			got, err = target.Do(ctx, op)
		}
		switch {
		case err == nil:
			return reply, json.Unmarshal(got.Body, &reply)
		case !errors.Is(err, sut.ErrRefused) || errors.Is(err, ErrNoPage):
			return reply, err
		case time.Now().After(until) || !sut.Pause(ctx, idle):
			return reply, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// Seed makes a seed durable.
func (r *remote) Seed(ctx context.Context, req SeedRequest) (Seeded, error) {
	seeded, err := asked[Seeded](ctx, r, KindSeed, req)
	if err == nil {
		r.Config.Passed(placeKept)
	}
	return seeded, err
}

// Look reads what is known of a page.
func (r *remote) Look(ctx context.Context, req LookRequest) (Page, error) {
	return asked[Page](ctx, r, KindLook, req)
}

// left asks how many pages wait, once.
func left(ctx context.Context, st *opened) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	at, err := where(st.Config.Folder)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+leftPath, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fscan(resp.Body, &n)
	return n, errors.Join(err, resp.Body.Close())
}

// Close ends what is idle.
func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.target == nil {
		return nil
	}
	return r.target.Close()
}
