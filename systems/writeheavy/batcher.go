package writeheavy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"stampede/harness/sut"
)

// The fail points of a process that writes batches.
const (
	placeCollected = "collected" // a batch is collected, and not written
	placeWritten   = "written"   // it is written, and no reply is sent
)

// writers is how many batches are written at once.
const writers = 2

// closing is for how long a batcher that is closed goes on writing. It then cancels running writes.
const closing = 2 * time.Second

var errClosed = fmt.Errorf("the service is closed: %w", sut.ErrRefused)

// waiting is an add that waits for its batch. Its result goes to done, which has room for one.
type waiting struct {
	AddRequest
	done chan error
}

// tell says what became of some adds.
func tell(batch []*waiting, err error) {
	for _, w := range batch {
		w.done <- err
	}
}

// batcher collects what is added one by one into batches. A batch is full, or has waited long
// enough: both caps bound what a slow store makes of it. The wait is drawn anew for each batch, up
// to half as long or as short, so that processes do not write in step.
type batcher struct {
	most  int
	every time.Duration
	write func(ctx context.Context, batch []*waiting)

	mu      sync.RWMutex // of closed: nothing is put into in after it is closed
	closed  bool
	in      chan *waiting
	inside  atomic.Int64
	left    atomic.Int64 // what was in the queue when there was no more time to write it
	running sync.WaitGroup
	stop    context.CancelFunc // of writes
	close   sync.Once
	failed  error
}

// newBatcher begins to collect. Write is called by several goroutines. It ends by telling each add
// of the batch, soon after its context does: see Close.
func newBatcher(p Params, write func(context.Context, []*waiting)) *batcher {
	b := &batcher{most: p.FlushMost, every: p.FlushEvery.D(), write: write,
		in: make(chan *waiting, p.Queue)}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	for range writers {
		b.running.Go(func() { b.run(ctx, newDraw()) })
	}
	return b
}

// put puts an add into the queue, or refuses it if there is no room.
func (b *batcher) put(ctx context.Context, req AddRequest) (*waiting, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not added: %w: %w", sut.ErrRefused, err)
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return nil, errClosed
	}
	w := &waiting{AddRequest: req, done: make(chan error, 1)}
	select {
	case b.in <- w:
		b.inside.Add(1)
		return w, nil
	default:
		return nil, ErrShed
	}
}

// join puts an add into the queue and waits until its batch is written.
func (b *batcher) join(ctx context.Context, req AddRequest) error {
	w, err := b.put(ctx, req)
	if err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return errors.Join(errGone, ctx.Err())
	}
}

// errGone: nobody waits for the add, which may still be written.
var errGone = errors.New("the add is on its way")

// run collects and writes until the queue is closed and empty. Once the context has ended it writes
// nothing, and says so.
func (b *batcher) run(ctx context.Context, draw *rand.Rand) {
	for first := range b.in {
		batch := b.collect(first, draw)
		if ctx.Err() == nil {
			b.write(ctx, batch)
		} else {
			b.left.Add(int64(len(batch)))
			tell(batch, errClosed)
		}
		b.inside.Add(-int64(len(batch)))
	}
}

// newDraw draws numbers that no other process draws.
func newDraw() *rand.Rand {
	return rand.New(rand.NewPCG(maphash.Bytes(maphash.MakeSeed(), nil), 0))
}

// collect makes a batch.
func (b *batcher) collect(first *waiting, draw *rand.Rand) []*waiting {
	batch := []*waiting{first}
	over := time.NewTimer(b.every/2 + time.Duration(draw.Int64N(int64(b.every))))
	defer over.Stop()
	for len(batch) < b.most {
		select {
		case next, more := <-b.in:
			if !more {
				return batch
			}
			batch = append(batch, next)
		case <-over.C:
			return batch
		}
	}
	return batch
}

// Waiting counts what is in memory.
func (b *batcher) Waiting() (left int64, what string) {
	left = b.inside.Load()
	return left, fmt.Sprintf("%d adds wait for their batch", left)
}

// Close writes what is in the queue, for two seconds. Then it cancels the writes that are under
// way: the outcome of their adds is unknown. What is still in the queue is refused, and the error
// says how much that is. Close returns when every write has returned.
func (b *batcher) Close() error {
	b.close.Do(func() {
		b.mu.Lock()
		b.closed = true
		close(b.in)
		b.mu.Unlock()
		over := time.AfterFunc(closing, b.stop)
		b.running.Wait()
		over.Stop()
		b.stop()
		if n := b.left.Load(); n > 0 {
			b.failed = fmt.Errorf("%d adds were in the queue after %v, and are refused", n, closing)
		}
	})
	return b.failed
}
