package views

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// opOf is the operation that sends a heartbeat, for the tries-th time again.
// Its body is the number of tries and the heartbeat.
func opOf(h Heartbeat, tries int) history.Op {
	return history.Op{ID: h.ID, Kind: KindHeartbeat, Key: h.Video, Client: h.User, Arg: h.TimeMS,
		Body: appendHeartbeat([]byte{byte(tries)}, &h)}
}

// heartbeatOf reads what opOf writes.
func heartbeatOf(op history.Op) (h Heartbeat, tries int, err error) {
	r := readingOf(op.Body)
	tries = int(r.byte())
	r.heartbeat(&h)
	if err := r.end(); err != nil {
		return h, 0, fmt.Errorf("the body of operation %d is no heartbeat: %w", op.ID, err)
	}
	return h, tries, nil
}

// perform turns an operation into a call of the pipeline, and the result into
// a reply: the one place that knows both. An unknown kind is refused.
func perform(ctx context.Context, p Pipeline, op history.Op) (history.Reply, error) {
	switch op.Kind {
	case KindHeartbeat:
		h, _, err := heartbeatOf(op)
		if err != nil {
			return history.Reply{}, fmt.Errorf("%w: %w", sut.ErrRefused, err)
		}
		at, err := p.Watch(ctx, h)
		if err != nil {
			return history.Reply{}, err
		}
		return history.Reply{Key: at.String(), Value: at.Offset}, nil
	case KindViews:
		v, err := p.Views(ctx, op.Key)
		if err != nil {
			return history.Reply{}, err
		}
		return history.Reply{Key: strconv.FormatInt(v.Generation, 10), Value: v.Views}, nil
	case KindRules:
		rules, err := decodeRules(op.Body)
		if err != nil {
			return history.Reply{}, fmt.Errorf("%w: %w", sut.ErrRefused, err)
		}
		version, err := p.SetRules(ctx, rules)
		return replyOf(version, err)
	case KindReprocess:
		return replyOf(p.Reprocess(ctx))
	}
	return history.Reply{}, fmt.Errorf("operation kind %q is not one of %s, %s, %s, %s: %w",
		op.Kind, KindHeartbeat, KindViews, KindRules, KindReprocess, sut.ErrRefused)
}

func replyOf(value int64, err error) (history.Reply, error) {
	if err != nil {
		return history.Reply{}, err
	}
	return history.Reply{Value: value}, nil
}

// decodeRules reads rules strictly.
func decodeRules(text []byte) (Rules, error) {
	var rules Rules
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&rules); err != nil {
		return Rules{}, fmt.Errorf("reading rules: %w", err)
	}
	return rules, rules.validate()
}
