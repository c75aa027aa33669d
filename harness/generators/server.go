package generators

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// maxMessage bounds a message, maxPiece a piece of a history, in bytes.
	maxMessage = 4 << 20
	maxPiece   = 8 << 20
	// beginWait is how long a generator that is ready waits for the order to begin before it has
	// to ask again.
	beginWait = 2 * time.Second
	// wallApart is how far two wall clocks may be apart before a line says so.
	wallApart = 5 * time.Second
)

// routes are the coordinator's API.
func (c *Coordinator) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*member, *http.Request) (any, error){
		"GET " + clockPath: c.clock, "POST " + joinPath: c.join, "POST " + beatPath: c.beat,
		"GET " + historyPath: c.size, "PUT " + historyPath: c.piece, "POST " + donePath: c.done,
		"POST " + failedPath: c.failed,
	} {
		mux.HandleFunc(strings.Replace(pattern, "%d", "{index}", 1),
			func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, handle) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bearer || subtle.ConstantTimeCompare([]byte(given), []byte(c.token)) != 1 {
			answer(w, http.StatusUnauthorized, errorMessage{"the token is not this run's"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serve answers one request of a generator.
func (c *Coordinator) serve(w http.ResponseWriter, r *http.Request,
	handle func(*member, *http.Request) (any, error),
) {
	index, err := strconv.Atoi(r.PathValue("index"))
	if err != nil || index < 0 || index >= len(c.members) {
		answer(w, http.StatusNotFound, errorMessage{fmt.Sprintf("there are %d generators, counted "+
			"from 0, and no %q", len(c.members), r.PathValue("index"))})
		return
	}
	m := c.members[index]
	c.hear(m, 1)
	defer c.hear(m, -1)
	r.Body = http.MaxBytesReader(w, r.Body, max(maxMessage, maxPiece))
	reply, err := handle(m, r)
	if err != nil {
		answer(w, http.StatusConflict, errorMessage{err.Error()})
		return
	}
	answer(w, http.StatusOK, reply)
}

// hear notes that a generator begins to ask, or has been answered.
func (c *Coordinator) hear(m *member, asking int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.heard, m.asking = time.Now(), m.asking+asking
}

// answer sends a message; whoever does not take it asks again.
func answer(w http.ResponseWriter, status int, message any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(message)
}

// read decodes the message of a request.
func read(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return fmt.Errorf("a message that cannot be read: %w", err)
	}
	return nil
}

// join lets a generator in, once: one that an engine has started anew would begin its schedule in
// the middle.
func (c *Coordinator) join(m *member, r *http.Request) (any, error) {
	var hello Hello
	if err := read(r, &hello); err != nil {
		return nil, err
	}
	if hello.Operations != c.settings.Operations {
		err := fmt.Errorf("it would offer other operations than this run: it is another build of " +
			"stampede")
		c.Lose(m.Index, err.Error())
		return nil, err
	}
	apart := time.Since(hello.Wall)
	err, name := error(nil), ""
	c.update(func() {
		if m.hello != nil && m.hello.ID != hello.ID {
			err = fmt.Errorf("%s has joined already, and is not started a second time", m.name())
			return
		}
		m.hello = &hello
		name = m.name()
	})
	if err == nil && apart.Abs() > wallApart {
		c.settings.Logf("the wall clock of %s is %s from this machine's; no time is taken from it",
			name, apart.Round(time.Second))
	}
	return struct{}{}, err
}

// clock says what time it is here.
func (c *Coordinator) clock(*member, *http.Request) (any, error) {
	return clockMessage{time.Since(c.epoch)}, nil
}

// beat takes a generator's status and gives it its orders. One that is ready waits a little for
// the order to begin.
func (c *Coordinator) beat(m *member, r *http.Request) (any, error) {
	var status Status
	if err := read(r, &status); err != nil {
		return nil, err
	}
	c.update(func() { m.status, m.ready = status, m.ready || status.Ready })
	wait := time.NewTimer(beginWait)
	defer wait.Stop()
	for {
		orders, changed := c.orders()
		if !status.Ready || orders.Begun || orders.Stop {
			return orders, nil
		}
		select {
		case <-changed:
		case <-wait.C:
			return orders, nil
		case <-r.Context().Done():
			return orders, nil
		}
	}
}

// orders is what every generator is to do now; changed is closed when that may be different.
func (c *Coordinator) orders() (o Orders, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o = Orders{Begun: c.begun, Targets: c.settings.Targets, Stop: c.stop}
	if c.begun {
		o.Base = c.base.Sub(c.epoch)
	}
	return o, c.changed
}

// size says how much of a generator's history is here.
func (c *Coordinator) size(m *member, _ *http.Request) (any, error) {
	m.upload.Lock()
	defer m.upload.Unlock()
	info, err := os.Stat(c.HistoryFile(m.Index))
	if errors.Is(err, os.ErrNotExist) {
		return sizeMessage{}, nil
	}
	if err != nil {
		return nil, err
	}
	return sizeMessage{info.Size()}, nil
}

// piece takes a piece of a generator's history. If it cannot be kept, such as on a full disk, the
// run fails.
func (c *Coordinator) piece(m *member, r *http.Request) (any, error) {
	m.upload.Lock()
	defer m.upload.Unlock()
	size, err := appendPiece(c.HistoryFile(m.Index), r)
	if _, ours := errors.AsType[*os.PathError](err); ours {
		c.update(func() { c.failLocked(fmt.Errorf("keeping the history of %s: %w", m.name(), err)) })
	}
	return sizeMessage{size}, err
}

// appendPiece appends a piece of a history at the offset that it names, which must be where the
// last one ended. One that is cut off is kept as far as it came.
func appendPiece(path string, r *http.Request) (size int64, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if r.URL.Query().Get("offset") != strconv.FormatInt(info.Size(), 10) {
		return 0, fmt.Errorf("a piece at %q, where %d bytes are here", r.URL.Query().Get("offset"),
			info.Size())
	}
	n, err := io.Copy(file, r.Body)
	return info.Size() + n, err
}

// done takes what a generator recorded, if its history has come whole; if not, that is thrown away.
func (c *Coordinator) done(m *member, r *http.Request) (any, error) {
	recorded := new(Recorded)
	if err := read(r, recorded); err != nil {
		return nil, err
	}
	m.upload.Lock()
	defer m.upload.Unlock()
	c.mu.Lock()
	again := m.recorded != nil && m.recorded.SHA256 == recorded.SHA256
	c.mu.Unlock()
	if again { // its answer was lost; the file may be merged by now
		return struct{}{}, nil
	}
	path := c.HistoryFile(m.Index)
	bytes, sum, err := digestOf(path)
	if err != nil {
		return nil, err
	}
	if bytes != recorded.Bytes || sum != recorded.SHA256 {
		return nil, errors.Join(fmt.Errorf("its history came as %d bytes, SHA-256 %s; it sent %d, %s",
			bytes, sum, recorded.Bytes, recorded.SHA256), os.Remove(path))
	}
	c.update(func() { m.recorded = recorded })
	return struct{}{}, nil
}

// digestOf is the size of a file and its SHA-256.
func digestOf(path string) (bytes int64, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	h := sha256.New()
	if bytes, err = io.Copy(h, file); err != nil {
		return 0, "", fmt.Errorf("reading %s: %w", path, err)
	}
	return bytes, hex.EncodeToString(h.Sum(nil)), nil
}

// failed takes why a generator gives up.
func (c *Coordinator) failed(m *member, r *http.Request) (any, error) {
	var why errorMessage
	if err := read(r, &why); err != nil {
		return nil, err
	}
	c.Lose(m.Index, why.Error)
	return struct{}{}, nil
}
