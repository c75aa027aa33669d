package writeheavy

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// The fail points of the tree.
const (
	placeSent  = "sent"    // a partial sum is sent, and its sender does not know
	placeAdded = "added"   // the middle has added sums up, and sent nothing
	placeRoot  = "applied" // the root has applied sums, and they are in its inbox still
)

// reduceTree adds up on the way: edges count what comes to them, the middle adds up what edges
// send, and only the root writes.
//
// The idea: an add is acknowledged when it is in the memory of an edge, which is a process of the
// API. When its window closes the edge sends the sum of each counter to the inbox of the middle, in
// Redis, under its name, its epoch and a sequence; one script takes a partial sum in if it is new,
// without adds that came before under the same number. The middle adds up what came in its window
// and moves it to the root's inbox, which applies it to Postgres, each sum once. Reads say how many
// rounds of the root they have.
//
// The guarantee: what left its edge is counted once, however often sums and adds are sent. An edge
// that dies takes at most its open window with it, which it declares.
//
// It gives up: durability for the length of a window, and where Redis forgets, whose counts of
// rounds and numbers of adds are what makes a sum new; memory of Redis, which has the number of
// every add; and reads as of now: they are about three windows old, and older while something
// waits.
func reduceTree() variant {
	return treeOf(variant{Name: "reduce_tree",
		Idea:       "edges add up, the middle adds up sums, and only the root writes",
		Guarantees: "a sum is applied once; an edge that dies takes no more than its open window with it",
		GivesUp:    "durability for the length of a window, and if Redis forgets; reads of now",
		Breaks:     []sut.Break{{Invariant: AckedKept, Under: sut.PowerLoss}},
		Model:      modelled(func(m *countersModel) { m.reduces(true) }),
	}, luaOnce+luaTake)
}

// treeOf completes a tree by the script with which the middle takes partial sums in.
func treeOf(v variant, take string) variant {
	v.Needs = []sut.Service{sut.Redis}
	v.Places = []string{placeCollected, placeSent}
	v.Open = func(_ context.Context, st *opened) (Counters, error) { return openEdge(st, take) }
	v.Roles = []role{
		{Name: "middle", Summary: "adds up the sums of edges", Places: []string{placeAdded}, Single: true,
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				return st.Params.MiddleWindow.D(), addUp(ctx, st)
			}},
		{Name: "root", Summary: "applies sums to the counters", Places: []string{placeRoot}, Single: true,
			Step: func(ctx context.Context, st *opened) (time.Duration, error) {
				return st.Params.RootWindow.D(), applySums(ctx, st)
			}},
	}
	v.State = design.State[Params]{
		Ready: func(ctx context.Context, st *opened) error {
			_, err := st.DB.Exec(ctx, `INSERT INTO progress VALUES (0, 0)`)
			return stores.Failed("beginning with no round", err)
		},
		Found: func(ctx context.Context, st *opened) (string, error) {
			n, what, err := onTheWay(ctx, st)
			if n == 0 {
				what = ""
			}
			return what, err
		},
		Pending: onTheWay,
		Audit: func(ctx context.Context, st *opened) (any, error) {
			e, err := openEdge(st, take)
			if err == nil {
				err = e.flush(ctx)
			}
			if err != nil {
				return nil, err
			}
			contract := Contract{Accepted: int64(st.Params.WindowMost), AsOf: true}
			return audited(contract, readTree)(ctx, st)
		},
	}
	return v
}

// The inboxes.
const (
	inboxMiddle = "inbox:middle"
	inboxRoot   = "inbox:root"
)

// partial is what a node has added up.
type partial struct {
	node, epoch string
	seq         int64
	sums        []sum
}

// sum is that of a counter, with the adds in it, as evidence.
type sum struct {
	key     uint64
	sum     int64
	members string
}

