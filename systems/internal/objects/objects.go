// Package objects is what an archive needs of an object store.
package objects

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// Store has whole objects by name, and the names in order. gocloud.dev has these verbs too, with
// the clients of three clouds.
type Store interface {
	// Put writes an object, in place of one that has its name.
	Put(ctx context.Context, name string, body []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	List(ctx context.Context, prefix string) (names []string, err error)
	// Delete removes an object, if it is there.
	Delete(ctx context.Context, name string) error
}

// In keeps objects in Postgres, so that they go when the run's database goes, in the table
//
//	objects (name text PRIMARY KEY, body bytea NOT NULL)
//
// Nothing rests on what a table could do and an object store cannot.
func In(db *stores.Postgres) Store { return table{db} }

type table struct{ db *stores.Postgres }

// Put implements Store.
func (t table) Put(ctx context.Context, name string, body []byte) error {
	_, err := t.db.Exec(ctx, `INSERT INTO objects VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET body = excluded.body`, name, body)
	return stores.Failed("writing an object", err)
}

// Get implements Store.
func (t table) Get(ctx context.Context, name string) (body []byte, err error) {
	err = t.db.Row(ctx, `SELECT body FROM objects WHERE name = $1`, []any{name}, &body)
	return body, stores.Failed("reading an object", err)
}

// List implements Store.
func (t table) List(ctx context.Context, prefix string) (names []string, err error) {
	err = t.db.Rows(ctx, `SELECT name FROM objects WHERE starts_with(name, $1) ORDER BY name`,
		[]any{prefix}, func(row pgx.CollectableRow) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		})
	return names, stores.Failed("listing objects", err)
}

// Delete implements Store.
func (t table) Delete(ctx context.Context, name string) error {
	_, err := t.db.Exec(ctx, `DELETE FROM objects WHERE name = $1`, name)
	return stores.Failed("deleting an object", err)
}

// Pack makes an object of values, as compressed lines of JSON.
func Pack[T any](list []T) ([]byte, error) {
	var body bytes.Buffer
	out := gzip.NewWriter(&body)
	lines := json.NewEncoder(out)
	var err error
	for _, v := range list {
		err = errors.Join(err, lines.Encode(v))
	}
	err = errors.Join(err, out.Close())
	return body.Bytes(), err
}

// Unpack reads what Pack made.
func Unpack[T any](body []byte) (list []T, err error) {
	in, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	for lines := json.NewDecoder(in); ; {
		var v T
		if err := lines.Decode(&v); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		list = append(list, v)
	}
}

// All reads the values of all objects with a prefix, in the order of their names.
func All[T any](ctx context.Context, store Store, prefix string) (list []T, err error) {
	names, err := store.List(ctx, prefix)
	for _, name := range names {
		var body []byte
		if err == nil {
			body, err = store.Get(ctx, name)
		}
		if err == nil {
			var some []T
			some, err = Unpack[T](body)
			list = append(list, some...)
		}
	}
	return list, err
}
