package fault_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/fault"
)

func TestMain(m *testing.M) {
	code := runWithStores(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long something that must happen may take.
const patience = 10 * time.Second

// echo is a server that answers each line with itself. It counts the lines and
// the connections that have ended.
type echo struct {
	listener net.Listener
	lines    atomic.Int64
	ended    atomic.Int64
	group    sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener}
	e.group.Go(e.serve)
	t.Cleanup(e.stop)
	return e
}

func (e *echo) addr() string { return e.listener.Addr().String() }

func (e *echo) serve() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.mu.Lock()
		e.conns = append(e.conns, conn)
		e.mu.Unlock()
		e.group.Go(func() {
			defer e.ended.Add(1)
			defer conn.Close()
			for in := bufio.NewScanner(conn); in.Scan(); {
				e.lines.Add(1)
				if _, err := conn.Write(append(in.Bytes(), '\n')); err != nil {
					return
				}
			}
		})
	}
}

func (e *echo) stop() {
	e.listener.Close()
	e.mu.Lock()
	for _, conn := range e.conns {
		conn.Close()
	}
	e.mu.Unlock()
	e.group.Wait()
}

func startProxy(t *testing.T, upstream func() string) *fault.Proxy {
	t.Helper()
	p, err := fault.NewProxy(t.Context(), "echo", upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// client is a line-wise client.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := tryDial(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(t *testing.T, addr string) (*client, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{conn, bufio.NewReader(conn)}, nil
}

func (c *client) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// ask sends a line and returns the answer.
func (c *client) ask(line string) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	answer, err := c.in.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

func (c *client) mustAsk(t *testing.T, line string) {
	t.Helper()
	if answer, err := c.ask(line); err != nil || answer != line {
		t.Fatalf("asked %q, got %q, %v", line, answer, err)
	}
}

// silent fails the test if an answer arrives within a short while. A silence
// cannot be waited for; what proves it is that the answer would be instant.
func (c *client) silent(t *testing.T) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.in.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("expected silence, got %q, %v", got, err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// cutOff waits until the connection is closed from the other side.
func (c *client) cutOff(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c.in); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection was not closed")
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestProxyPassesEverything(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c := dial(t, p.Addr())
	c.mustAsk(t, "hello")
	big := strings.Repeat("x", 1<<16-1)
	c.in = bufio.NewReaderSize(c.Conn, 1<<17)
	var group sync.WaitGroup
	group.Go(func() { c.mustAsk(t, big[:60000]) })
	group.Wait()
	if s := p.Stats(); s != (fault.Stats{}) {
		t.Errorf("counted %+v", s)
	}
}

func TestProxyPassesTheEndOn(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c := dial(t, p.Addr())
	c.send(t, "last")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c.in)
	if err != nil || string(all) != "last\n" {
		t.Errorf("got %q, %v", all, err)
	}
}

func TestProxyKeepsItsAddressWhenTheStoreMoves(t *testing.T) {
	first, second := startEcho(t), startEcho(t)
	var addr atomic.Value
	addr.Store(first.addr())
	p := startProxy(t, func() string { return addr.Load().(string) })
	c := dial(t, p.Addr())
	c.mustAsk(t, "one")
	first.stop()
	c.cutOff(t)
	// The reset may come before the dialer has looked.
	if dead, err := tryDial(t, p.Addr()); err == nil {
		dead.cutOff(t)
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	eventually(t, "the refused connection is counted", func() bool { return p.Stats().Refused == 1 })
	addr.Store(second.addr())
	dial(t, p.Addr()).mustAsk(t, "two")
	if first.lines.Load() != 1 || second.lines.Load() != 1 {
		t.Errorf("the stores saw %d and %d lines", first.lines.Load(), second.lines.Load())
	}
}

func TestLatencyDelaysAndEnds(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c := dial(t, p.Addr())
	c.mustAsk(t, "before")
	const latency, jitter = 40 * time.Millisecond, 20 * time.Millisecond
	p.Impose(fault.Condition{Latency: latency, Jitter: jitter, Seed: 7})
	start := time.Now()
	c.mustAsk(t, "during")
	if took := time.Since(start); took < latency-jitter {
		t.Errorf("an answer took %v under a latency of %v less %v", took, latency, jitter)
	}
	if got := p.Stats().Delayed; got != 2 {
		t.Errorf("delayed %d pieces of data, want one each way", got)
	}
	// Data sent late, then the end of the condition: nothing overtakes.
	c.send(t, "late")
	eventually(t, "the request is in the air", func() bool { return p.Stats().Delayed >= 3 })
	p.Heal()
	c.send(t, "later")
	for _, want := range []string{"late\n", "later\n"} {
		if got, err := c.in.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	before := p.Stats().Delayed
	c.mustAsk(t, "after")
	if p.Stats().Delayed != before {
		t.Error("data is delayed after the condition is over")
	}
}

func TestLostAckExecutes(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c, idle := dial(t, p.Addr()), dial(t, p.Addr())
	idle.mustAsk(t, "idle")
	p.Impose(fault.Condition{LoseDown: true})
	c.send(t, "executed")
	eventually(t, "the store has executed", func() bool { return e.lines.Load() == 2 })
	eventually(t, "the reply is lost", func() bool { return p.Stats().LostDown == 9 })
	c.silent(t)
	p.Heal()
	c.cutOff(t)
	idle.mustAsk(t, "lost nothing and lives")
}

func TestLostRequestNeverExecutes(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c := dial(t, p.Addr())
	p.Impose(fault.Condition{LoseUp: true})
	c.send(t, "never")
	eventually(t, "the request is lost", func() bool { return p.Stats().LostUp == 6 })
	c.silent(t)
	p.Heal()
	c.cutOff(t)
	dial(t, p.Addr()).mustAsk(t, "fresh")
	if got := e.lines.Load(); got != 1 {
		t.Errorf("the store saw %d lines, want only the fresh one", got)
	}
}

func TestPartitionNeitherRefusesNorAnswers(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	old := dial(t, p.Addr())
	old.mustAsk(t, "before")
	p.Impose(fault.Condition{LoseUp: true, LoseDown: true, NoDial: true})
	fresh := dial(t, p.Addr())
	fresh.send(t, "anyone?")
	old.send(t, "still there?")
	eventually(t, "both are lost", func() bool { return p.Stats().LostUp == 8+13 })
	fresh.silent(t)
	old.silent(t)
	if got := p.Stats().Held; got != 1 {
		t.Errorf("held %d connections, want 1", got)
	}
	p.Heal()
	fresh.cutOff(t)
	old.cutOff(t)
	dial(t, p.Addr()).mustAsk(t, "after")
	if got := e.lines.Load(); got != 2 {
		t.Errorf("the store saw %d lines, want 2", got)
	}
}

func TestAPartitionHidesTheEndOfAClient(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	c := dial(t, p.Addr())
	c.mustAsk(t, "before")
	p.Impose(fault.Condition{LoseUp: true, LoseDown: true, NoDial: true})
	c.Close()
	// Another client's loss shows that the proxy has had time to look.
	other := dial(t, p.Addr())
	other.send(t, "x")
	eventually(t, "the other's data is lost", func() bool { return p.Stats().LostUp == 2 })
	if e.ended.Load() != 0 {
		t.Error("the store learnt through a partition that the client is gone")
	}
	p.Heal()
	eventually(t, "the store learns it", func() bool { return e.ended.Load() == 1 })
}

func TestCloseCutsEverythingOff(t *testing.T) {
	for name, condition := range map[string]fault.Condition{
		"open":        {},
		"latency":     {Latency: time.Hour},
		"partitioned": {LoseUp: true, LoseDown: true, NoDial: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := startEcho(t)
			p := startProxy(t, e.addr)
			old := dial(t, p.Addr())
			old.mustAsk(t, "before")
			p.Impose(condition)
			fresh := dial(t, p.Addr())
			old.send(t, "stuck")
			fresh.send(t, "stuck")
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			old.cutOff(t)
			fresh.cutOff(t)
			if _, err := net.DialTimeout("tcp", p.Addr(), patience); err == nil {
				t.Error("a closed proxy accepts connections")
			}
		})
	}
}

func TestConditionsUnderLoad(t *testing.T) {
	e := startEcho(t)
	p := startProxy(t, e.addr)
	stop := make(chan struct{})
	var group sync.WaitGroup
	var asked atomic.Int64
	for range 8 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.DialTimeout("tcp", p.Addr(), patience)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
				c := &client{conn, bufio.NewReader(conn)}
				for range 20 {
					answer, err := c.ask("q")
					if err != nil {
						break
					}
					if answer != "q" {
						t.Errorf("got %q: data was mixed up", answer)
					}
					asked.Add(1)
				}
				conn.Close()
			}
		})
	}
	conditions := []fault.Condition{{}, {Latency: time.Millisecond, Jitter: time.Millisecond},
		{LoseDown: true}, {LoseUp: true}, {LoseUp: true, LoseDown: true, NoDial: true}}
	for i := range 40 {
		p.Impose(conditions[i%len(conditions)])
		before := asked.Load()
		if i%len(conditions) == 0 {
			eventually(t, "clients are served again", func() bool { return asked.Load() > before+20 })
		}
	}
	close(stop)
	group.Wait()
}