// String is a partial sum in an inbox: a line that says whose it is, and one for each counter.
func (p partial) String() string {
	size := 64
	for _, s := range p.sums {
		size += 48 + len(s.members)
	}
	b := append(make([]byte, 0, size), p.node+","+p.epoch+","...)
	b = strconv.AppendInt(b, p.seq, 10)
	for _, s := range p.sums {
		b = strconv.AppendUint(append(b, '\n'), s.key, 10)
		b = strconv.AppendInt(append(b, ','), s.sum, 10)
		b = append(append(b, ','), s.members...)
	}
	return string(b)
}

// partialOf reads what String wrote.
func partialOf(text string) (p partial, err error) {
	for line := range strings.SplitSeq(text, "\n") {
		first, rest, _ := strings.Cut(line, ",")
		second, third, whole := strings.Cut(rest, ",")
		if !whole {
			return p, fmt.Errorf("%q is no partial sum", line)
		}
		if p.sums == nil {
			p.node, p.epoch, p.sums = first, second, []sum{}
			p.seq, err = strconv.ParseInt(third, 10, 64)
		} else {
			s := sum{members: third}
			s.key, err = strconv.ParseUint(first, 10, 64)
			if err == nil {
				s.sum, err = strconv.ParseInt(second, 10, 64)
			}
			p.sums = append(p.sums, s)
		}
		if err != nil {
			return p, fmt.Errorf("reading a partial sum: %w", err)
		}
	}
	return p, nil
}

// member is an add in a partial sum, and members what a sum has of them.
type member struct {
	id    uint64
	delta int64
}

