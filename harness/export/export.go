// Package export writes recorded operations as tables for other tools: as CSV and as Parquet.
// NDJSON, which keeps everything of one history, is in package history.
package export

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"stampede/harness/history"
)

// Row is one attempt at one operation. Its fields are the columns of a table.
type Row struct {
	Design string `parquet:"design,dict"`
	// Repeat counts from 1.
	Repeat  int32  `parquet:"repeat"`
	Seq     uint64 `parquet:"seq"`
	ID      uint64 `parquet:"id"`
	Kind    string `parquet:"kind,dict"`
	Key     string `parquet:"key,dict"`
	Client  string `parquet:"client"`
	Arg     int64  `parquet:"arg"`
	Body    []byte `parquet:"body,optional"`
	Outcome string `parquet:"outcome,dict"`
	Err     string `parquet:"err,dict"`
	// The reply is empty unless Outcome is ok.
	ReplyKey   string `parquet:"reply_key"`
	ReplyValue int64  `parquet:"reply_value"`
	ReplyBody  []byte `parquet:"reply_body,optional"`
	// The times are nanoseconds on the run's clock. An operation that was dropped has no
	// start, one that did not return no end.
	IntendedNS int64  `parquet:"intended_ns"`
	StartNS    *int64 `parquet:"start_ns,optional"`
	EndNS      *int64 `parquet:"end_ns,optional"`
}

// RowOf is a record of one repeat of a design.
func RowOf(design string, repeat int, r history.Record) Row {
	return Row{Design: design, Repeat: int32(repeat), Seq: r.Seq, ID: r.Op.ID, Kind: r.Op.Kind,
		Key: r.Op.Key, Client: r.Op.Client, Arg: r.Op.Arg, Body: r.Op.Body,
		Outcome: r.Outcome.String(), Err: r.Err, ReplyKey: r.Reply.Key, ReplyValue: r.Reply.Value,
		ReplyBody: r.Reply.Body, IntendedNS: r.Intended.Nanoseconds(), StartNS: known(r.Start),
		EndNS: known(r.End)}
}

// known is nil for a time that never came.
func known(d time.Duration) *int64 {
	if d == history.Never {
		return nil
	}
	ns := d.Nanoseconds()
	return &ns
}

// Table takes rows. Close completes what was written and leaves the writer below open.
type Table interface {
	Add(row Row) error
	Close() error
}

// columns are those of CSV. A body that is no text, or has a carriage return, which readers of
// CSV may change, is in the column for base64.
func columns() []string {
	return []string{"design", "repeat", "seq", "id", "kind", "key", "client", "arg", "body",
		"body_base64", "outcome", "err", "reply_key", "reply_value", "reply_body",
		"reply_body_base64", "intended_ns", "start_ns", "end_ns"}
}

type csvTable struct{ w *csv.Writer }

// CSV begins a table with a line of column names.
func CSV(w io.Writer) (Table, error) {
	t := csvTable{csv.NewWriter(w)}
	if err := t.w.Write(columns()); err != nil {
		return nil, fmt.Errorf("write CSV: %w", err)
	}
	return t, nil
}

// Add writes a line.
func (t csvTable) Add(r Row) error {
	body, coded := bodyCells(r.Body)
	replyBody, replyCoded := bodyCells(r.ReplyBody)
	err := t.w.Write([]string{r.Design, strconv.Itoa(int(r.Repeat)),
		strconv.FormatUint(r.Seq, 10), strconv.FormatUint(r.ID, 10), r.Kind, r.Key, r.Client,
		strconv.FormatInt(r.Arg, 10), body, coded, r.Outcome, r.Err, r.ReplyKey,
		strconv.FormatInt(r.ReplyValue, 10), replyBody, replyCoded,
		strconv.FormatInt(r.IntendedNS, 10), timeCell(r.StartNS), timeCell(r.EndNS)})
	if err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// Close flushes.
func (t csvTable) Close() error {
	t.w.Flush()
	if err := t.w.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// bodyCells are the cells of a body: as text, or else in base64.
func bodyCells(body []byte) (text, coded string) {
	if utf8.Valid(body) && !strings.ContainsRune(string(body), '\r') {
		return string(body), ""
	}
	return "", base64.StdEncoding.EncodeToString(body)
}

func timeCell(ns *int64) string {
	if ns == nil {
		return ""
	}
	return strconv.FormatInt(*ns, 10)
}

// groupRows is how many rows of Parquet are held in memory until they are written.
const groupRows = 100_000

type parquetTable struct{ w *parquet.GenericWriter[Row] }

// Parquet begins a table in the format of Apache Parquet, compressed with Zstandard.
func Parquet(w io.Writer) (Table, error) {
	return parquetTable{parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(groupRows))}, nil
}

// Add takes a row.
func (t parquetTable) Add(r Row) error {
	if _, err := t.w.Write([]Row{r}); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// Close writes the last rows and the footer.
func (t parquetTable) Close() error {
	if err := t.w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}
