package autocomplete

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/api"
	"stampede/harness/stores"
	"stampede/harness/sut"
	"stampede/harness/topics"
	"stampede/systems/internal/partitions"
	"stampede/systems/internal/prefix"
)

// The topic of queries, which has one partition and so one order, and the group of those who bring
// it to a store.
const (
	topicQueries = "queries"
	groupIndex   = "index"
)

// placeKept is when a query is in the log, and its client does not know.
const placeKept = "kept"

// fed completes a design with the log, which all of them have.
func fed(v variant) variant {
	v.Needs = append(v.Needs, sut.Kafka)
	v.Places = append(v.Places, placeKept, placeBlocked)
	open := v.Open
	v.State.Ready = func(ctx context.Context, st *opened) error {
		// One clock, the broker's, says in which slot a query is.
		err := topics.Create(ctx, st.Config, topics.Topic{Name: topicQueries, Partitions: 1,
			Configs: map[string]string{"message.timestamp.type": "LogAppendTime"}})
		if err == nil {
			err = partitions.Begin(ctx, st.DB, 1)
		}
		if err == nil {
			err = topics.Coordinate(ctx, st.Kafka, st.Config, groupIndex)
		}
		return err
	}
	v.State.Found = func(ctx context.Context, st *opened) (string, error) {
		return partitions.Found(ctx, st.Config, st.Kafka, topicQueries, "queries in the log")
	}
	v.State.Audit = func(ctx context.Context, st *opened) (any, error) { return audit(ctx, st, open) }
	return v
}

// logBehind is how many queries are after a version.
func logBehind(ctx context.Context, st *opened, version int64) (int64, error) {
	return partitions.Behind(ctx, st.Kafka, topics.Name(st.Config, topicQueries),
		map[int32]int64{0: version})
}