func membersOf(text string) (list []member, err error) {
	for word := range strings.FieldsSeq(text) {
		id, delta, _ := strings.Cut(word, ":")
		var m member
		var wrong error
		m.id, err = strconv.ParseUint(id, 10, 64)
		m.delta, wrong = strconv.ParseInt(delta, 10, 64)
		if err = errors.Join(err, wrong); err != nil {
			return nil, fmt.Errorf("members %q: %w", word, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// edge is an API that adds up in memory.
type edge struct {
	service
	*opened
	take  *redis.Script
	epoch string
	stop  context.CancelFunc
	ended sync.WaitGroup

	sending sync.Mutex   // of seq and closed: one window is sent at a time
	seq     int64        // of the last part that was sent
	shut    []AddRequest // what is not sent of the window that is closed, by counter

	mu   sync.Mutex // of open and held
	done bool
	open []AddRequest
	held int // open and closed
}

// openEdge opens the one edge of an instance.
func openEdge(st *opened, take string) (*edge, error) {
	return design.Keep(st, func() (*edge, error) {
		ctx, stop := context.WithCancel(context.Background())
		e := &edge{opened: st, take: redis.NewScript(take), epoch: rand.Text()[:8], stop: stop}
		e.service = service{watermarked{st}, e.count, 1}
		e.ended.Go(func() {
			for sut.Pause(ctx, st.Params.EdgeWindow.D()) {
				if err := e.flush(ctx); err != nil {
					st.Config.Warn("a window is sent again", err)
				}
			}
		})
		return e, nil
	})
}

// count adds in memory.
func (e *edge) count(ctx context.Context, req AddRequest) error {
	if !sound(req.Delta) {
		return ErrRejected
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.done || ctx.Err() != nil:
		return errClosed
	case e.held >= e.Params.WindowMost:
		return ErrShed
	}
	e.open, e.held = append(e.open, req), e.held+1
	return nil
}

// mostSent is how many adds an edge sends at once: while Redis takes them in, it does nothing else.
const mostSent = 5000

// flush closes the window and sends it, in parts if it is large. A part that may have been sent is
// sent again first, under the same sequence.
func (e *edge) flush(ctx context.Context) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	if len(e.shut) == 0 {
		e.mu.Lock()
		e.shut, e.open = e.open, nil
		e.mu.Unlock()
		slices.SortFunc(e.shut, func(a, b AddRequest) int { return cmp.Compare(a.Key, b.Key) })
	}
	for len(e.shut) > 0 {
		if err := e.send(ctx, e.shut[:min(len(e.shut), mostSent)]); err != nil {
			return err
		}
	}
	return nil
}

// send sends the next part of the window that is closed.
func (e *edge) send(ctx context.Context, part []AddRequest) error {
	e.Config.Passed(placeCollected)
	args := append(make([]any, 0, 2+4*len(part)), e.epoch, e.seq+1)
	for i, count := 0, 0; i < len(part); i++ {
		if i == 0 || part[i].Key != part[i-1].Key {
			args = append(args, part[i].Key, 0)
			count = len(args) - 1
		}
		args = append(args, part[i].ID, part[i].Delta)
		args[count] = (len(args) - count) / 2
	}
	ctx, cancel := context.WithTimeout(ctx, stores.Timeout(e.Config))
	defer cancel()
	err := e.take.Run(ctx, e.Redis, []string{e.Key(inboxMiddle), e.Key("seen"), e.Key("adds")},
		args...).Err()
	e.Config.Passed(placeSent)
	if err != nil {
		return stores.Unknown("sending a window", err)
	}
	e.mu.Lock()
	e.held -= len(part)
	e.mu.Unlock()
	e.seq, e.shut = e.seq+1, e.shut[len(part):]
	return nil
}

// Waiting counts what is in memory.
func (e *edge) Waiting() (left int64, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.held), fmt.Sprintf("%d adds are in windows that are not sent", e.held)
}

// Close sends what is in memory.
func (e *edge) Close() error {
	e.mu.Lock()
	first := !e.done
	e.done = true
	e.mu.Unlock()
	if !first {
		return nil
	}
	e.stop()
	e.ended.Wait()
	for range 2 { // what may have been sent, and the rest
		if err := e.flush(context.Background()); err != nil {
			return fmt.Errorf("sending the last window: %w", err)
		}
	}
	return nil
}

// luaOnce ends a script that has seen a partial sum, by the node's epoch and the sequence.
const luaOnce = `
if tonumber(ARGV[2]) <= tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or 0) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
`

//go:embed reduce_tree.lua
var luaTake string

// luaMove takes so many partial sums out of an inbox, if as many were taken before as its caller
// knows, and puts their sum into the next inbox, if there is one.
const luaMove = `
if tonumber(redis.call('GET', KEYS[2]) or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('INCRBY', KEYS[2], ARGV[2])
redis.call('LTRIM', KEYS[1], ARGV[2], -1)
if ARGV[3] then redis.call('RPUSH', KEYS[3], ARGV[3]) end
return 1`

// mostPartials is how many partial sums a node takes out of its inbox at once.
const mostPartials = 200

// look reads what is in an inbox, and how much was taken out of it before.
func look(ctx context.Context, st *opened, inbox string) (list []partial, taken int64, err error) {
	both := st.Redis.TxPipeline()
	texts := both.LRange(ctx, st.Key(inbox), 0, mostPartials-1)
	count := both.Get(ctx, st.Key(inbox+":taken"))
	if _, err := both.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, stores.Failed("reading an inbox", err)
	}
	for _, text := range texts.Val() {
		p, err := partialOf(text)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, p)
	}
	taken, _ = strconv.ParseInt(count.Val(), 10, 64) // "" of a new inbox
	return list, taken, nil
}

// move takes partial sums out of an inbox.
func move(ctx context.Context, st *opened, inbox string, taken int64, n int, sent ...any) error {
	err := redis.NewScript(luaMove).Run(ctx, st.Redis, []string{st.Key(inbox),
		st.Key(inbox + ":taken"), st.Key(inboxRoot)}, append([]any{taken, n}, sent...)...).Err()
	return stores.Failed("moving partial sums", err)
}

// addUp makes one partial sum of those in the inbox of the middle. Its sequence is how many were
// taken out before, so that it has nothing to lose but what Redis loses.
func addUp(ctx context.Context, st *opened) error {
	list, taken, err := look(ctx, st, inboxMiddle)
	if err != nil || len(list) == 0 {
		return err
	}
	sums, members := map[uint64]int64{}, map[uint64][]string{}
	for _, p := range list {
		for _, s := range p.sums {
			sums[s.key] += s.sum
			members[s.key] = append(members[s.key], s.members)
		}
	}
	all := partial{node: "middle", epoch: "0", seq: taken}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		all.sums = append(all.sums, sum{key, sums[key], strings.Join(members[key], " ")})
	}
	st.Config.Passed(placeAdded)
	if len(all.sums) == 0 { // adds that came before
		return move(ctx, st, inboxMiddle, taken, len(list))
	}
	return move(ctx, st, inboxMiddle, taken, len(list), all.String())
}

