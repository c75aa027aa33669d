package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds a connection to the store; the kernel of a store on this
// machine answers at once or refuses.
const dialTimeout = 5 * time.Second

// Condition is what a proxy does to the bytes that pass it. The zero value
// lets everything through.
type Condition struct {
	// Latency is added to each round trip, half of it each way, and each way
	// up to Jitter/2 more or less. The jitter is a function of Seed, of the
	// connection's number and of the order of its data.
	Latency, Jitter time.Duration
	Seed            uint64
	// LoseUp loses what clients send, LoseDown what the store replies.
	LoseUp, LoseDown bool
	// NoDial keeps new connections open without connecting them.
	NoDial bool
}

// imposed is a condition in force.
type imposed struct {
	Condition
	// over is closed when another condition takes its place.
	over chan struct{}
}

// Stats counts what passed a proxy since it was made.
type Stats struct {
	// Refused connections could not be connected to the store.
	Refused int64
	// LostUp and LostDown are bytes read and not passed on.
	LostUp, LostDown int64
	// Held counts connections that were kept without connecting them.
	Held int64
	// Delayed counts pieces of data that were delayed.
	Delayed int64
}

// Sub is what happened since an earlier count.
func (s Stats) Sub(earlier Stats) Stats {
	return Stats{
		Refused: s.Refused - earlier.Refused, LostUp: s.LostUp - earlier.LostUp,
		LostDown: s.LostDown - earlier.LostDown, Held: s.Held - earlier.Held,
		Delayed: s.Delayed - earlier.Delayed,
	}
}

// Add is what happened before two proxies.
func (s Stats) Add(other Stats) Stats {
	return Stats{
		Refused: s.Refused + other.Refused, LostUp: s.LostUp + other.LostUp,
		LostDown: s.LostDown + other.LostDown, Held: s.Held + other.Held,
		Delayed: s.Delayed + other.Delayed,
	}
}

type counters struct {
	refused, held, delayed atomic.Int64
	lost                   [2]atomic.Int64 // by direction
}

// Proxy is a TCP proxy before one store. Its own address stays the same while
// the store dies, comes back or changes its port. Without a condition each
// direction costs one read and one write.
type Proxy struct {
	name     string
	upstream func() string
	listener net.Listener

	state atomic.Pointer[imposed]
	count counters

	ctx    context.Context
	cancel context.CancelFunc
	// orphan stops the watch for the end of the caller's context.
	orphan func() bool
	group  sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{}
	// made numbers the connections.
	made uint64
}

// NewProxy listens on a port of the loopback address that the kernel chooses.
// The store's address is asked for at each new connection. The proxy runs
// until Close or until ctx is over.
func NewProxy(ctx context.Context, name string, upstream func() string) (*Proxy, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy before %s: %w", name, err)
	}
	p := &Proxy{name: name, upstream: upstream, listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.state.Store(&imposed{over: make(chan struct{})})
	// When the caller's context ends, nobody may be left to call Close.
	p.orphan = context.AfterFunc(ctx, p.stop)
	p.group.Go(p.serve)
	return p, nil
}

// Addr is where clients connect, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Stats counts what has passed so far.
func (p *Proxy) Stats() Stats {
	c := &p.count
	return Stats{
		Refused: c.refused.Load(), LostUp: c.lost[up].Load(), LostDown: c.lost[down].Load(),
		Held: c.held.Load(), Delayed: c.delayed.Load(),
	}
}

// Impose puts a condition in force, in place of the one before. Connections
// that lost data under the one before are closed, because what follows would
// make no sense to either end; so are those that were held.
func (p *Proxy) Impose(c Condition) {
	before := p.state.Swap(&imposed{Condition: c, over: make(chan struct{})})
	close(before.over)
	for _, l := range p.snapshot() {
		if l.broken.Load() {
			l.abort()
		}
	}
}

// Heal lets everything through again.
func (p *Proxy) Heal() { p.Impose(Condition{}) }

// Close ends every connection and frees what the proxy holds.
func (p *Proxy) Close() error {
	p.orphan()
	p.cancel()
	p.stop()
	p.group.Wait()
	return nil
}

// stop closes the listener and every connection. It may run more than once.
func (p *Proxy) stop() {
	_ = p.listener.Close() // an error says that it was closed before
	for _, l := range p.snapshot() {
		l.abort()
	}
}

func (p *Proxy) snapshot() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*link, 0, len(p.links))
	for l := range p.links {
		list = append(list, l)
	}
	return list
}

// acceptPause is how long to wait when the process is out of files.
const acceptPause = 10 * time.Millisecond

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			p.take(conn.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
		}
	}
}

// take registers a client's connection and serves it beside the others.
func (p *Proxy) take(client *net.TCPConn) {
	p.mu.Lock()
	p.made++
	l := &link{proxy: p, number: p.made, client: client}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		l.abort() // stop may have looked before this was registered
	}
	p.group.Go(func() {
		defer p.forget(l)
		l.run()
	})
}

func (p *Proxy) forget(l *link) {
	l.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// link is one client's connection and the one to the store that goes with it.
type link struct {
	proxy  *Proxy
	number uint64
	client *net.TCPConn

	mu      sync.Mutex
	server  *net.TCPConn
	aborted bool

	// broken is set when data was lost, after which the link is worthless.
	broken atomic.Bool
}

// run connects the client to the store and passes data until both are done.
func (l *link) run() {
	if state := l.proxy.state.Load(); state.NoDial {
		l.broken.Store(true)
		select {
		case <-state.over: // it ended before it could see the mark
			l.abort()
		default:
			l.hold()
		}
		return
	}
	if err := l.dial(); err != nil {
		l.proxy.count.refused.Add(1)
		l.abort()
		return
	}
	var group sync.WaitGroup
	group.Go(func() { newPump(l, up).run() })
	newPump(l, down).run()
	group.Wait()
}

// hold keeps a client waiting, and loses what it sends, until it gives up or
// the condition is over and it is cut off.
func (l *link) hold() {
	l.proxy.count.held.Add(1)
	lost := &l.proxy.count.lost[up]
	buf := make([]byte, 4<<10)
	for {
		n, err := l.client.Read(buf)
		lost.Add(int64(n))
		if err != nil {
			l.abort()
			return
		}
	}
}

func (l *link) dial() error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(l.proxy.ctx, "tcp", l.proxy.upstream())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if l.aborted {
		return errors.Join(net.ErrClosed, l.server.Close())
	}
	return nil
}

// abort resets both connections: their ends see an error, not a polite end.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted {
		return
	}
	l.aborted = true
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn != nil {
			_ = conn.SetLinger(0) // the close below says it all
			_ = conn.Close()
		}
	}
}

// close closes both connections, aborted or not.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
