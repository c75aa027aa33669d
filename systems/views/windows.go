package views

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/harness/stores"
)

// candidate is an event that no rule turns away by itself: what else has been watched decides.
type candidate struct {
	at    Position
	event *Event
	rules *ruleSet
}

// mine names a candidate: its position and its heartbeat.
func (c *candidate) mine() string {
	out := strconv.AppendInt(make([]byte, 0, 64), int64(c.at.Partition), 10)
	out = strconv.AppendInt(append(out, ':'), c.at.in(), 10)
	out = strconv.AppendUint(append(out, ':'), c.event.ID, 10)
	return string(out)
}

// windows is what the filter remembers, in Redis, which all its replicas share. The key memory,
// after the prefix, has the name of what is remembered. It is gone when Redis has lost it, and
// whoever judged by it must take its partitions anew before it judges by another: what somebody
// else has decided since, it would otherwise decide once more, and fill windows with it.
//
// The other keys are hashes: s:N, for each session that is a watch the candidate that made it one
// and what became of it; r:MS:N, whose field VIDEO:USER is there if the user has a view of the
// video in window N of so many milliseconds; and i:MS:N, whose field IP is how many views the
// address has in it. The N of s counts, by the clock of Redis, stretches as long as is to be
// remembered: a session is written into the current one and looked for in the one before, too.
type windows struct {
	rdb    *redis.Client
	prefix string
	limit  time.Duration
	keep   time.Duration
	script *redis.Script
	books  books
	// memory is the name of what is remembered, "" if it is not known.
	memory string
	// judged remembers sessions that are watches, by partition. open are the candidates of the
	// batch, one for each session in asked, and follows the events that they decide.
	judged  map[int32]map[string]judgement
	asked   map[string]int
	open    []candidate
	follows []follow
	// decide decides candidates in order; it is judgeAll but in tests.
	decide func(context.Context, []candidate) ([]string, error)
}

// judge decides candidates one after the other, all in one step. The session
// remembers the decision, so that a candidate that comes again, because its
// first reader died, is decided as it was.
//
// KEYS[1] is what the keys of sessions begin with, KEYS[2] has the name of what is remembered, the
// others are windows. ARGV[1] is how long to remember, in milliseconds, ARGV[2] the name that is
// expected; a candidate is seven more: its session, its name, which of KEYS and which field says
// that its user has a view, the same for its address, and how many views an address has. Each hash
// is read once and written once, however many candidates there are.
const judge = `
if redis.call('GET', KEYS[2]) ~= ARGV[2] then
	return redis.error_reply('FORGOTTEN what was remembered as ' .. ARGV[2])
end
local n = math.floor(redis.call('TIME')[1] * 1000 / ARGV[1])
local current = KEYS[1] .. string.format('%.0f', n)
local before = KEYS[1] .. string.format('%.0f', n - 1)

local function read(key, fields)
	local values, out = redis.call('HMGET', key, unpack(fields)), {}
	for i = 1, #fields do
		out[fields[i]] = values[i]
	end
	return out
end

local names, fields = {}, {}
for a = 3, #ARGV, 7 do
	names[#names + 1] = ARGV[a]
	for b = a + 2, a + 4, 2 do
		local list = fields[ARGV[b]]
		if not list then
			list = {}
			fields[ARGV[b]] = list
		end
		list[#list + 1] = ARGV[b + 1]
	end
end
local sessions, older, held = read(current, names), {}, {}
if redis.call('EXISTS', before) == 1 then
	older = read(before, names)
end
for k, list in pairs(fields) do
	held[k] = read(KEYS[tonumber(k)], list)
end

local out, new, more = {}, {}, {}
local function put(k, field, value)
	held[k][field] = value
	local list = more[k]
	if not list then
		list = {}
		more[k] = list
	end
	list[#list + 1] = field
	list[#list + 1] = value
end
for a = 3, #ARGV, 7 do
	local session = ARGV[a]
	local judged = sessions[session] or older[session]
	if not judged then
		local word = 'view'
		local used = tonumber(held[ARGV[a + 4]][ARGV[a + 5]] or 0)
		if held[ARGV[a + 2]][ARGV[a + 3]] then
			word = 'repeat'
		elseif used >= tonumber(ARGV[a + 6]) then
			word = 'ip-rate'
		else
			put(ARGV[a + 2], ARGV[a + 3], '1')
			put(ARGV[a + 4], ARGV[a + 5], used + 1)
		end
		judged = ARGV[a + 1] .. ':' .. word
		sessions[session] = judged
		new[#new + 1] = session
		new[#new + 1] = judged
	end
	out[#out + 1] = judged
end

for k, list in pairs(more) do
	redis.call('HSET', KEYS[tonumber(k)], unpack(list))
	redis.call('PEXPIRE', KEYS[tonumber(k)], ARGV[1])
end
if #new > 0 then
	redis.call('HSET', current, unpack(new))
	redis.call('PEXPIRE', current, 2 * ARGV[1])
end
return out`

