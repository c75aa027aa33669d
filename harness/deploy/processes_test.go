package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/env"
	"stampede/harness/env/processes"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// asChild makes this test binary a process that a crew has started.
const asChild = "STAMPEDE_DEPLOY_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// child plays the role that is in the arguments: serve SYSTEM --design V --role R.
func child() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	system := toys()
	for _, v := range system.Variants {
		if v.Name != os.Args[4] {
			continue
		}
		err := Child{System: system, Variant: v, Role: os.Args[6], In: os.Stdin, Out: os.Stdout,
			Log: os.Stderr}.Run(ctx)
		if err == nil {
			return 0
		}
	}
	return 1
}

// toyParams say what the toys do.
type toyParams struct {
	// Folder has a file of each replica, to which it adds what it does.
	Folder string `json:"folder"`
	// Fails ends the role with an error, Ends without one, Mute says never again that
	// it worked once there is a file of that name in the folder.
	Fails, Ends, Mute bool
}

// toys is a system whose only variant passes two places again and again, and
// whose API says which replica has answered.
func toys() sut.System {
	return sut.System{
		Name: "toys", Params: func() any { return &toyParams{} },
		Variants: []sut.Variant{{
			Name: "toy", Roles: []sut.Role{{Name: "worker", Places: []string{"taken", "put"}, Run: toil}},
			Open: func(_ context.Context, cfg sut.Config) (sut.Instance, error) {
				// A file of this name makes it fail, once.
				if os.Remove(filepath.Join(cfg.Params.(*toyParams).Folder, "shut")) == nil {
					return nil, errBroken
				}
				return desk{cfg: cfg}, nil
			},
		}},
		Handler: func(inst sut.Instance, _ sut.Config) (http.Handler, error) {
			return inst.(desk), nil
		},
		Target: func(base string, cfg sut.Config) (sut.Instance, error) {
			return client{base: base, http: &http.Client{Timeout: cfg.Timeout,
				Transport: &http.Transport{}}}, nil
		},
	}
}

// toil is the role: it takes and puts until it is told to end.
func toil(ctx context.Context, cfg sut.Config) error {
	p := cfg.Params.(*toyParams)
	switch {
	case p.Fails:
		return errBroken
	case p.Ends:
		return nil
	}
	path := filepath.Join(p.Folder, fmt.Sprintf("%s%d", cfg.Prefix, cfg.Replica))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for sut.Pause(ctx, time.Millisecond) {
		for _, place := range []string{"taken", "put"} {
			if _, err := fmt.Fprintln(file, place); err != nil {
				return err
			}
			cfg.Passed(place)
		}
		if _, err := os.Stat(filepath.Join(p.Folder, "mute")); !p.Mute || err != nil {
			cfg.Worked()
		}
	}
	return nil
}

// desk is an instance of the toy, and its handler.
type desk struct {
	sut.Instance

	cfg sut.Config
}

func (s desk) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.cfg.Passed("asked")
	fmt.Fprint(w, s.cfg.Replica)
}

func (desk) Close() error { return nil }

// Quiesced is what a file says that has the replica's number in its name.
func (s desk) Quiesced(context.Context) (string, error) {
	path := filepath.Join(s.cfg.Params.(*toyParams).Folder, fmt.Sprintf("waits%d", s.cfg.Replica))
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case string(text) == "broken":
		return "", errBroken
	}
	return string(text), err
}

// client asks one server.
type client struct {
	sut.Instance

	base string
	http *http.Client
}

func (c client) Do(ctx context.Context, _ history.Op) (history.Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base, nil)
	if err != nil {
		return history.Reply{}, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return history.Reply{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return history.Reply{}, err
	}
	var replica int64
	err = json.Unmarshal(body, &replica)
	return history.Reply{Value: replica}, err
}

