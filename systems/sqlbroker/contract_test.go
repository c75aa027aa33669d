package sqlbroker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/sut"
)

// scripts are what every right variant does, on a real store, that the workload asks of it
// seldom or never, by line:
//
//	publish BODY/g7/p1/d150ms ..    one publication, of a group, a priority and with a delay
//	again, taken BODY ..            the last publication, or another one with its identity
//	receive a.1 b.2 ..              these bodies in this order, for the first and the second time
//	nothing                         there is nothing to receive
//	ack, extend, release a.1 ..     accepted; after "stale": refused
//	redrive 2, purge 2              puts back, or deletes, so many
//	limited publish, limited receive  refused for half a minute or so
//	holds 1 0 2 0                   so many are ready, delayed, with consumers and dead, at last
//	acked 2.1 .., dead 2.receives ..  the audit's rows: receives.redrives, receives.reason
//	set receives=2 ..               the queue's settings
//	outlive 2h                      messages, and the queue's settings, become so much older
//	waits 0s-1h 2h-3h               for how long the audit says that messages wait
//	since 0s-1h                     and since when the queue's retention is what it is
//	left retention                  what is left to do, "" if it is nothing
//
// What comes back comes when its time, or its delay, is over. @NAME before a line is another
// queue. Where nobody sweeps but at a line "sweep", nothing else is due.
func scripts() map[string]string {
	return map[string]string{
		"delayed": `publish now later/d150ms
			receive now.1
			receive later.1
			publish tomorrow/d1h
			nothing
			holds 0 1 2 0`,
		"priorities": `publish low/p1 high/p2 middle/p1 highest/p3 too/p2 lowest
			publish last/p2
			receive highest.1 high.1
			receive too.1 last.1 low.1
			receive middle.1 lowest.1
			nothing`,
		"release": `publish a b
			receive a.1 b.1
			nothing
			release a.1
			stale ack a.1
			receive a.2
			stale release a.1
			ack a.2 b.1
			ack a.2
			holds 0 0 0 0`,
		"extend": `set visibility=300ms
			publish kept lost
			receive kept.1 lost.1
			extend kept.1
			receive lost.2
			nothing
			stale ack lost.1
			ack kept.1`,
		"redrive": `set receives=2
			publish a b
			receive a.1 b.1
			release a.1 b.1
			receive a.2 b.2
			release a.2 b.2
			holds 0 0 0 2
			nothing
			dead 2.receives 2.receives
			redrive 2
			redrive 0
			receive a.1 b.1
			ack a.1 b.1
			acked 1.1 1.1`,
		"purge": `@other publish here
			set receives=1
			publish dead
			receive dead.1
			release dead.1
			holds 0 0 0 1
			publish acked hand ready delayed/d1h
			receive acked.1 hand.1
			ack acked.1
			purge 3
			purge 0
			nothing
			holds 0 0 0 1
			stale ack hand.1
			@other receive here.1`,
		"rates": `set rate=2
			publish ` + strings.Repeat("m ", 100) + `
			limited publish
			limited receive
			holds 100 0 0 0
			@other publish soon
			@other receive soon.1`,
		"retention": `publish hand waits delayed/d1h
			receive hand.1
			set retention=50ms
			holds 0 0 1 2
			dead 0.retention 0.retention
			ack hand.1`,
		"published once": `publish a b c
			again
			receive a.1 b.1 c.1
			ack a.1 b.1 c.1
			again
			holds 0 0 0 0`,
		"taken": `publish a b
			@other taken a b
			taken a
			taken a b c
			taken a c
			taken ab /
			taken a b/d1ms
			taken a/p1 b
			taken a b/g1
			again
			receive a.1 b.1
			nothing
			@other nothing`,
		// What waits although it is too old is left to do until the sweeper has been there.
		"too old, swept": `publish received waits
			receive received.1
			outlive 2h
			release received.1
			left older than its retention
			waits 1ns-2h 2h-3h
			sweep
			left
			dead 1.retention 0.retention`,
		"a retention that changes, swept": `publish waits
			outlive 30m
			set rate=7
			since 30m-1h
			set rate=7 retention=1ms
			since 1ns-30m
			sweep
			left
			dead 0.retention`,
	}
}