// wordView is what judge says of a view; otherwise it says the reason.
const wordView = "view"

// judgedAtOnce bounds the candidates of one call, so that others get a turn,
// and Lua has room for what is read and written at once.
const judgedAtOnce = 500

// follow is an event of a batch that is decided by a candidate.
type follow struct{ event, candidate int }

// rememberedSessions bounds what a filter keeps in mind of a partition.
const rememberedSessions = 1 << 17

func newWindows(st *opened, b books) *windows {
	w := &windows{rdb: st.Redis, prefix: st.Config.Prefix, limit: stores.Timeout(st.Config),
		keep: st.Params.Retention.D(), script: redis.NewScript(judge), books: b,
		judged: make(map[int32]map[string]judgement), asked: make(map[string]int)}
	w.decide = w.judgeAll
	return w
}

// meet asks about a session once; its later events follow from that.
func (w *windows) meet(i int, d *decision, rules *ruleSet) (reason string) {
	if known, ok := w.judged[d.at.Partition][d.event.Session]; ok {
		return known.reasonFor(d)
	}
	n, ok := w.asked[d.event.Session]
	if !ok {
		n = len(w.open)
		w.asked[d.event.Session] = n
		w.open = append(w.open, candidate{d.at, &d.event, rules})
	}
	w.follows = append(w.follows, follow{i, n})
	return ""
}

// judge decides the candidates of a batch, and what follows from them.
func (w *windows) judge(ctx context.Context, list []decision) error {
	judged, err := w.decisions(ctx, w.open)
	if err != nil {
		return err
	}
	for _, f := range w.follows {
		d := &list[f.event]
		d.reason = judged[f.candidate].reasonFor(d)
		w.remember(d.at.Partition, d.event.Session, judged[f.candidate])
	}
	return nil
}

// remember keeps what became of a session, whose events in one batch share it. The name is copied
// once: it is a part of all texts of a poll, which would stay in memory with it. Entering a key
// again would put the part in place of the copy.
func (w *windows) remember(partition int32, session string, j judgement) {
	m := w.judged[partition]
	if _, known := m[session]; known {
		return
	}
	if m == nil || len(m) >= rememberedSessions {
		m = make(map[string]judgement)
		w.judged[partition] = m
	}
	m[strings.Clone(session)] = j
}

// store stores what Redis has decided.
func (w *windows) store(
	ctx context.Context, _ []decision, settle func() ([]move, []DropAudit),
) ([]move, error) {
	moves, drops := settle()
	return moves, w.books.filtered(ctx, moves, drops)
}

func (w *windows) forget() { clear(w.judged) }

func (w *windows) leave(gone []int32) {
	for _, p := range gone {
		delete(w.judged, p)
	}
}

// span is an aligned window of event time: of the repeats or of the
// addresses, so many milliseconds long, the n-th.
type span struct {
	kind  byte
	ms, n int64
}

// field is a field of the hash of a window.
type field struct {
	span
	name string
}

// spans are the windows of a candidate's user and of its address.
func (c *candidate) spans() (user, address span) {
	at, r := c.event.TimeMS, c.rules
	return span{'r', r.RepeatWindowMS, at / r.RepeatWindowMS},
		span{'i', r.IPWindowMS, at / r.IPWindowMS}
}

// fields say that a candidate's user has a view, and how many its address has.
func (c *candidate) fields() (seen, address field) {
	user, from := c.spans()
	return field{user, c.event.Video + ":" + c.event.User}, field{from, c.event.IP}
}

