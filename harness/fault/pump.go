package fault

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// direction is which way data flows.
type direction int

const (
	up   direction = iota // from the client to the store
	down                  // from the store to the client
)

// pumpBytes is how much is read at once: a store's replies are small.
const pumpBytes = 16 << 10

// pump passes one direction of a link.
type pump struct {
	link     *link
	way      direction
	src, dst *net.TCPConn
	line     *delayLine
	// jitter and its seed are set at the first delay under a condition.
	jitter *rand.Rand
	drawn  *imposed
}

func newPump(l *link, way direction) *pump {
	p := &pump{link: l, way: way, src: l.client, dst: l.server}
	if way == down {
		p.src, p.dst = l.server, l.client
	}
	return p
}

// run passes data until the source ends, then lets the other side know.
func (p *pump) run() {
	defer p.finish()
	buf := make([]byte, pumpBytes)
	for {
		n, err := p.src.Read(buf)
		if n > 0 && p.pass(buf[:n]) != nil {
			p.link.abort()
			return
		}
		if err != nil {
			p.end(err)
			return
		}
	}
}

// pass sends data on, late or not at all, as the condition has it.
func (p *pump) pass(data []byte) error {
	proxy := p.link.proxy
	state := proxy.state.Load()
	if p.loses(state) {
		proxy.count.lost[p.way].Add(int64(len(data)))
		return p.breakOff(state)
	}
	if state.Latency == 0 && !p.line.busy() {
		_, err := p.dst.Write(data)
		return err
	}
	return p.delay(state, data)
}

// breakOff marks the link as broken. Impose looks for that mark after it ended
// the condition, so that one of the two sees what the other did.
func (p *pump) breakOff(state *imposed) error {
	p.link.broken.Store(true)
	select {
	case <-state.over:
		return net.ErrClosed
	default:
		return nil
	}
}

func (p *pump) loses(state *imposed) bool {
	if p.way == up {
		return state.LoseUp
	}
	return state.LoseDown
}

// delay hands data to the delay line. What comes after the condition is over
// waits for nothing but what was delayed before it.
func (p *pump) delay(state *imposed, data []byte) error {
	if p.line == nil {
		p.line = newDelayLine(p.link.proxy.ctx, p.dst)
	}
	due := time.Now()
	if state.Latency > 0 {
		p.link.proxy.count.delayed.Add(1)
		due = due.Add(p.latency(state))
	}
	return p.line.send(append([]byte(nil), data...), due)
}

// latency draws how late the next piece of data is: half the condition's
// latency, give or take half its jitter.
func (p *pump) latency(state *imposed) time.Duration {
	late := state.Latency / 2
	if state.Jitter == 0 {
		return late
	}
	if p.drawn != state {
		p.jitter = rand.New(rand.NewPCG(state.Seed, p.link.number<<1|uint64(p.way)))
		p.drawn = state
	}
	return late + time.Duration((p.jitter.Float64()-0.5)*float64(state.Jitter))
}

// end passes the end of the source on. An end is lost like any other data: the
// other side learns nothing of it until the condition is over.
func (p *pump) end(err error) {
	if state := p.link.proxy.state.Load(); p.loses(state) {
		p.link.broken.Store(true)
		select {
		case <-state.over:
		case <-p.link.proxy.ctx.Done():
		}
		p.link.abort()
	}
	if !errors.Is(err, io.EOF) {
		p.link.abort() // a reset stays a reset
	}
}

// finish waits for what is delayed and closes the writing half.
func (p *pump) finish() {
	p.line.close()
	_ = p.dst.CloseWrite() // an error says that it is closed already
}

// delayLine writes data to a connection when it is due, in order.
type delayLine struct {
	queue chan delayed
	// pending counts what was sent and not yet written. Only the pump adds to
	// it, so that when the pump sees zero the line is idle.
	pending atomic.Int64
	// failed is closed when a write has failed.
	failed chan struct{}
	done   chan struct{}
}

type delayed struct {
	data []byte
	due  time.Time
}

// lineLength bounds how many pieces of data a connection has in the air.
const lineLength = 1024

// newDelayLine starts a line that runs until it is closed or ctx is over.
func newDelayLine(ctx context.Context, dst *net.TCPConn) *delayLine {
	l := &delayLine{queue: make(chan delayed, lineLength),
		failed: make(chan struct{}), done: make(chan struct{})}
	go l.run(ctx, dst)
	return l
}

func (l *delayLine) run(ctx context.Context, dst *net.TCPConn) {
	defer close(l.done)
	for piece := range l.queue {
		select {
		case <-time.After(time.Until(piece.due)):
		case <-ctx.Done(): // dst is closed, and the write says so
		}
		if _, err := dst.Write(piece.data); err != nil {
			close(l.failed)
			return
		}
		l.pending.Add(-1)
	}
}

// send queues data; it fails when an earlier write has.
func (l *delayLine) send(data []byte, due time.Time) error {
	l.pending.Add(1)
	select {
	case l.queue <- delayed{data, due}:
		return nil
	case <-l.failed:
		return net.ErrClosed
	}
}

// busy says whether data waits; a pump without a line has none.
func (l *delayLine) busy() bool { return l != nil && l.pending.Load() > 0 }

// close waits until everything queued is written or cannot be.
func (l *delayLine) close() {
	if l == nil {
		return
	}
	close(l.queue)
	<-l.done
}
