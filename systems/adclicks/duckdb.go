//go:build duckdb

package adclicks

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "github.com/marcboeker/go-duckdb/v2" // the driver "duckdb", which needs cgo
)

//go:embed duckdb.sql
var decideSQL string

// tagged is batch_duckdb: batch_only whose batch is a statement of DuckDB over the Parquet files.
//
// The idea: an analytical store reads the files of the archive as they are, and its window
// functions say in one statement what the decider does click by click.
//
// The guarantee: that of batch_only, by a count that shares no code with the others.
//
// It gives up: cgo, which nothing else here needs, and 25 MB of a library.
func tagged() []variant {
	v := batchOnly()
	v.Name, v.Idea = "batch_duckdb", "a batch in DuckDB recounts the Parquet files by one statement"
	v.Roles[0] = batchRole(decidedByDuckDB)
	return []variant{v}
}

// decidedByDuckDB copies the archived files of a partition to this machine and decides them.
func decidedByDuckDB(ctx context.Context, st *opened, part int32) ([]decision, error) {
	dir, err := os.MkdirTemp("", "adclicks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	names, err := bucket(st).List(ctx, archivePrefix(part))
	for i, name := range names {
		var body []byte
		if err == nil {
			body, err = bucket(st).Get(ctx, name)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".parquet")), body, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	return duckDB(ctx, filepath.Join(dir, "*.parquet"), st.Params.rules())
}

// duckDB decides the clicks of files.
func duckDB(ctx context.Context, files string, r rules) (list []decision, err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, fmt.Errorf("opening DuckDB: %w", err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, strings.Replace(decideSQL, "FILES", files, 1), r.window,
		r.lateness, r.horizon, r.fraudMost)
	if err != nil {
		return nil, fmt.Errorf("deciding in DuckDB: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d decision
		if err := rows.Scan(&d.Offset, &d.ID, &d.Click, &d.Campaign, &d.Ad, &d.User, &d.IP, &d.AtMS,
			&d.Cents, &d.WindowMS, &d.Verdict); err != nil {
			return nil, fmt.Errorf("reading a decision of DuckDB: %w", err)
		}
		if d.LogOffset = d.Offset; d.Offset != int64(len(list)) {
			return nil, fmt.Errorf("the files have no click %d", len(list))
		}
		list = append(list, d)
	}
	return list, rows.Err()
}
