package partitions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
)

// store keeps in memory what readers stored, and where partitions are.
type store struct {
	mu    sync.Mutex
	at    map[int32]int64
	texts map[string]int
}

func (s *store) start(context.Context) (map[int32]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at), nil
}

// shard collects the texts of records.
type shard struct {
	*store
	id   int32
	read []string
}

func (s *shard) Read(_ context.Context, r *kgo.Record) error {
	s.read = append(s.read, string(r.Value))
	return nil
}

func (s *shard) Store(_ context.Context, from, to int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[s.id] != from {
		return partitions.ErrMoved
	}
	s.at[s.id] = to
	for _, text := range s.read {
		s.texts[text]++
	}
	s.read = nil
	return nil
}

// complete says that some records are stored, each once.
func (s *store) complete(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.texts {
		if times != 1 {
			panic(fmt.Sprintf("records are stored several times: %v", s.texts))
		}
	}
	return len(s.texts) == n
}

// cluster is a broker with a topic of four partitions, and the configuration of its clients.
func cluster(t *testing.T) (sut.Config, *kgo.Client) {
	t.Helper()
	cfg := sut.Config{Kafka: sut.DefaultKafka(), Prefix: "test:", Timeout: 5 * time.Second}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, topics.Name(cfg, "log")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	cfg.KafkaBrokers = broker.ListenAddrs()
	client, err := topics.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return cfg, client
}

func write(t *testing.T, cfg sut.Config, client *kgo.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		err := partitions.Append(t.Context(), cfg, client, &kgo.Record{Topic: topics.Name(cfg, "log"),
			Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}, errFull)
		if err != nil {
			t.Fatal(err)
		}
	}
}

var errFull = sut.Refusal("full", "full")

// TestReader: each record is stored once, while readers come and go, and by a reader that begins
// where the store says and not where Kafka does. What is not stored is behind.
func TestReader(t *testing.T) {
	cfg, client := cluster(t)
	s := &store{at: map[int32]int64{}, texts: map[string]int{}}
	read := func(ctx context.Context) error {
		r := partitions.Reader{Config: cfg, Topic: "log", Group: "readers", Session: 6 * time.Second,
			Every: 10 * time.Millisecond, Start: s.start,
			Open: func(id int32) partitions.Shard { return &shard{store: s, id: id} }}
		return r.Run(ctx)
	}
	behind := func() int64 {
		starts, _ := s.start(t.Context())
		left, err := partitions.Behind(t.Context(), client, topics.Name(cfg, "log"), starts)
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	const each = 100
	for round := range 3 {
		write(t, cfg, client, round*each, (round+1)*each)
		if left := behind(); left != each {
			t.Fatalf("%d records are behind, not %d", left, each)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var all sync.WaitGroup
		for range 1 + round%2 {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := read(ctx); err != nil && !errors.Is(err, partitions.ErrMoved) {
						t.Error(err)
						return
					}
				}
			})
		}
		for !s.complete((round+1)*each) && sut.Pause(ctx, 5*time.Millisecond) {
		}
		stop()
		all.Wait()
	}
	if left := behind(); left != 0 || !s.complete(3*each) {
		t.Errorf("%d records are behind, and stored are %v", left, s.texts)
	}
	n := 0
	err := partitions.Each(t.Context(), cfg, client, "log", func(*kgo.Record) error {
		n++
		return nil
	})
	if err != nil || n != 3*each {
		t.Errorf("the log has %d records, not %d: %v", n, 3*each, err)
	}
}

// TestMoved: a reader whose partition is elsewhere, also one to which nothing comes, gives up.
func TestMoved(t *testing.T) {
	cfg, client := cluster(t)
	write(t, cfg, client, 0, 20)
	s := &store{at: map[int32]int64{}, texts: map[string]int{}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	r := partitions.Reader{Config: cfg, Topic: "log", Group: "readers", Session: 6 * time.Second,
		Every: 10 * time.Millisecond, Start: s.start,
		Open: func(id int32) partitions.Shard { return &shard{store: s, id: id} }}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for !s.complete(20) && sut.Pause(ctx, 5*time.Millisecond) {
	}
	s.mu.Lock()
	clear(s.at) // it has lost its memory
	s.mu.Unlock()
	if err := <-ended; !errors.Is(err, partitions.ErrMoved) {
		t.Errorf("the reader ended with %v", err)
	}
}

// TestAppend: what is certainly not in the log is refused. Whether a client that is closed has sent
// a record is unknown.
func TestAppend(t *testing.T) {
	cfg, client := cluster(t)
	record := &kgo.Record{Topic: topics.Name(cfg, "log"), Value: []byte("x")}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := partitions.Append(gone, cfg, client, record, errFull); !errors.Is(err,
		sut.ErrRefused) {
		t.Errorf("a client that had left got %v", err)
	}
	client.Close()
	err := partitions.Append(t.Context(), cfg, client, record, errFull)
	if err == nil || errors.Is(err, sut.ErrRefused) {
		t.Errorf("a closed client gave %v", err)
	}
}

// TestTail: a tail shows each record once and in order, those too that came before there was a
// topic for it, and knows where the topic ends.
func TestTail(t *testing.T) {
	cfg, client := cluster(t)
	missing := partitions.Tail{Config: cfg, Topic: "missing"}
	if _, err := missing.End(t.Context()); err == nil {
		t.Error("a topic that is not there has an end")
	}
	tail := partitions.Tail{Config: cfg, Topic: "log"}
	defer tail.Close()
	var seen []int64
	for range 2 {
		for range 10 {
			err := partitions.Append(t.Context(), cfg, client,
				&kgo.Record{Topic: topics.Name(cfg, "log"), Value: []byte("x"), // in partition 0:
					Key: []byte("a")}, errFull)
			if err != nil {
				t.Fatal(err)
			}
		}
		end, err := tail.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for int64(len(seen)) < end {
			if err := tail.Take(t.Context(), time.Second, 3, func(r *kgo.Record) error {
				seen = append(seen, r.Offset)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, offset := range seen {
		if offset != int64(i) {
			t.Fatalf("the tail showed %v", seen)
		}
	}
	if len(seen) != 20 {
		t.Errorf("the tail showed %d records, want 20", len(seen))
	}
}
