package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"stampede/harness/history"
)

// remote is an instance somewhere else.
type remote[S any] struct {
	*Client
	table         *Table[S]
	params, begin any
	problems      map[string]Problems // by kind

	// What was left when the server was last asked another way, and until when that is good
	// enough.
	mu   sync.Mutex
	left int64
	what string
	next time.Time
}

// Prepare asks the server to begin anew.
func (r *remote[S]) Prepare(ctx context.Context) error {
	err := r.Reset(ctx, r.begin)
	if errors.Is(err, ErrNoRoute) {
		err = fmt.Errorf("%w; it must speak the API in systems/%s/openapi.yaml", err, r.table.System)
	}
	return err
}

// Do sends one operation.
func (r *remote[S]) Do(ctx context.Context, op history.Op) (history.Reply, error) {
	k, err := r.table.kind(op.Kind)
	if err != nil {
		return history.Reply{}, err
	}
	req, err := k.requestOf(op)
	if err != nil {
		return history.Reply{}, err
	}
	var body any
	if k.request.wire != nil {
		body = req.Addr().Interface()
	}
	x := exchange{method: k.method, path: k.request.target(k.path, req), body: body,
		wants: k.success, problems: r.problems[k.Name], reads: k.reply.headers}
	if k.request.apart {
		x.head = func(show func(name, text string)) { k.request.eachHeader(req, show) }
	}
	got, err := r.exchange(ctx, r.users, r.timeout, x)
	if err != nil || k.reply.empty() {
		return history.Reply{}, err
	}
	reply, err := k.believe(got, req)
	if err != nil {
		return history.Reply{}, fmt.Errorf("%w: the reply: %w", ErrUnknownEffect, err)
	}
	return k.reply.recordReply(reply)
}

// success says whether a status is one of a success.
func (k *Kind[S]) success(status int) bool {
	return status == k.about.Status || k.reply.bodiless(status)
}

// believe reads a reply, and returns an error unless it is one to the request. A number that
// is out of its bounds is believed: what that means is for the judges to say.
func (k *Kind[S]) believe(got received, req reflect.Value) (reply reflect.Value, err error) {
	p := reflect.New(k.reply.typ)
	reply = p.Elem()
	if !k.reply.bodiless(got.status) {
		err = k.reply.read(bytes.NewReader(got.body), reply, false)
	}
	if err == nil && k.reply.apart {
		err = k.reply.readHead(reply, got.status, got.head)
	}
	if err != nil {
		return reply, err
	}
	for _, f := range k.reply.fields {
		got := reply.FieldByIndex(f.index)
		want := f.bounds.Unmet(got)
		if want != "" && got.Kind() == reflect.String && !(f.optional && got.IsZero()) {
			return reply, fmt.Errorf("%s: expected %s", f.name, want)
		}
		if f.echo == nil {
			continue
		}
		if asked := req.FieldByIndex(f.echo); !asked.Equal(got) {
			return reply, fmt.Errorf("asked for %s %v, it is about %v", f.name, asked, got)
		}
	}
	if c, can := p.Interface().(interface{ Check(request any) error }); can {
		return reply, c.Check(req.Addr().Interface())
	}
	return reply, nil
}

// Quiesced asks the server what is left to do, or finds out by the table's Left.
func (r *remote[S]) Quiesced(ctx context.Context) (pending string, err error) {
	pending, err = r.Client.Quiesced(ctx)
	if !errors.Is(err, ErrNoRoute) {
		return pending, err
	}
	_, pending, err = r.look(ctx)
	return pending, err
}

// Backlog asks the server how much is left to do, or finds out by the table's Left. The error
// wraps ErrNoRoute if neither says.
func (r *remote[S]) Backlog(ctx context.Context) (int64, error) {
	left, err := r.Client.Backlog(ctx)
	if r.table.Left == nil || !errors.Is(err, ErrNoRoute) {
		return left, err
	}
	left, _, err = r.look(ctx)
	return left, err
}

// lookRest is the least time between two looks at a server that has work left, lookShare how
// many times as long as a look took: an audit is work for it as well. lookMost is how old an
// answer may become.
const (
	lookRest  = 500 * time.Millisecond
	lookShare = 4
	lookMost  = 2 * time.Second
)

// look finds out what is left, or repeats what was found out last.
func (r *remote[S]) look(ctx context.Context) (left int64, what string, err error) {
	if r.table.Left == nil {
		return 0, "", nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	began := time.Now()
	if began.Before(r.next) {
		return r.left, r.what, nil
	}
	r.left, r.what, err = r.table.Left(ctx, r.Client, r.params)
	if err != nil {
		return 0, "", err
	}
	if now := time.Now(); r.what != "" {
		r.next = now.Add(min(max(lookRest, lookShare*now.Sub(began)), lookMost))
	}
	return r.left, r.what, nil
}
