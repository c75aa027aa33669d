package sqlbroker

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/sut"
)

// contract has the scripts that the right variants follow, as it says itself.
//
//go:embed testdata/contract.txt
var contract string

// TestContract: the right variants do as the scripts say, on a real store.
func TestContract(t *testing.T) {
	for _, v := range rightNames() {
		for name, script := range Sections(contract) {
			t.Run(v+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := rush()
				p.Keep, p.Worked = sut.Duration(time.Hour), 0
				d := &desk{lab: openLab(t, v, configOf(t, p), nil), t: t,
					swept: strings.HasSuffix(name, "swept")}
				// On a busy machine a brief time may be over before it is extended.
				for visibility := 300 * time.Millisecond; ; visibility *= 4 {
					err := d.follow(strings.Replace(strings.Join(script, "\n"), "300ms",
						visibility.String(), 1))
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

// number is a word as a number, 0 if it is none.
func number(word string) int {
	n, _ := strconv.Atoi(word)
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
		return count(n, err, len(d.last.Messages))
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
		return count(n, err, number(words[0]))
	case "purge":
		n, err := d.users.Purge(ctx, d.queue)
		return count(n, err, number(words[0]))
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
	var list []Message
	for _, word := range words {
		word, times, _ := strings.Cut(word, "*")
		parts := strings.Split(word, "/")
		m := Message{Body: parts[0]}
		for _, part := range parts[1:] {
			if part == "" {
				continue
			}
			n := number(part[1:])
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
		list = append(list, slices.Repeat([]Message{m}, max(number(times), 1))...)
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
	s := Settlement{ByMS: 600_000}
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
			s.MaxReceives = number(value)
		case "rate":
			s.RatePerS = number(value)
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
