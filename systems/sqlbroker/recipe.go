package sqlbroker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"stampede/harness/history"
	"stampede/harness/sut"
)

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
