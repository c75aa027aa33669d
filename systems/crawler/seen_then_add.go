package crawler

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/harness/design"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// seenThenAdd asks which pages are known, and adds the others.
//
// The idea: postgres_frontier, in which one statement asks and a later one adds, without a lock on
// the host or a unique key between them.
//
// The guarantee: each page once, as long as one process finds pages.
//
// It gives up: that. Two who find a page at the same time both see that it is new, and it is in the
// frontier twice: it is fetched twice.
func seenThenAdd() variant {
	return variant{Name: "seen_then_add",
		Idea:       "one statement asks whether a page is known, and a later one adds it",
		Guarantees: "each page once, as long as one process finds pages",
		GivesUp:    "that: two who find a page at the same time add it twice",
		Breaks:     []sut.Break{{Invariant: FetchedOnce, Under: sut.Load}},
		Roles:      []role{crawls(remembered, func(st *opened) frontier { return twoSteps{tables{st}} })},
		State:      design.State[Params]{Schema: manyRows()},
		Open: func(_ context.Context, st *opened) (Crawler, error) {
			return newDesk(st, twoSteps{tables{st}}), nil
		},
	}
}

// manyRows is the schema with as many rows of a page as somebody adds.
func manyRows() string {
	return strings.Replace(schema, "url      text        PRIMARY KEY",
		"url      text        NOT NULL", 1) + "CREATE INDEX pages_url ON pages (url);\n"
}

// twoSteps asks and then adds.
type twoSteps struct{ tables }

func (s twoSteps) add(ctx context.Context, list []found) error {
	fresh := slices.Clone(list)
	slices.SortFunc(fresh, func(a, b found) int { return strings.Compare(a.Host, b.Host) })
	var urls, hosts, ips []string
	for _, f := range fresh {
		urls, hosts, ips = append(urls, f.URL), append(hosts, f.Host), append(ips, f.IP)
	}
	var seen map[string]bool
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if seen, err = seenOf(ctx, tx, urls); err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO hosts (host, ip) SELECT DISTINCT host, ip
				FROM unnest($1::text[], $2::text[]) AS f (host, ip) ORDER BY host
				ON CONFLICT (host) DO NOTHING`, hosts, ips)
		}
		for _, host := range slices.Compact(hosts) {
			var pages int
			if err == nil {
				err = tx.QueryRow(ctx, `SELECT pages FROM hosts WHERE host = $1`, host).Scan(&pages)
			}
			if pages >= s.Params.PerHost {
				fresh = slices.DeleteFunc(fresh, func(f found) bool { return f.Host == host && !f.Seed })
			}
		}
		return err
	})
	if err != nil {
		return stores.Failed("asking for pages", err)
	}
	fresh = slices.DeleteFunc(fresh, func(f found) bool { return seen[f.URL] })
	err = s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return insertPages(ctx, tx, fresh)
	})
	return stores.Failed("adding pages", err)
}

func (s twoSteps) seed(ctx context.Context, op uint64, f found) error {
	err := s.add(ctx, []found{f})
	if err == nil {
		if _, err = s.DB.Exec(ctx, keepSeed, op, f.URL); err != nil {
			err = stores.Unknown("keeping a seed", err)
		}
	}
	return err
}