// sqlRound applies partial sums that are new, in a round of the root.
const sqlRound = `WITH round AS (
		UPDATE progress SET next_offset = next_offset + 1 WHERE part = 0 RETURNING next_offset),
	fresh AS (
		INSERT INTO partials (node, epoch, seq, key, sum, pos, members)
		SELECT node, epoch, seq, key, sum, next_offset, members FROM round, unnest($1::text[],
			$2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
			AS p (node, epoch, seq, key, sum, members)
		ON CONFLICT DO NOTHING RETURNING key, sum)
	INSERT INTO counters (key, map, shard, value)
	SELECT key, 1, 0, sum(sum)::bigint FROM fresh GROUP BY key ORDER BY key
	ON CONFLICT (key, map, shard) DO UPDATE SET value = counters.value + excluded.value`

// applySums applies what is in the root's inbox, and takes it out then: one that dies in between
// applies it again, to no effect.
func applySums(ctx context.Context, st *opened) error {
	list, taken, err := look(ctx, st, inboxRoot)
	if err != nil || len(list) == 0 {
		return err
	}
	var nodes, epochs, members []string
	var seqs, sums []int64
	var keys []uint64
	for _, p := range list {
		for _, s := range p.sums {
			nodes, epochs, seqs = append(nodes, p.node), append(epochs, p.epoch), append(seqs, p.seq)
			keys, sums, members = append(keys, s.key), append(sums, s.sum), append(members, s.members)
		}
	}
	if _, err := st.DB.Exec(ctx, sqlRound, nodes, epochs, seqs, keys, sums, members); err != nil {
		return stores.Failed("applying partial sums", err)
	}
	st.Config.Passed(placeRoot)
	return move(ctx, st, inboxRoot, taken, len(list))
}

// onTheWay counts the partial sums in inboxes.
func onTheWay(ctx context.Context, st *opened) (left int64, what string, err error) {
	both := st.Redis.TxPipeline()
	middle, root := both.LLen(ctx, st.Key(inboxMiddle)), both.LLen(ctx, st.Key(inboxRoot))
	_, err = both.Exec(ctx)
	left = middle.Val() + root.Val()
	return left, fmt.Sprintf("%d partial sums are not applied", left),
		stores.Failed("looking into inboxes", err)
}

// readTree adds what is in partial sums to an audit, and what is on the way to them.
func readTree(ctx context.Context, st *opened, tx pgx.Tx, a *Audit) error {
	a.Log = []LogRow{}
	add := func(key uint64, members string, pos int64) error {
		list, err := membersOf(members)
		for _, m := range list {
			a.Log = append(a.Log, LogRow{m.id, key, m.delta})
			if pos > 0 {
				a.Ops = append(a.Ops, OpRow{ID: m.id, Key: key, Delta: m.delta, Pos: pos})
			}
		}
		return err
	}
	rows, err := stores.CollectOn[struct {
		PartialRow
		Members string
	}](ctx, tx, `SELECT node, epoch, seq, key, sum, pos, members FROM partials
		ORDER BY node, epoch, seq, key`)
	a.Partials = []PartialRow{}
	for _, row := range rows {
		a.Partials = append(a.Partials, row.PartialRow)
		if err == nil {
			err = add(row.Key, row.Members, row.Pos)
		}
	}
	for _, inbox := range []string{inboxMiddle, inboxRoot} {
		if err != nil {
			return err
		}
		var list []partial
		list, _, err = look(ctx, st, inbox)
		for _, p := range list {
			for _, s := range p.sums {
				if err == nil {
					err = add(s.key, s.members, 0)
				}
			}
		}
	}
	return err
}
