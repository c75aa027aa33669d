package sqlbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// perform turns an operation into a call, and the result into a reply: the one place
// that knows both. What cannot be understood is refused.
func perform(ctx context.Context, b Broker, op history.Op) (history.Reply, error) {
	if op.Key == "" && op.Kind != KindList {
		return history.Reply{}, fmt.Errorf("%s names no queue: %w", op.Kind, sut.ErrRefused)
	}
	switch op.Kind {
	case KindPublish:
		p, err := publicationOf(op)
		if err != nil {
			return history.Reply{}, err
		}
		return counted(b.Publish(ctx, op.Key, p))
	case KindReceive:
		d, err := bodyOf[Demand](op)
		if err != nil {
			return history.Reply{}, err
		}
		d.OpID, d.Consumer = op.ID, op.Client
		got, err := b.Receive(ctx, op.Key, d)
		return listed(append([]Delivery{}, got...), len(got), err)
	case KindAck, KindExtend, KindRelease:
		s, err := bodyOf[Settlement](op)
		if err != nil {
			return history.Reply{}, err
		}
		s.OpID = op.ID
		done, err := b.Settle(ctx, op.Key, op.Kind, s)
		return listed(done, len(done.Done), err)
	default:
		return administer(ctx, b, op)
	}
}

// administer performs what operators do.
func administer(ctx context.Context, b Administration, op history.Op) (history.Reply, error) {
	switch op.Kind {
	case KindCreate:
		s, err := bodyOf[QueueSettings](op)
		if err != nil {
			return history.Reply{}, err
		}
		return history.Reply{}, b.Create(ctx, op.Key, s)
	case KindPurge:
		return counted(b.Purge(ctx, op.Key))
	case KindRedrive:
		return counted(b.Redrive(ctx, op.Key))
	case KindList:
		list, err := b.List(ctx)
		return listed(append([]QueueInfo{}, list...), len(list), err)
	}
	return history.Reply{}, fmt.Errorf("operation kind %q is not one of %s: %w", op.Kind,
		strings.Join(kinds(), ", "), sut.ErrRefused)
}

// kinds lists the operation kinds, the main one first.
func kinds() []string {
	return []string{KindPublish, KindReceive, KindAck, KindExtend, KindRelease, KindCreate, KindPurge,
		KindRedrive, KindList}
}

func counted(n int, err error) (history.Reply, error) {
	if err != nil {
		return history.Reply{}, err
	}
	return history.Reply{Value: int64(n)}, nil
}

// listed makes a reply with a body.
func listed[T any](body T, n int, err error) (history.Reply, error) {
	if err != nil {
		return history.Reply{}, err
	}
	text, err := json.Marshal(body)
	return history.Reply{Value: int64(n), Body: text}, err
}

// bodyOf reads the body of an operation. What cannot be read is refused.
func bodyOf[T any](op history.Op) (T, error) {
	var v T
	if err := json.Unmarshal(op.Body, &v); err != nil {
		return v, fmt.Errorf("the body of a %s: %w: %w", op.Kind, err, sut.ErrRefused)
	}
	return v, nil
}

// publicationOf reads a publication and makes its messages if they are not written
// down.
func publicationOf(op history.Op) (Publication, error) {
	p, err := bodyOf[Publication](op)
	p.OpID = op.ID
	if err == nil && p.Make != nil {
		p.Messages, p.Make = p.Make.messages(op.ID), nil
	}
	return p, err
}

// Recipe says what the messages of a publication are: as many as Messages, alike but
// for their bodies, which follow from the operation's identity.
type Recipe struct {
	Messages int    `json:"n"`
	Bytes    int    `json:"bytes,omitempty"`
	Group    uint64 `json:"group,omitempty"`
	Priority int    `json:"priority,omitempty"`
	DelayMS  int64  `json:"delay_ms,omitempty"`
	// Poison is the number, from 1, of a message that no consumer can work off; 0
	// means that there is none.
	Poison int `json:"poison,omitempty"`
}

func (r Recipe) messages(op uint64) []Message {
	list := make([]Message, r.Messages)
	for i := range list {
		list[i] = Message{Body: r.body(op, i), Group: r.Group, Priority: r.Priority, DelayMS: r.DelayMS}
	}
	return list
}

// body is the body of the i-th message, from 0.
func (r Recipe) body(op uint64, i int) string {
	text := "message "
	if i == r.Poison-1 {
		text = "poison "
	}
	text += strconv.FormatUint(op, 10) + "." + strconv.Itoa(i)
	if missing := r.Bytes - len(text); missing > 0 {
		text += strings.Repeat(".", missing)
	}
	return text
}