// key is the key of a window.
func (w *windows) key(of span) string {
	return fmt.Sprintf("%s%c:%d:%d", w.prefix, of.kind, of.ms, of.n)
}

// judgement is what a session remembers: the candidate that made it a watch,
// by partition, number of the position and heartbeat, and what became of it.
type judgement struct {
	partition int32
	in        int64
	id        uint64
	word      string
}

func parseJudgement(text string) (j judgement, err error) {
	partition, rest, _ := strings.Cut(text, ":")
	in, rest, _ := strings.Cut(rest, ":")
	id, word, whole := strings.Cut(rest, ":")
	p, first := strconv.ParseInt(partition, 10, 32)
	n, second := strconv.ParseInt(in, 10, 64)
	j.id, err = strconv.ParseUint(id, 10, 64)
	if err = errors.Join(first, second, err); err != nil || !whole {
		return j, fmt.Errorf("a session remembers %q, which is no judgement", text)
	}
	j.partition, j.in, j.word = int32(p), n, word
	return j, nil
}

// reasonFor is what a session's judgement means for one of its events.
func (j judgement) reasonFor(d *decision) string {
	switch {
	case j.partition != d.at.Partition || j.in != d.at.in():
		if j.id == d.event.ID {
			return Duplicate
		}
		return Continued
	case j.word == wordView:
		return ""
	}
	return j.word
}

// decisions decides candidates in order; the result has what each one's session remembers now.
func (w *windows) decisions(ctx context.Context, list []candidate) ([]judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	texts, err := w.decide(ctx, list)
	if err == nil && len(texts) != len(list) {
		err = fmt.Errorf("%d of %d were judged", len(texts), len(list))
	}
	if err != nil {
		if redis.HasErrorPrefix(err, "FORGOTTEN") {
			w.memory = ""
		}
		return nil, fmt.Errorf("judging candidates: %w", err)
	}
	out := make([]judgement, len(list))
	for i, text := range texts {
		if out[i], err = parseJudgement(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// recall learns the name of what is remembered, or gives it one. It is called
// with partitions in hand that were taken since the name was lost.
func (w *windows) recall(ctx context.Context, _ []stand) error {
	clear(w.asked)
	w.open, w.follows = w.open[:0], w.follows[:0]
	if w.memory != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	key := w.prefix + "memory"
	_, err := w.rdb.SetNX(ctx, key, rand.Text(), 0).Result()
	if err == nil {
		w.memory, err = w.rdb.Get(ctx, key).Result()
	}
	if err != nil {
		return fmt.Errorf("asking Redis what it remembers: %w", err)
	}
	return nil
}

// judgeAll sends all calls at once, for Redis to do one after the other. A Redis
// that has forgotten the script has done none of them.
func (w *windows) judgeAll(ctx context.Context, list []candidate) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	calls, err := w.send(ctx, list)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err := w.script.Load(ctx, w.rdb).Err(); err != nil {
			return nil, err
		}
		calls, err = w.send(ctx, list)
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list))
	for _, call := range calls {
		some, err := call.StringSlice()
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

func (w *windows) send(ctx context.Context, list []candidate) (calls []*redis.Cmd, err error) {
	pipe := w.rdb.Pipeline()
	for some := range slices.Chunk(list, judgedAtOnce) {
		keys, args := w.call(some)
		calls = append(calls, w.script.EvalSha(ctx, pipe, keys, args...))
	}
	_, err = pipe.Exec(ctx)
	return calls, err
}

// call is what judge takes.
func (w *windows) call(list []candidate) (keys []string, args []any) {
	keys = []string{w.prefix + "s:", w.prefix + "memory"}
	numbers := make(map[span]int)
	number := func(of span) int {
		n, known := numbers[of]
		if !known {
			keys = append(keys, w.key(of))
			n = len(keys)
			numbers[of] = n
		}
		return n
	}
	args = append(make([]any, 0, 2+7*len(list)), w.keep.Milliseconds(), w.memory)
	for i := range list {
		c := &list[i]
		seen, address := c.fields()
		args = append(args, c.event.Session, c.mine(), number(seen.span), seen.name,
			number(address.span), address.name, c.rules.IPViews)
	}
	return keys, args
}