func (c client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// plan deploys the toy as processes.
func plan(t *testing.T, params toyParams, replicas map[string]int) Plan {
	t.Helper()
	params.Folder = t.TempDir()
	logs := t.TempDir()
	system := toys()
	return Plan{System: system, Variant: system.Variants[0], Way: Processes, Replicas: replicas,
		Config: sut.Config{Params: &params, Prefix: "toy", Timeout: 5 * time.Second}, Clients: 4,
		Launcher: processes.Launcher{Command: []string{os.Args[0]}, Environ: []string{asChild + "=1"}},
		Log:      func(name string) string { return filepath.Join(logs, name+".log") }}
}

// component is a part of a crew by its name.
func component(t *testing.T, c *Crew, name string) env.Crashable {
	t.Helper()
	for _, found := range c.Components() {
		if string(found.Service()) == name {
			return found.(env.Crashable)
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// grows waits until a replica has done something more.
func grows(t *testing.T, p Plan, replica int) {
	t.Helper()
	path := filepath.Join(p.Config.Params.(*toyParams).Folder, fmt.Sprintf("toy%d", replica))
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for before := size(); size() == before; {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it does nothing")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProcessesWorkAndServe(t *testing.T) {
	p := plan(t, toyParams{}, map[string]int{"worker": 2, API: 2})
	crew := start(t, p)
	grows(t, p, 1)
	grows(t, p, 2)
	asked := map[int64]int{}
	for range 6 {
		reply, err := crew.Do(t.Context(), history.Op{})
		must(t, err)
		asked[reply.Value]++
	}
	if asked[1] != 3 || asked[2] != 3 {
		t.Errorf("the servers were asked %v times", asked)
	}
	must(t, component(t, crew, "worker").Ready(t.Context()))
	must(t, crew.Stop())
	must(t, crew.Stop())
	for _, c := range crew.Components() {
		if c.Ready(t.Context()) == nil {
			t.Errorf("%s is there after the end", c.Service())
		}
	}
}

// TestServersSayWhatWaitsInThem: a crew is at rest when each server of the API is.
func TestServersSayWhatWaitsInThem(t *testing.T) {
	p := plan(t, toyParams{}, map[string]int{API: 2})
	crew := start(t, p)
	file := filepath.Join(p.Config.Params.(*toyParams).Folder, "waits2")
	for _, test := range []struct{ says, pending, fails string }{
		{"", "", ""}, {"3 likes", "3 likes", ""},
		{"broken", "", "api-2, asked what is left to do: " + errBroken.Error()},
	} {
		must(t, os.WriteFile(file, []byte(test.says), 0o600))
		pending, err := crew.Quiesced(t.Context())
		if pending != test.pending || (err != nil) != (test.fails != "") ||
			err != nil && err.Error() != test.fails {
			t.Errorf("%q: %q, %v", test.says, pending, err)
		}
	}
	must(t, crew.Stop())
	if _, err := crew.Quiesced(t.Context()); err == nil {
		t.Error("servers that have ended are at rest")
	}
}

// TestAnsweringIsNotWorking: a process that does not work answers all the same, also
// while somebody waits for its work.
func TestAnsweringIsNotWorking(t *testing.T) {
	p := plan(t, toyParams{Mute: true}, nil)
	crew := start(t, p)
	w := component(t, crew, "worker").(env.Laborer)
	must(t, w.AtWork(t.Context()))
	mute := filepath.Join(p.Config.Params.(*toyParams).Folder, "mute")
	must(t, os.WriteFile(mute, nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		for ctx.Err() == nil { // until the file has been seen
			idle <- w.AtWork(ctx)
		}
	}()
	for {
		must(t, w.Ready(t.Context()))
		select {
		case <-idle:
			continue
		case <-time.After(200 * time.Millisecond):
		}
		break
	}
	must(t, w.Ready(t.Context()))
	must(t, os.Remove(mute))
	must(t, <-idle)
	cancel()
	must(t, crew.Stop())
}

// TestBreakingAProcess does to a role and to a server what faults do.
func TestBreakingAProcess(t *testing.T) {
	p := plan(t, toyParams{}, nil)
	crew := start(t, p)
	for _, name := range []string{"worker", API} {
		c := component(t, crew, name)
		before, err := c.Identity(t.Context())
		must(t, err)
		pids, err := c.Kill(t.Context())
		must(t, err)
		if len(pids) != 1 || c.Ready(t.Context()) == nil {
			t.Errorf("%s: killed %v, and it answers", name, pids)
		}
		if _, err := env.StatOf(pids[0]); err == nil {
			t.Errorf("%s: process %d is there", name, pids[0])
		}
		must(t, c.Start(t.Context(), false))
		if err := c.Start(t.Context(), false); !errors.Is(err, env.ErrRunning) {
			t.Errorf("%s: started twice: %v", name, err)
		}
		killed, err := c.Identity(t.Context())
		must(t, err)
		must(t, c.Restart(t.Context()))
		restarted, err := c.Identity(t.Context())
		must(t, err)
		if killed == before || restarted == killed {
			t.Errorf("%s was %s, then %s, then %s", name, before, killed, restarted)
		}
		frozen(t, c)
	}
	grows(t, p, 0)
	if _, err := crew.Do(t.Context(), history.Op{}); err != nil {
		t.Errorf("the API after a restart: %v", err)
	}
	must(t, crew.Stop())
}

// frozen pauses a process: it is silent, stands still, and goes on.
func frozen(t *testing.T, c env.Crashable) {
	t.Helper()
	pids, err := c.Pause(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is frozen and says %v", err)
	}
	if stat, err := env.StatOf(pids[0]); err != nil || stat.State != 'T' {
		t.Errorf("its state is %c, %v", stat.State, err)
	}
	must(t, c.Resume(t.Context()))
	must(t, c.Ready(t.Context()))
}

// TestAProcessThatEndsByItself is told once, with what it said.
func TestAProcessThatEndsByItself(t *testing.T) {
	for want, params := range map[string]toyParams{
		"role worker: it is broken":    {Fails: true},
		"role worker: ended by itself": {Ends: true},
	} {
		p := plan(t, params, nil)
		if _, err := Start(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("started: %v, want %s", err, want)
		}
	}
	p := plan(t, toyParams{}, nil)
	crew := start(t, p)
	w := crew.roles["worker"][0].(*worker)
	must(t, w.life.Process.Kill(t.Context())) // not by a fault
	<-w.life.over
	if err := crew.Stop(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("stopped: %v", err)
	}
}

// TestStartedUntilItIsReady: a process that a fault took away is started until it is ready, as its
// store may be down, and nobody else is where it was meanwhile. The very first start reports its
// failure.
func TestStartedUntilItIsReady(t *testing.T) {
	p := plan(t, toyParams{}, nil)
	shut := func() {
		must(t, os.WriteFile(filepath.Join(p.Config.Params.(*toyParams).Folder, "shut"), nil, 0o600))
	}
	shut()
	if _, err := Start(t.Context(), p, nil); err == nil ||
		!strings.Contains(err.Error(), errBroken.Error()) {
		t.Errorf("started: %v", err)
	}
	crew := start(t, p)
	server := component(t, crew, string(API))
	before := server.Addr()
	_, err := server.Kill(t.Context())
	must(t, err)
	if c, err := net.Dial("tcp", before); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the API is dead, and %s answers (%v): %v", before, c, err)
	}
	shut()
	must(t, server.Start(t.Context(), false))
	if now := server.Addr(); now != before {
		t.Errorf("the API was at %s, and is at %s now: somebody else may be where it was", before, now)
	}
	_, err = crew.Do(t.Context(), history.Op{})
	must(t, err)
	must(t, crew.Stop())
}

// TestWhatDoesNotStart leaves nothing and says why.
func TestWhatDoesNotStart(t *testing.T) {
	p := plan(t, toyParams{}, nil)
	p.Variant.Roles = append(p.Variant.Roles, sut.Role{Name: "stranger"})
	if _, err := Start(t.Context(), p, nil); err == nil ||
		!strings.Contains(err.Error(), `toy has no role "stranger"; it has api, worker`) {
		t.Errorf("started: %v", err)
	}
	p.Launcher = processes.Launcher{Command: []string{"/bin/false"}}
	if _, err := Start(t.Context(), p, nil); err == nil ||
		!strings.Contains(err.Error(), "did not become ready") {
		t.Errorf("started: %v", err)
	}
	p.Launcher = processes.Launcher{Command: []string{"/no/such"}}
	if _, err := Start(t.Context(), p, nil); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("started: %v", err)
	}
}

// TestACrashAtAPlace: the process ends itself at the n-th passage after it was
// armed, and says so.
func TestACrashAtAPlace(t *testing.T) {
	p := plan(t, toyParams{}, map[string]int{"worker": 2})
	crew := start(t, p)
	both, second := component(t, crew, "worker"), component(t, crew, "worker-2")
	grows(t, p, 2)
	must(t, second.Arm(t.Context(), "taken", 3))
	w := crew.roles["worker"][1].(*worker)
	<-w.life.over
	crashes, err := both.Disarm(t.Context())
	must(t, err)
	if len(crashes) != 1 || crashes[0] != (env.Crash{Name: "worker-2", PID: w.life.PID(),
		Place: "taken", Passage: 3}) {
		t.Errorf("the crashes are %+v", crashes)
	}
	text, err := os.ReadFile(filepath.Join(p.Config.Params.(*toyParams).Folder, "toy2"))
	must(t, err)
	if !bytes.HasSuffix(text, []byte("put\ntaken\n")) {
		t.Errorf("its last steps were %q", text[max(0, len(text)-20):])
	}
	must(t, both.Start(t.Context(), false))
	grows(t, p, 2)
	must(t, both.Arm(t.Context(), "never", 1))
	if crashes, err := both.Disarm(t.Context()); err != nil || len(crashes) > 0 {
		t.Errorf("crashed at no place: %+v, %v", crashes, err)
	}
	must(t, crew.Stop())
}

// TestDisarmedAtTheMomentOfACrash: either the process has ended itself and that
// is told, or it goes on; asking at the wrong moment is no error.
func TestDisarmedAtTheMomentOfACrash(t *testing.T) {
	p := plan(t, toyParams{}, nil)
	crew := start(t, p)
	w := component(t, crew, "worker")
	for i := range 30 { // sooner and later than the role's next round
		must(t, w.Arm(t.Context(), "taken", 1))
		sut.Pause(t.Context(), time.Duration(i)*50*time.Microsecond)
		crashes, err := w.Disarm(t.Context())
		must(t, err)
		if len(crashes) == 0 {
			must(t, w.Ready(t.Context()))
			continue
		}
		if w.Ready(t.Context()) == nil {
			t.Errorf("%+v, and it answers", crashes)
		}
		must(t, w.Start(t.Context(), false))
	}
	must(t, crew.Stop())
}