// TestContract: the right variants do as the scripts say, on a real store.
func TestContract(t *testing.T) {
	for _, v := range rightNames() {
		for name, script := range scripts() {
			t.Run(v+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := rush()
				p.Keep, p.Worked = sut.Duration(time.Hour), 0
				d := &desk{lab: openLab(t, v, configOf(t, p), nil), t: t,
					swept: strings.HasSuffix(name, "swept")}
				// On a busy machine a brief time may be over before it is extended.
				for visibility := 300 * time.Millisecond; ; visibility *= 4 {
					err := d.follow(strings.Replace(script, "300ms", visibility.String(), 1))
					if err == nil {
						return
					}
					if name != "extend" || visibility > 10*time.Second {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// desk follows a script.
type desk struct {
	*lab
	t     *testing.T
	swept bool // by the script
	queue string
	runs  int    // of the script, each in queues of its own
	op    uint64 // the last identity
	last  Publication
	// due is when a message may be received, by its body, from when it may have been on, by the
	// store's clock; held are the deliveries by body and number.
	due  map[string]time.Time
	held map[string]Delivery
}

// lasting are settings under which nothing happens by itself.
func lasting() QueueSettings {
	return QueueSettings{VisibilityMS: 600_000, MaxReceives: 5, RetentionMS: 3_600_000}
}

func (d *desk) follow(script string) error {
	d.due, d.held = map[string]time.Time{}, map[string]Delivery{}
	d.runs++
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		name := "mine"
		if other, is := strings.CutPrefix(words[0], "@"); is {
			name, words = other, words[1:]
		}
		d.queue = name + strconv.Itoa(d.runs)
		list, err := d.users.List(d.t.Context())
		if !slices.ContainsFunc(list, func(q QueueInfo) bool { return q.Queue == d.queue }) {
			err = errors.Join(err, d.users.Create(d.t.Context(), d.queue, lasting()))
		}
		if err = errors.Join(err, d.do(words[0], words[1:])); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

// number is the first word as a number.
func number(words []string) int {
	n, _ := strconv.Atoi(words[0])
	return n
}

func (d *desk) do(verb string, words []string) error {
	ctx := d.t.Context()
	count := func(n int, err error, want int) error {
		if err != nil || n != want {
			return fmt.Errorf("%d, want %d: %w", n, want, err)
		}
		return nil
	}
	switch verb {
	case "publish":
		d.op++
		d.last = Publication{OpID: d.op, Messages: d.messagesOf(words)}
		n, err := d.users.Publish(ctx, d.queue, d.last)
		return count(n, err, len(words))
	case "again":
		n, err := d.users.Publish(ctx, d.queue, d.last)
		return count(n, err, 0)
	case "taken":
		n, err := d.users.Publish(ctx, d.queue, Publication{OpID: d.op, Messages: d.messagesOf(words)})
		if n > 0 || !errors.Is(err, ErrTaken) {
			return fmt.Errorf("%d, %w", n, err)
		}
		return nil
	case "receive":
		return d.receive(words)
	case "nothing":
		got, err := d.users.Receive(ctx, d.queue, Demand{Most: 10})
		return count(len(got), err, 0)
	case KindAck, KindExtend, KindRelease:
		done, err := d.settles(verb, words)
		return count(len(done.Done), err, len(words))
	case "stale":
		if _, err := d.settles(words[0], words[1:]); !errors.Is(err, ErrStaleReceipt) {
			return fmt.Errorf("it is %w", err)
		}
		return nil
	case "redrive":
		n, err := d.users.Redrive(ctx, d.queue)
		return count(n, err, number(words))
	case "purge":
		n, err := d.users.Purge(ctx, d.queue)
		return count(n, err, number(words))
	case "limited":
		return d.limited(words[0])
	case "set":
		return d.set(words)
	case "outlive":
		return d.outlive(ctx, durationOf(words[0]))
	case "sweep":
		return d.messages.sweep(ctx)
	}
	return d.looks(verb, words)
}

// durationOf is a duration of a script.
func durationOf(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		panic(err) // it is of this file
	}
	return d
}

// messagesOf are the messages that words say; those of a delay are not due before it is over.
func (d *desk) messagesOf(words []string) []Message {
	list := make([]Message, len(words))
	for i, word := range words {
		parts := strings.Split(word, "/")
		m := Message{Body: parts[0]}
		for _, part := range parts[1:] {
			if part == "" {
				continue
			}
			n := number([]string{part[1:]})
			switch part[0] {
			case 'g':
				m.Group = uint64(n)
			case 'p':
				m.Priority = n
			case 'd':
				m.DelayMS = durationOf(part[1:]).Milliseconds()
			}
		}
		d.due[m.Body] = time.Now().Add(time.Duration(m.DelayMS) * time.Millisecond)
		list[i] = m
	}
	return list
}

// receive waits for messages, and sweeps meanwhile.
func (d *desk) receive(words []string) error {
	var got []string
	for until := time.Now().Add(20 * time.Second); len(got) < len(words); {
		if !d.swept {
			must(d.t, d.messages.sweep(d.t.Context()))
		}
		more, err := d.users.Receive(d.t.Context(), d.queue,
			Demand{Most: len(words) - len(got), WaitMS: 10})
		if err != nil || time.Now().After(until) {
			return fmt.Errorf("received %q: %w", got, err)
		}
		for _, m := range more {
			name := m.Body + "." + strconv.Itoa(m.Receives)
			if received := time.Unix(0, m.ReceivedNS); received.Before(d.due[m.Body]) {
				return fmt.Errorf("%s was received %v too early", name, d.due[m.Body].Sub(received))
			}
			d.due[m.Body], d.held[name] = time.Unix(0, m.VisibleNS), m
			got = append(got, name)
		}
	}
	if !slices.Equal(got, words) {
		return fmt.Errorf("received %q", got)
	}
	return nil
}

// settles settles deliveries; what is released is due at once.
func (d *desk) settles(how string, words []string) (Settled, error) {
	d.op++
	s := Settlement{OpID: d.op, ByMS: 600_000}
	for _, name := range words {
		s.Receipts = append(s.Receipts, d.held[name].Receipt)
		if how == KindRelease {
			d.due[d.held[name].Body] = time.Time{}
		}
	}
	done, err := d.users.Settle(d.t.Context(), d.queue, how, s)
	if how == KindExtend && err == nil {
		d.due[d.held[words[0]].Body] = time.Unix(0, done.VisibleNS)
	}
	return done, err
}

// limited wants that the queue's rate is used up.
func (d *desk) limited(kind string) (err error) {
	if kind == KindReceive {
		_, err = d.users.Receive(d.t.Context(), d.queue, Demand{Most: 1})
	} else {
		d.op++
		_, err = d.users.Publish(d.t.Context(), d.queue,
			Publication{OpID: d.op, Messages: make([]Message, 1)})
	}
	var limited *RateError
	if !errors.As(err, &limited) || limited.Wait < 20*time.Second || limited.Wait > 50*time.Second {
		return fmt.Errorf("%s is %w", kind, err)
	}
	return nil
}

// set changes lasting settings.
func (d *desk) set(words []string) error {
	s := lasting()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "receives":
			s.MaxReceives = number([]string{value})
		case "rate":
			s.RatePerS = number([]string{value})
		case "visibility":
			s.VisibilityMS = durationOf(value).Milliseconds()
		case "retention":
			s.RetentionMS = durationOf(value).Milliseconds()
		}
	}
	return d.users.Create(d.t.Context(), d.queue, s)
}

// looks waits until a look says what is wanted.
func (d *desk) looks(at string, words []string) error {
	for until := time.Now().Add(20 * time.Second); ; {
		is, found, err := d.look(at, words)
		if err != nil || found {
			return err
		}
		if time.Now().After(until) || d.swept {
			return fmt.Errorf("it is %s", is)
		}
		must(d.t, d.messages.sweep(d.t.Context()))
	}
}

// look looks at what is left to do, at how many messages there are, or at the audit.
func (d *desk) look(at string, words []string) (is string, found bool, err error) {
	ctx, want := d.t.Context(), strings.Join(words, " ")
	switch at {
	case "left":
		is, err = d.inst.(sut.Quiescer).Quiesced(ctx)
		return is, strings.Contains(is, want) && (is == "") == (want == ""), err
	case "holds":
		list, err := d.users.List(ctx)
		for _, q := range list {
			if q.Queue == d.queue {
				is = fmt.Sprint(q.Ready, q.Delayed, q.Picked, q.Dead)
			}
		}
		return is, is == want, err
	}
	a, err := d.reads(ctx)
	var rows []string
	var spans []time.Duration
	for _, q := range a.Queues {
		if at == "since" && q.Queue == d.queue {
			spans = append(spans, time.Duration(q.RetentionAgeNS))
		}
	}
	for _, m := range a.Messages {
		switch {
		case m.Queue != d.queue:
		case at == "waits":
			spans = append(spans, time.Duration(min(m.WaitsNS, m.AgeNS)))
		case at == m.State:
			rows = append(rows, fmt.Sprintf("%d.%d", m.Receives, m.Redrives))
		}
	}
	for _, m := range a.Dead {
		if at == "dead" && m.Queue == d.queue {
			rows = append(rows, fmt.Sprintf("%d.%s", m.Receives, m.Reason))
			if m.Reason == DeadRetention && m.AgeNS < int64(50*time.Millisecond) {
				rows = append(rows, "too young")
			}
		}
	}
	if spans == nil {
		return fmt.Sprint(rows), slices.Equal(rows, words), err
	}
	found = len(spans) == len(words)
	for i, word := range words {
		least, most, _ := strings.Cut(word, "-")
		found = found && spans[i] >= durationOf(least) && spans[i] < durationOf(most)
	}
	return fmt.Sprint(spans), found, err
}