// audit reads the log, what is blocked, and lists of an API that begins now.
func audit(
	ctx context.Context, st *opened, open func(context.Context, *opened) (Suggester, error),
) (all any, err error) {
	a := Audit{Log: []LogRow{}, Lists: []ListRow{}}
	err = partitions.Each(ctx, st.Config, st.Kafka, topicQueries, func(r *kgo.Record) error {
		row, err := read(r, st.Params)
		if n := len(a.Log); n > 0 {
			row.Slot = max(row.Slot, a.Log[n-1].Slot)
		}
		a.Log = append(a.Log, row)
		return err
	})
	if err != nil {
		return nil, stores.Failed("reading the log", err)
	}
	a.Blocked, err = stores.Collect[BlockRow](ctx, st.DB, `SELECT op, text FROM known ORDER BY seq`)
	if err != nil {
		return nil, stores.Failed("reading what is blocked", err)
	}
	s, err := open(ctx, st)
	if err != nil {
		return nil, err
	}
	if c, is := s.(io.Closer); is {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	for _, first := range firsts(a.Log) {
		found, err := s.Suggest(ctx, SuggestRequest{Prefix: first, Most: most})
		for errors.Is(err, ErrUnavailable) && sut.Pause(ctx, 100*time.Millisecond) { // a long log is read
			found, err = s.Suggest(ctx, SuggestRequest{Prefix: first, Most: most})
		}
		if err != nil {
			return nil, err
		}
		a.Lists = append(a.Lists, ListRow{first, found.Version, found.Phrases})
	}
	a.IndexBytes, err = s.(*service).bytes(ctx)
	return a, err
}

// service is the API of a design: the log, what is blocked, and an index.
type service struct {
	*opened
	prefix.Automata
	index
	blocks
	closes []func()
}

// index answers as of one version.
type index interface {
	suggest(ctx context.Context, q question) (Suggestions, error)
	// reached is the version that it answers as of now.
	reached(ctx context.Context) (int64, error)
	// bytes is about how large it is, without users' own phrases.
	bytes(ctx context.Context) (int64, error)
}

// question is what is asked of an index.
type question struct {
	prefix.Typed
	user    uint64
	most    int
	blocked map[string]bool
}

// own are those of a user's phrases that fit, with what find says of them.
func (q question) own(
	phrases []string, find func(phrase string) (prefix.Phrase, bool),
) (list []prefix.Phrase) {
	for _, text := range phrases {
		if q.Fits(text) && !q.blocked[text] {
			p, _ := find(text)
			p.Text = text
			list = append(list, p)
		}
	}
	return list
}

func serve(st *opened, i index, b blocks, closes ...func()) *service {
	return &service{st, prefix.NewAutomata(), i, b, closes}
}

// Close stops what works beside the calls.
func (s *service) Close() error {
	for _, stop := range s.closes {
		stop()
	}
	return nil
}

// Waiting counts the queries that are not in the index of this API.
func (s *service) Waiting() (left int64, what string) {
	ctx, cancel := context.WithTimeout(context.Background(), stores.Timeout(s.Config))
	defer cancel()
	version, err := s.reached(ctx)
	if err == nil {
		left, err = logBehind(ctx, s.opened, version)
	}
	if err != nil {
		return 1, "it is not known how far the index is: " + err.Error()
	}
	return left, "some queries are not in the index"
}

// Query appends to the log.
func (s *service) Query(ctx context.Context, req QueryRequest) (Kept, error) {
	value, err := json.Marshal(LogRow{ID: req.ID, User: req.User, Phrase: req.Phrase})
	if err != nil {
		return Kept{}, err
	}
	r := &kgo.Record{Topic: topics.Name(s.Config, topicQueries), Value: value}
	if err := partitions.Append(ctx, s.Config, s.Kafka, r, ErrOverloaded); err != nil {
		return Kept{}, err
	}
	s.Config.Passed(placeKept)
	return Kept{r.Offset + 1, s.Params.within()}, nil
}

// Suggest asks the index.
func (s *service) Suggest(ctx context.Context, req SuggestRequest) (Suggestions, error) {
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(s.Config))
	defer cancel()
	t, err := s.Of(req.Prefix, req.Edits)
	if err != nil {
		return Suggestions{}, err
	}
	blocked, err := s.blocked(ctx)
	if err != nil {
		return Suggestions{}, err
	}
	return s.suggest(ctx, question{t, req.User, req.Most, blocked})
}

// Block blocks a phrase.
func (s *service) Block(ctx context.Context, req BlockRequest) (api.Nothing, error) {
	return api.Nothing{}, s.block(ctx, req)
}

// beside runs work until it is told to stop, again and again, with a pause after each time.
func beside(
	st *opened, what string, every sut.Duration, work func(context.Context) error,
) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for worked := false; ctx.Err() == nil; sut.Pause(ctx, every.D()) {
			err := work(ctx)
			if err != nil && ctx.Err() == nil && worked { // before, there may be nothing yet
				st.Config.Warn(what, err)
			}
			worked = worked || err == nil
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// follower counts the log from its beginning on.
type follower struct {
	*opened
	*tally
	tail partitions.Tail
}

func follow(st *opened) *follower {
	return &follower{st, newTally(st.Params),
		partitions.Tail{Config: st.Config, Topic: topicQueries}}
}

// takenAtOnce bounds the queries that an index takes in at once.
const takenAtOnce = 5000

// take counts what there is, and waits for it for some time at most.
func (f *follower) take(ctx context.Context) error {
	return f.tail.Take(ctx, f.Params.ReadEvery.D(), takenAtOnce, func(r *kgo.Record) error {
		e, err := read(r, f.Params)
		if err == nil {
			f.add(e)
		}
		return err
	})
}

// catchUp counts what is in the log by now.
func (f *follower) catchUp(ctx context.Context) error {
	end, err := f.tail.End(ctx)
	for err == nil && ctx.Err() == nil && f.version < end {
		err = f.take(ctx)
	}
	return err
}

// Close closes the connections.
func (f *follower) Close() error {
	f.tail.Close()
	return nil
}
