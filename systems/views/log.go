package views

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Log is what a topic holds, compactly: for each partition its events column
// by column, numbers as differences, texts by their number in a dictionary,
// everything compressed. A million events take some 15 MB.
type Log struct {
	// Partitions is how many there are, Events how many events they hold.
	Partitions int    `json:"partitions" min:"0" doc:"at least one, as many in both logs"`
	Events     int    `json:"events" min:"0"`
	Columns    []byte `json:"columns" doc:"a deflate stream (RFC 1951) of unsigned LEB128 varints; differences are of 64 bits, wrap around and are zigzag-encoded. First the texts: their number, and for each its length in bytes and the bytes. Then for each partition: the number of its events, which are in the order of offset and index; the columns offset, index, event_id, timestamp (Unix) and watch_duration in whole milliseconds, version of the rules, and source, each as differences to the event before, the first to 0; and the columns video, user, session, ip and device (an empty text if left out) as numbers of texts, which begin at 0. The source of an event in valid_events is its position in watch_events, offset times 4096 plus index; in watch_events it is 0"`
}

// Logged is an event as it lies in a topic.
type Logged struct {
	Event
	Offset int64
	Index  int64
	// Source is where a view is from: offset times 4096 plus index.
	Source int64
}

// In is the event's place in its partition of watch_events as one number:
// offset times 4096 plus index.
func (l *Logged) In() int64 { return l.Offset*maxEvents + l.Index }

func (l *Logged) texts() [textColumns]*string {
	return [...]*string{&l.Video, &l.User, &l.Session, &l.IP, &l.Device}
}

// EncodeLog writes a topic's events, partition by partition.
func EncodeLog(partitions [][]Logged) (Log, error) {
	dict := dictionary{numbers: make(map[string]uint64)}
	var body []byte
	events := 0
	for _, list := range partitions {
		events += len(list)
		body = binary.AppendUvarint(body, uint64(len(list)))
		for column := range numberColumns {
			before := int64(0)
			for i := range list {
				n := list[i].number(column)
				body = binary.AppendVarint(body, n-before)
				before = n
			}
		}
		for column := range textColumns {
			for i := range list {
				body = binary.AppendUvarint(body, dict.number(*list[i].texts()[column]))
			}
		}
	}
	head := binary.AppendUvarint(nil, uint64(len(dict.texts)))
	for _, text := range dict.texts {
		head = append(binary.AppendUvarint(head, uint64(len(text))), text...)
	}
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err != nil {
		return Log{}, fmt.Errorf("compressing a topic: %w", err)
	}
	_, first := z.Write(head)
	_, second := z.Write(body)
	if err := errors.Join(first, second, z.Close()); err != nil {
		return Log{}, fmt.Errorf("compressing a topic: %w", err)
	}
	return Log{Partitions: len(partitions), Events: events, Columns: out.Bytes()}, nil
}

const (
	numberColumns, idColumn = 7, 2
	textColumns             = 5
)

// numbers are the columns of numbers but for that of the identities.
func (l *Logged) numbers() [numberColumns]*int64 {
	return [...]*int64{&l.Offset, &l.Index, nil, &l.TimeMS, &l.WatchedMS, &l.Rules, &l.Source}
}

// number is a column of numbers, and set fills it.
func (l *Logged) number(column int) int64 {
	if column == idColumn {
		return int64(l.ID)
	}
	return *l.numbers()[column]
}

func (l *Logged) set(column int, n int64) {
	if column == idColumn {
		l.ID = uint64(n)
	} else {
		*l.numbers()[column] = n
	}
}

// dictionary numbers texts in the order in which they first come.
type dictionary struct {
	texts   []string
	numbers map[string]uint64
}

func (d *dictionary) number(text string) uint64 {
	n, known := d.numbers[text]
	if !known {
		n = uint64(len(d.texts))
		d.texts, d.numbers[text] = append(d.texts, text), n
	}
	return n
}

// maxLogBytes bounds what a Log may unpack to, maxPartitions its partitions.
const (
	maxLogBytes   = 1 << 30
	maxPartitions = 10_000
)

// Decode returns the events of each partition. Whatever is not as EncodeLog
// writes it is an error.
func (l Log) Decode() ([][]Logged, error) {
	if l.Partitions < 0 || l.Partitions > maxPartitions {
		return nil, fmt.Errorf("decoding a topic: it has %d partitions", l.Partitions)
	}
	z := flate.NewReader(bytes.NewReader(l.Columns))
	plain, err := io.ReadAll(io.LimitReader(z, maxLogBytes+1))
	if err == nil && len(plain) > maxLogBytes {
		err = fmt.Errorf("it unpacks to more than %d bytes", maxLogBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding a topic: %w", err)
	}
	r := readingOf(plain)
	dict := r.dictionary()
	out := make([][]Logged, l.Partitions)
	events := 0
	for p := range out {
		out[p] = r.partition(dict)
		events += len(out[p])
	}
	err = r.end()
	if err == nil && events != l.Events {
		err = fmt.Errorf("it has %d events and says %d", events, l.Events)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding a topic: %w", err)
	}
	return out, nil
}

func (r *reading) dictionary() []string {
	n := r.uvarint()
	if n > uint64(r.left()) {
		r.fail(errShort)
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.text()
	}
	return list
}

// partition reads the columns of one partition.
func (r *reading) partition(dict []string) []Logged {
	n := r.uvarint()
	if n > uint64(r.left()) { // a column takes a byte for each event, or more
		r.fail(errShort)
		return nil
	}
	list := make([]Logged, n)
	for column := range numberColumns {
		before := int64(0)
		for i := range list {
			u := r.uvarint()
			before += int64(u>>1) ^ -int64(u&1)
			list[i].set(column, before)
		}
	}
	for column := range textColumns {
		for i := range list {
			k := r.uvarint()
			if k >= uint64(len(dict)) {
				r.fail(fmt.Errorf("text %d of %d", k, len(dict)))
				return nil
			}
			*list[i].texts()[column] = dict[k]
		}
	}
	r.ordered(list)
	return list
}

// ordered makes sure that a partition is one: offsets and indices go up.
func (r *reading) ordered(list []Logged) {
	for i := range list {
		l := &list[i]
		switch {
		case l.Offset < 0 || l.Offset > 1<<50 || l.Index < 0 || l.Index >= maxEvents,
			l.Source < 0 || l.Source > 1<<62:
			r.fail(fmt.Errorf("event %d lies at offset %d, index %d", i, l.Offset, l.Index))
		case i > 0 && l.In() <= list[i-1].In():
			r.fail(fmt.Errorf("event %d does not come after the one before", i))
		}
	}
}
