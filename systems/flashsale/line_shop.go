package flashsale

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
)

// maxWaiting is how many tickets may stand in a line undecided. One more is
// refused before it is written.
const maxWaiting = 10_000

// ErrLineFull says that as many purchases of the item wait as may.
var ErrLineFull = fmt.Errorf("the queue is full: %w", sut.ErrRefused)

// lineShop puts buyers in the line and waits for their answers.
type lineShop struct {
	ledgerShop
	*opened
	client *kgo.Client
	limit  time.Duration
	// id tells this instance's answers from those of others at its desk.
	id   string
	desk int32

	items map[string]int32
	lines []*waitingLine

	mu sync.Mutex
	// listening is set once answers are read from a known offset.
	listening bool
	// requests counts, and waiting has a channel for each request without an answer.
	requests atomic.Uint64
	waiting  sync.Map

	stop    context.CancelFunc
	reading sync.WaitGroup
}

// openLine connects to Kafka. Answers are read from the first purchase on, or
// from now on if the topics are there.
func openLine(ctx context.Context, st *opened) (*lineShop, error) {
	client, err := lineClient(st.Config)
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, stores.Timeout(st.Config))
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	s := &lineShop{
		ledgerShop: ledgerShop{newBooks(st.DB, unitRows())}, opened: st, client: client,
		limit: stores.Timeout(st.Config), id: rand.Text(), desk: int32(st.Config.Replica) % desks,
		items: lineOf(st.Params),
	}
	for range lines(st.Params) {
		s.lines = append(s.lines, &waitingLine{most: maxWaiting})
	}
	reading, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.reading.Go(func() { s.read(reading) })
	return s, nil
}

// Close ends the reading of answers. Who still waits for one is told so by the
// end of their own patience.
func (s *lineShop) Close() error {
	s.stop()
	s.client.Close()
	s.reading.Wait()
	return nil
}

// listen begins to read answers where their topic ends now, unless that has
// been done. Nothing may be asked before, or its answer could be missed.
func (s *lineShop) listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	from, err := topics.Ends(ctx, s.client, topics.Name(s.Config, answersTopic))
	if err != nil {
		return err
	}
	s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		topics.Name(s.Config, answersTopic): {s.desk: kgo.NewOffset().At(from[s.desk])}})
	s.listening = true
	return nil
}

// read hands answers to those who wait for them.
func (s *lineShop) read(ctx context.Context) {
	for {
		fetches := s.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			s.Config.Warn("flashsale could not read answers", err)
		})
		fetches.EachRecord(func(r *kgo.Record) {
			a, err := decodeReceipt(r.Value)
			if err != nil {
				s.Config.Warn("flashsale met an answer that cannot be read", err)
				return
			}
			s.hand(a)
		})
	}
}

// hand gives an answer to whoever waits for it, which may be nobody.
func (s *lineShop) hand(a receipt) {
	if a.From != s.id {
		return
	}
	if a.Line >= 0 && int(a.Line) < len(s.lines) {
		s.lines[a.Line].decidedTo(a.Offset + 1)
	}
	if waiter, waits := s.waiting.LoadAndDelete(a.Number); waits {
		waiter.(chan receipt) <- a // it has room for one, and gets one
	}
}

// Buy stands in the line until there is an answer. A buyer who leaves has
// perhaps bought: the ticket stays, and will be decided.
func (s *lineShop) Buy(ctx context.Context, req BuyRequest) (Order, error) {
	line, known := s.items[req.Item]
	if !known {
		return Order{}, ErrUnknownItem
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if err := s.enter(ctx, line); err != nil {
		return Order{}, err
	}
	number, answered := s.requests.Add(1), make(chan receipt, 1)
	s.waiting.Store(number, answered)
	defer s.waiting.Delete(number)
	lost := make(chan error, 1)
	err := s.write(line, ticket{req, s.id, s.desk, number}, lost)
	if err != nil {
		return Order{}, err
	}
	select {
	case a := <-answered:
		return a.result()
	case err := <-lost:
		return Order{}, fmt.Errorf("queueing the purchase: %w", err)
	case <-ctx.Done():
		return Order{}, fmt.Errorf("gave up before there was an answer: %w", ctx.Err())
	}
}

// enter makes sure that answers are read and takes a place in the line. An
// error is a refusal: nothing has been written.
func (s *lineShop) enter(ctx context.Context, line int32) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("before queueing the purchase: %w: %w", sut.ErrRefused, err)
	}
	if err := s.listen(ctx); err != nil {
		return fmt.Errorf("before queueing the purchase: %w: %w", sut.ErrRefused, err)
	}
	l := s.lines[line]
	if l.enter() {
		return nil
	}
	// It may be as full as it looks only because answers were lost.
	next, err := decided(ctx, s.DB)
	if err != nil {
		return fmt.Errorf("%w; asking how far it is decided: %w", ErrLineFull, err)
	}
	l.decidedTo(next[line])
	if !l.enter() {
		return ErrLineFull
	}
	return nil
}

// write writes a ticket. Should it fail later, lost says so; whether it stands in the line is then
// unknown. A buyer who leaves does not cancel it: the driver would fail others' with it.
func (s *lineShop) write(line int32, t ticket, lost chan<- error) error {
	l := s.lines[line]
	rec, err := record(s.Config, ticketsTopic, line, t)
	if err != nil {
		l.wrote(-1)
		return fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	refused := make(chan error, 1)
	s.client.TryProduce(context.Background(), rec, func(r *kgo.Record, err error) {
		if err == nil {
			l.wrote(r.Offset)
			return
		}
		l.wrote(-1)
		if errors.Is(err, kgo.ErrMaxBuffered) {
			refused <- fmt.Errorf("%w: %w", ErrLineFull, err)
		}
		lost <- err
	})
	select {
	case err := <-refused:
		return err
	default:
		return nil
	}
}

// waitingLine is what an instance knows of the length of a line.
type waitingLine struct {
	mu sync.Mutex
	// most tickets may wait. Those from decided to written do, as far as this
	// instance has heard, and writing more are about to.
	most             int
	decided, written int64
	writing          int
}

// enter takes a place, if there is one.
func (l *waitingLine) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if max(0, l.written-l.decided)+int64(l.writing) >= int64(l.most) {
		return false
	}
	l.writing++
	return true
}

// wrote says that a ticket whose place was taken stands at an offset, or, if
// that is negative, that it may not stand anywhere.
func (l *waitingLine) wrote(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
	l.written = max(l.written, offset+1)
}

// decidedTo says that all tickets before an offset are decided.
func (l *waitingLine) decidedTo(offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decided = max(l.decided, offset)
}
