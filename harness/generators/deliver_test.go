package generators

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/load"
	"stampede/harness/rundir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// coordinate starts a coordinator of so many generators, and clients of them.
func coordinate(t *testing.T, n int) (*Coordinator, []*Client) {
	t.Helper()
	c, err := Coordinate(Settings{Count: n, Operations: "x", Folder: t.TempDir(), Logf: t.Logf,
		Targets: []string{"http://127.0.0.1:9"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var clients []*Client
	for i := range n {
		client, err := Dial(Plan{Generators: n, Coordinator: c.URL(), Token: c.Token()}, i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		clients = append(clients, client)
	}
	return c, clients
}

// torn breaks pieces of a history on their way: the first is cut off, the second changed.
type torn struct {
	http.RoundTripper
	pieces atomic.Int64
}

func (b *torn) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return b.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch b.pieces.Add(1) {
	case 1:
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:len(body)/2])), failing{}))
	case 2:
		body[0]++
		fallthrough
	default:
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	return b.RoundTripper.RoundTrip(r)
}

// TestADiskThatKeepsNothing: it is said what is wrong, and not of a generator.
func TestADiskThatKeepsNothing(t *testing.T) {
	c, clients := coordinate(t, 1)
	path := filepath.Join(t.TempDir(), "history")
	if err := errors.Join(os.WriteFile(path, []byte("some"), 0o600),
		os.RemoveAll(filepath.Dir(c.HistoryFile(0)))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var delivering sync.WaitGroup
	delivering.Go(func() { _ = clients[0].Deliver(ctx, path, Recorded{Index: 0}) })
	_, err := c.Collect(t.Context(), t.Context())
	cancel()
	delivering.Wait()
	_, disk := errors.AsType[*os.PathError](err)
	if !disk || !strings.Contains(err.Error(), "keeping the history of generator 1 of 1: ") {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the cable was cut") }

// TestDelivery: a history whose pieces are cut off and changed on the way arrives as it was sent.
func TestDelivery(t *testing.T) {
	c, clients := coordinate(t, 1)
	broken := &torn{RoundTripper: clients[0].http.Transport}
	clients[0].http.Transport = broken
	want := strings.Repeat("0123456789abcdef", 3*maxPiece/32) // one piece and a half
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clients[0].Deliver(t.Context(), path, Recorded{Index: 0}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(c.HistoryFile(0))
	if err != nil || string(got) != want {
		t.Errorf("%d bytes came, not as they were sent; %v", len(got), err)
	}
	if n := broken.pieces.Load(); n < 4 {
		t.Errorf("%d pieces were sent: none was broken", n)
	}
	if list, err := c.Collect(t.Context(), t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestSnapshot: the load of all generators is one.
func TestSnapshot(t *testing.T) {
	c, clients := coordinate(t, 2)
	for i, client := range clients {
		s := load.Snapshot{Phase: []load.Phase{load.Draining, load.Loading}[i],
			Load: rundir.Load{Scheduled: 10, Started: 9, Dropped: 1}, P99: time.Duration(i + 1),
			Offered: 100, InFlight: 3, Elapsed: time.Duration(5 - i)}
		if _, err := client.Beat(t.Context(), Status{Load: s}); err != nil {
			t.Fatal(err)
		}
	}
	want := load.Snapshot{Phase: load.Loading, P99: 2,
		Load:    rundir.Load{Scheduled: 20, Started: 18, Dropped: 2},
		Offered: 200, InFlight: 6, Elapsed: 5}
	if got := c.Snapshot(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestWhoeverIsMissingIsNamed, and an order to end reaches those that wait to begin.
func TestWhoeverIsMissingIsNamed(t *testing.T) {
	c, clients := coordinate(t, 2)
	if err := clients[0].Join(t.Context(), Hello{Host: "one", Operations: "x",
		Wall: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	began := make(chan error)
	go func() {
		_, _, err := clients[0].Begin(t.Context())
		began <- err
	}()
	if err := c.await(t.Context(), func() bool { return c.members[0].ready }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	err := c.Ready(ctx)
	if err == nil || !strings.Contains(err.Error(), "generator 2 of 2 did not begin in time") ||
		!slices.Equal(c.Missing(), []int{1}) {
		t.Errorf("%v, missing %v", err, c.Missing())
	}
	c.Lose(1, "no such image")
	if err := <-began; err == nil || !strings.Contains(err.Error(), "ended before the load began") {
		t.Errorf("the other one: %v", err)
	}
}

// TestSilence: one that says nothing any more is lost.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Coordinator{changed: make(chan struct{}), members: []*member{{
			Part: load.Part{Index: 0, Of: 1}, hello: &Hello{Host: "far\x1b"}, heard: time.Now()}}}
		began := time.Now()
		_, err := c.Collect(t.Context(), t.Context())
		lost, is := errors.AsType[*LostError](err)
		if took := time.Since(began); !is || took < silence || took > 2*silence ||
			strings.Contains(lost.Error(), "\x1b") {
			t.Errorf("%q after %s", err, took)
		}
	})
}
