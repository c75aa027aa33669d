package autocomplete

import (
	"context"
	_ "embed" // the tables
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/systems/internal/partitions"
	"stampede/systems/internal/prefix"
	"stampede/systems/internal/rolling"
)

//go:embed postgres_prefix.sql
var tablesSQL string

// postgresPrefix asks a table.
//
// The idea: an indexer brings each batch of the log to tables in one transaction, which also
// moves the log on: counts by slot, and of each phrase that a batch or a rolling window touches
// its two counts and its score. A suggestion is one statement, and so one snapshot: the version,
// the user's own phrases, the best ones by a prefix index, without those that are blocked. A
// prefix with at most d errors has one of d+1 parts right: an index of trigrams finds phrases
// with one of the parts, and levenshtein() is asked about these alone.
//
// The guarantee: each suggestion is the exact top of one version, which all APIs share and which
// never goes back; a block is seen by the next snapshot, and waits for nobody.
//
// It gives up: a millisecond; and a short prefix sorts all phrases that have it.
func postgresPrefix() variant {
	return variant{Name: "postgres_prefix",
		Idea: "an indexer brings the log to tables; a suggestion is one statement, with an index of " +
			"prefixes, or trigrams for the right part of a wrong one",
		Guarantees: "the exact top of one version, which all APIs share and which never goes back; " +
			"blocked phrases are gone with the next snapshot",
		GivesUp: "a millisecond; a short prefix sorts all phrases that have it",
		// A plan for any prefix does not use the index of prefixes.
		Settings: map[string]string{"plan_cache_mode": "force_custom_plan"},
		Roles: []role{indexer(
			func(ctx context.Context, st *opened) (map[int32]int64, error) {
				return partitions.Starts(ctx, st.DB)
			},
			func(st *opened) batch { return &toTables{queries{opened: st}} })},
		State: design.State[Params]{Pending: behind(reachedTables), Schema: tablesSQL},
		Open: func(_ context.Context, st *opened) (Suggester, error) {
			return serve(st, tables{st}, looked{st}), nil
		},
	}
}

// toTables is a batch on its way to the tables.
type toTables struct{ queries }

// Store counts the batch and moves the log on.
func (b *toTables) Store(ctx context.Context, from, to int64) error {
	b.Config.Passed(placeTaken)
	err := b.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := partitions.MoveOn(ctx, tx, 0, from, to)
		if err == nil {
			err = b.count(ctx, tx)
		}
		return err
	})
	if err != nil {
		return stores.Failed("indexing queries", err)
	}
	b.Config.Passed(placeShown)
	b.list = b.list[:0]
	return nil
}

