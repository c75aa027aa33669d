package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// maxLine bounds a line of NDJSON.
const maxLine = 16 << 20

// WriteNDJSON writes a history for people and as evidence: one JSON object a
// line, the windows and the samples first if h has any. ReadNDJSON reads it back, but for text
// that is not UTF-8: bodies survive, strings get replacement characters.
func WriteNDJSON(w io.Writer, h History) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	for _, win := range windows(h) {
		if err := enc.Encode(map[string]Window{"window": win}); err != nil {
			return fmt.Errorf("history: write window %q: %w", win.Name, err)
		}
	}
	for _, s := range h.Samples() {
		if err := enc.Encode(map[string]Sample{"sample": s}); err != nil {
			return fmt.Errorf("history: write the sample of %v: %w", s.From, err)
		}
	}
	for rec, err := range h.All() {
		if err != nil {
			return err
		}
		if err := enc.Encode(toLine(&rec)); err != nil {
			return fmt.Errorf("history: write record %d: %w", rec.Seq, err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("history: write: %w", err)
	}
	return nil
}

// windows returns all windows of a history that has more than faults.
func windows(h History) []Window {
	if all, ok := h.(interface{ Windows() []Window }); ok {
		return all.Windows()
	}
	return h.Faults()
}

// ReadNDJSON reads a history of one JSON object a line, as WriteNDJSON writes
// it or as written by hand: empty lines and lines that start with # are
// skipped; times are nanoseconds or strings such as "1.5ms"; seq defaults to
// the record's place from 0 and intended to start; no start means a dropped
// operation and no end one that did not return. An unknown field or a record
// that contradicts itself is an error with its line number.
func ReadNDJSON(r io.Reader) (*Memory, error) {
	m := &Memory{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if err := m.readLine(text); err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("history: line %d: %w", n+1, err)
	}
	return Slice(m.records, m.windows...).WithSamples(m.samples), nil
}

// line is one line of NDJSON: a record, or a window or a sample alone.
type line struct {
	Seq    *uint64 `json:"seq,omitempty"`
	ID     uint64  `json:"id,omitempty"`
	Kind   string  `json:"kind,omitempty"`
	Key    string  `json:"key,omitempty"`
	Client string  `json:"client,omitempty"`
	Arg    int64   `json:"arg,omitempty"`
	content
	Outcome  Outcome    `json:"outcome"`
	Reply    *replyLine `json:"reply,omitempty"`
	Err      string     `json:"err,omitempty"`
	Code     string     `json:"code,omitempty"`
	Intended *offset    `json:"intended_ns,omitempty"`
	Start    *offset    `json:"start_ns,omitempty"`
	End      *offset    `json:"end_ns,omitempty"`
	Window   *Window    `json:"window,omitempty"`
	Sample   *Sample    `json:"sample,omitempty"`
}

type replyLine struct {
	Key   string `json:"key,omitempty"`
	Value int64  `json:"value,omitempty"`
	content
}

// content is a body: as a string if it is valid UTF-8, else as base64.
type content struct {
	Body   string `json:"body,omitempty"`
	Base64 []byte `json:"body_base64,omitempty"`
}

func newContent(b []byte) content {
	if utf8.Valid(b) {
		return content{Body: string(b)}
	}
	return content{Base64: b}
}

func (c content) bytes() ([]byte, error) {
	switch {
	case c.Body == "":
		return c.Base64, nil
	case len(c.Base64) > 0:
		return nil, errors.New("expected one of body and body_base64, found both")
	}
	return []byte(c.Body), nil
}

// offset is a time.Duration written as nanoseconds or as "1.5ms".
type offset time.Duration

// UnmarshalJSON decodes a number of nanoseconds or a string with a unit.
func (o *offset) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		d, err := time.ParseDuration(text)
		*o = offset(d)
		return err
	}
	return json.Unmarshal(data, (*int64)(o))
}

// known returns nil for Never.
func known(d time.Duration) *offset {
	if d == Never {
		return nil
	}
	return (*offset)(&d)
}

func toLine(r *Record) line {
	l := line{
		Seq: &r.Seq, ID: r.Op.ID, Kind: r.Op.Kind, Key: r.Op.Key, Client: r.Op.Client, Arg: r.Op.Arg,
		content: newContent(r.Op.Body), Outcome: r.Outcome, Err: r.Err, Code: r.Code,
		Intended: known(r.Intended), Start: known(r.Start), End: known(r.End),
	}
	if hasReply(r) {
		l.Reply = &replyLine{Key: r.Reply.Key, Value: r.Reply.Value, content: newContent(r.Reply.Body)}
	}
	return l
}

// readLine adds a line: a window, a sample, or a record whose Seq is its place
// unless it says otherwise.
func (m *Memory) readLine(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var l line
	if err := dec.Decode(&l); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("expected one JSON object a line, found more")
	}
	switch {
	case l.Window != nil:
		m.windows = append(m.windows, *l.Window)
		return nil
	case l.Sample != nil:
		m.samples = append(m.samples, *l.Sample)
		return l.Sample.validate()
	}
	if l.Seq == nil {
		seq := uint64(len(m.records))
		l.Seq = &seq
	}
	rec, err := l.record()
	m.records = append(m.records, rec)
	return err
}

func (l *line) record() (Record, error) {
	body, err := l.bytes()
	if err != nil {
		return Record{}, err
	}
	r := Record{
		Seq:     *l.Seq,
		Op:      Op{ID: l.ID, Kind: l.Kind, Key: l.Key, Client: l.Client, Arg: l.Arg, Body: body},
		Outcome: l.Outcome, Err: l.Err, Code: l.Code, Start: or(l.Start, Never), End: or(l.End, Never),
	}
	r.Intended = or(l.Intended, 0)
	if l.Intended == nil && r.Start != Never {
		r.Intended = r.Start
	}
	if l.Reply != nil {
		r.Reply.Key, r.Reply.Value = l.Reply.Key, l.Reply.Value
		if r.Reply.Body, err = l.Reply.bytes(); err != nil {
			return Record{}, err
		}
	}
	return r, r.Validate()
}

func or(o *offset, missing time.Duration) time.Duration {
	if o == nil {
		return missing
	}
	return time.Duration(*o)
}
