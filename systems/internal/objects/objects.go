// Package objects is what an archive needs of an object store.
package objects

import (
	"context"

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