// count counts queries, each in the slot in which the log is by then.
func (b *toTables) count(ctx context.Context, tx pgx.Tx) error {
	var clock *int64
	if err := tx.QueryRow(ctx, `SELECT slot FROM clock`).Scan(&clock); err != nil {
		return err
	}
	at := b.list[0].Slot
	if clock != nil {
		at = *clock
	}
	was := at
	n := len(b.list)
	slots, users, phrases := make([]int64, n), make([]uint64, n), make([]string, n)
	positions := make([]int64, n)
	for i, e := range b.list {
		at = max(at, e.Slot)
		slots[i], users[i], phrases[i], positions[i] = at, e.User, e.Phrase, e.Position
	}
	p := b.Params
	for _, do := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO slots AS s SELECT slot, phrase, count(*) FROM unnest($1::bigint[], $2::text[])
			AS q (slot, phrase) GROUP BY slot, phrase
			ON CONFLICT (slot, phrase) DO UPDATE SET n = s.n + excluded.n`, []any{slots, phrases}},
		{`INSERT INTO owned SELECT user_id, phrase, max(position)
			FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS q (user_id, phrase, position)
			GROUP BY user_id, phrase
			ON CONFLICT (user_id, phrase) DO UPDATE SET position = excluded.position`,
			[]any{users, phrases, positions}},
		{`WITH touched AS (SELECT unnest($1::text[]) COLLATE "C" AS phrase
				UNION SELECT phrase FROM slots WHERE slot > $2::bigint - $4 AND slot <= $3::bigint - $4
				UNION SELECT phrase FROM slots WHERE slot <= $3::bigint - $4 - $5),
			counted AS (SELECT phrase,
					coalesce(sum(n) FILTER (WHERE slot > $3::bigint - $4), 0) AS recent,
					coalesce(sum(n) FILTER (WHERE slot <= $3::bigint - $4
						AND slot > $3::bigint - $4 - $5), 0) AS before
				FROM touched LEFT JOIN slots USING (phrase) GROUP BY phrase),
			gone AS (DELETE FROM phrases USING counted WHERE phrases.phrase = counted.phrase
				AND counted.recent = 0 AND counted.before = 0)
			INSERT INTO phrases SELECT phrase, recent, before, $6::bigint * recent + before FROM counted
			WHERE recent > 0 OR before > 0
			ON CONFLICT (phrase) DO UPDATE SET recent = excluded.recent, before = excluded.before,
				score = excluded.score`,
			[]any{phrases, was, at, p.Recent, p.Baseline, p.Weight}},
		{`DELETE FROM slots WHERE slot <= $1`, []any{at - p.Recent - p.Baseline}},
		{`UPDATE clock SET slot = $1`, []any{at}},
	} {
		if _, err := tx.Exec(ctx, do.sql, do.args...); err != nil {
			return err
		}
	}
	return nil
}

// tables is the index.
type tables struct{ *opened }

// found is a row of a suggestion: the version and, in those that have a phrase, the phrase.
type found struct {
	Version int64
	Own     *bool
	Phrase  *string
	Recent  *int64
	Before  *int64
}

// suggest runs one statement.
func (s tables) suggest(ctx context.Context, q question) (Suggestions, error) {
	fits, args := fitting(q)
	list, err := stores.Collect[found](ctx, s.DB, `
		WITH own AS (SELECT true AS own, phrase, coalesce(p.recent, 0) AS recent,
				coalesce(p.before, 0) AS before, row_number() OVER (ORDER BY position DESC) AS rank
			FROM (SELECT phrase, position FROM owned WHERE user_id = $1
				ORDER BY position DESC LIMIT $2) AS o LEFT JOIN phrases AS p USING (phrase)
			WHERE `+fits+` AND NOT EXISTS (SELECT FROM known AS b WHERE b.text = o.phrase)),
		best AS (SELECT false AS own, phrase, recent, before,
				row_number() OVER (ORDER BY score DESC, phrase) AS rank
			FROM phrases AS p
			WHERE `+fits+` AND NOT EXISTS (SELECT FROM known AS b WHERE b.text = p.phrase)
			ORDER BY score DESC, phrase LIMIT $2)
		SELECT next_offset, own, phrase, recent, before FROM progress
			LEFT JOIN (SELECT * FROM own UNION ALL SELECT * FROM best) AS both_ ON true
		ORDER BY own DESC, rank`, append([]any{q.user, most}, args...)...)
	if err != nil {
		return Suggestions{}, stores.Failed("reading suggestions", err)
	}
	var own, best []prefix.Phrase
	var version int64
	for _, row := range list {
		if version = row.Version; row.Phrase == nil {
			continue
		}
		found := s.Params.phrase(*row.Phrase, rolling.Counts{Recent: *row.Recent, Before: *row.Before})
		if *row.Own {
			own = append(own, found)
		} else {
			best = append(best, found)
		}
	}
	return Suggestions{version, merge(own, best, q.most)}, nil
}

// likePattern is a pattern of LIKE for a text.
func likePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

// fitting is a condition on phrases, and its arguments, which are $3 and further ones.
func fitting(q question) (sql string, args []any) {
	if q.Edits == 0 {
		return `phrase LIKE $3`, []any{likePattern(q.Prefix) + "%"}
	}
	chars := []rune(q.Prefix)
	var parts []string
	args = []any{q.Prefix, len(chars), q.Edits}
	for i := range q.Edits + 1 {
		part := chars[i*len(chars)/(q.Edits+1) : (i+1)*len(chars)/(q.Edits+1)]
		args = append(args, "%"+likePattern(string(part))+"%")
		parts = append(parts, fmt.Sprintf(`phrase LIKE $%d`, 2+len(args)))
	}
	return `(` + strings.Join(parts, ` OR `) + `) AND EXISTS (
		SELECT FROM generate_series($4::int - $5::int, $4::int + $5::int) AS n
		WHERE levenshtein_less_equal(left(phrase, n), $3, $5) <= $5)`, args
}

// reachedTables is how far the log is in the tables.
func reachedTables(ctx context.Context, st *opened) (int64, error) {
	at, err := partitions.Starts(ctx, st.DB)
	return at[0], err
}

func (s tables) reached(ctx context.Context) (int64, error) { return reachedTables(ctx, s.opened) }

func (s tables) bytes(ctx context.Context) (n int64, err error) {
	err = s.DB.Row(ctx, `SELECT pg_total_relation_size('phrases')`, nil, &n)
	return n, stores.Failed("measuring the index", err)
}

// looked are blocks that each suggestion looks up by itself.
type looked struct{ *opened }

func (a looked) blocked(context.Context) (map[string]bool, error) { return nil, nil }

func (a looked) block(ctx context.Context, req BlockRequest) error {
	_, err := keepBlock(ctx, a.opened, req)
	return err
}
