package crawler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/stores"
)

// postgresFrontier keeps the frontier in tables, which many processes share.
//
// The idea: an address of the web is a row, and who leases it has all its hosts to itself. A
// fetcher takes addresses that are due with SKIP LOCKED, each with a higher fence, asks for one
// page, and gives the address back with the time from which it may be asked again: one transaction
// stores the page, and only under the fence. What the page leads to is made known in a transaction
// before that; a unique key tells what is new.
//
// The guarantee: each page is stored once, whoever dies; hosts and addresses are asked one request
// at a time, and left alone for as long as they want, by whichever process.
//
// It gives up: three transactions for a page, and an address for the length of a lease when a
// process dies. Times are those of the database's clock, which must not be set.
func postgresFrontier() variant {
	return inStore(variant{Name: "postgres_frontier",
		Idea: "an address of the web is a row with a lease and a fence; processes take those that " +
			"are due with SKIP LOCKED",
		Guarantees: "each page stored once, and each host asked by one process at a time, whoever dies",
		GivesUp: "three transactions for a page, and an address until its lease is over when a " +
			"process dies",
	}, remembered, func(st *opened) frontier { return tables{st} })
}

// tables is a frontier in Postgres.
type tables struct{ *opened }

// ready is when an address has something to fetch, reckoned anew.
const ready = `coalesce((SELECT min(greatest(p.due_at, h.not_before)) FROM pages AS p
	JOIN hosts AS h USING (host) WHERE p.ip = a.ip AND p.state = 'waiting'), 'infinity')`

// take leases addresses in one statement, and reads what to fetch in a second one.
func (s tables) take(ctx context.Context, n int) ([]*job, time.Duration, error) {
	until := time.Now().Add(s.Params.Lease.D()) // earlier than the database's
	list, err := stores.Collect[struct {
		IP    string
		Fence int64
	}](ctx, s.DB, `WITH free AS (SELECT ip FROM addresses
			WHERE due_at <= clock_timestamp() AND free_at <= clock_timestamp()
			ORDER BY priority, due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
		UPDATE addresses AS a SET fence = fence + 1,
			free_at = clock_timestamp() + $2::bigint * interval '1 microsecond'
				+ greatest($3::bigint, (SELECT max((rules->>'delay')::bigint / 1000 + 1) FROM hosts AS h
					WHERE h.ip = a.ip)) * interval '1 microsecond'
		FROM free WHERE a.ip = free.ip RETURNING a.ip, a.fence`,
		n, s.Params.Lease.D().Microseconds(), s.Params.Delay.D().Microseconds())
	if err != nil {
		return nil, 0, stores.Failed("taking addresses", err)
	}
	jobs := make([]*job, len(list))
	ips := make([]string, len(list))
	for i, one := range list {
		jobs[i], ips[i] = &job{IP: one.IP, Fence: one.Fence, Until: until}, one.IP
	}
	if len(jobs) == 0 {
		return nil, idle, nil
	}
	return jobs, 0, s.fill(ctx, jobs, ips)
}

// jobColumns are what readJob reads, of pages p and hosts h.
const jobColumns = `p.ip, p.host, h.failures, h.rules,
	coalesce((extract(epoch FROM clock_timestamp() - h.rules_at) * 1000)::bigint, 0),
	p.url, p.seq, p.priority, p.hops, p.tries, p.fetched, p.hash, p.every_ms`

// readJob reads a page as a job of its own.
func readJob(row pgx.CollectableRow) (*job, error) {
	j := &job{Pages: make([]task, 1)}
	t := &j.Pages[0]
	var raw []byte
	var age int64
	err := row.Scan(&j.IP, &j.Host, &j.Failures, &raw, &age, &t.URL, &t.Seq, &t.Priority, &t.Hops,
		&t.Tries, &t.Fetched, &t.Hash, &t.EveryMS)
	if err == nil && raw != nil {
		j.Rules = &rules{AgeMS: age}
		err = json.Unmarshal(raw, &j.Rules.Rules)
	}
	return j, err
}

// candidates is how many pages a job has at most, of which one is fetched.
const candidates = 8

// fill reads what to ask for. An address with nothing to fetch is left with none.
func (s tables) fill(ctx context.Context, jobs []*job, ips []string) error {
	byIP := map[string]*job{}
	for _, j := range jobs {
		byIP[j.IP] = j
	}
	err := s.DB.Rows(ctx, `SELECT `+jobColumns+`
		FROM unnest($1::text[]) AS a (ip) CROSS JOIN LATERAL (SELECT p.* FROM pages AS p
			JOIN hosts AS h USING (host) WHERE p.ip = a.ip AND p.state = 'waiting'
				AND p.due_at <= clock_timestamp() AND h.not_before <= clock_timestamp()
			ORDER BY p.priority, p.seq LIMIT $2) AS p JOIN hosts AS h USING (host)
		ORDER BY p.ip, p.priority, p.seq`, []any{ips, candidates}, func(row pgx.CollectableRow) error {
		one, err := readJob(row)
		j := byIP[one.IP]
		if err != nil || j.Host != "" && j.Host != one.Host {
			return err
		}
		j.Host, j.Failures, j.Rules = one.Host, one.Failures, one.Rules
		j.Pages = append(j.Pages, one.Pages[0])
		return nil
	})
	return stores.Failed("reading what to fetch", err)
}

// add makes pages known in one transaction. It locks their hosts, in order, so that a host has
// never more pages than it may.
func (s tables) add(ctx context.Context, list []found) error {
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		fresh, err := s.fresh(ctx, tx, list, "FOR UPDATE")
		if err != nil {
			return err
		}
		return insert(ctx, tx, list, fresh)
	})
	return stores.Failed("adding pages", err)
}

// fresh are those pages that are not known, and that their hosts, which may be locked, have room
// for.
func (s tables) fresh(
	ctx context.Context, tx pgx.Tx, list []found, lock string,
) ([]found, error) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b found) int { return strings.Compare(a.URL, b.URL) })
	var urls, hosts, ips []string
	for _, f := range list {
		urls, hosts, ips = append(urls, f.URL), append(hosts, f.Host), append(ips, f.IP)
	}
	_, err := tx.Exec(ctx, `INSERT INTO hosts (host, ip) SELECT DISTINCT host, ip
		FROM unnest($1::text[], $2::text[]) AS f (host, ip) ORDER BY host
		ON CONFLICT (host) DO NOTHING`, hosts, ips)
	if err != nil {
		return nil, err
	}
	counted, err := stores.CollectOn[struct {
		Host  string
		Pages int
	}](ctx, tx, `SELECT host, pages FROM hosts WHERE host = ANY($1) ORDER BY host `+lock, hosts)
	if err != nil {
		return nil, err
	}
	known, err := stores.CollectOn[struct{ URL string }](ctx, tx,
		`SELECT url FROM pages WHERE url = ANY($1)`, urls)
	seen, room := map[string]bool{}, map[string]int{}
	for _, page := range known {
		seen[page.URL] = true
	}
	for _, host := range counted {
		room[host.Host] = s.Params.PerHost - host.Pages
	}
	return slices.DeleteFunc(list, func(f found) bool {
		if seen[f.URL] || room[f.Host] <= 0 && f.Op == 0 {
			return true
		}
		seen[f.URL] = true
		room[f.Host]--
		return false
	}), err
}

// insert adds the pages of a list that are new, and keeps each seed of it once.
func insert(ctx context.Context, tx pgx.Tx, list, fresh []found) (err error) {
	if len(fresh) > 0 {
		err = insertPages(ctx, tx, fresh)
	}
	for _, f := range list {
		if err == nil && f.Op != 0 {
			_, err = tx.Exec(ctx, `INSERT INTO seeds VALUES ($1, $2) ON CONFLICT (op_id) DO NOTHING`,
				f.Op, f.URL)
		}
	}
	return err
}

// insertPages adds pages, counts them, and wakes their addresses.
func insertPages(ctx context.Context, tx pgx.Tx, list []found) error {
	var urls, hosts, ips []string
	var priorities, hops []int
	for _, f := range list {
		urls, hosts, ips = append(urls, f.URL), append(hosts, f.Host), append(ips, f.IP)
		priorities, hops = append(priorities, f.Priority), append(hops, f.Hops)
	}
	steps := &pgx.Batch{}
	steps.Queue(`INSERT INTO pages (url, host, ip, priority, hops) SELECT *
		FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[])`,
		urls, hosts, ips, priorities, hops)
	steps.Queue(`UPDATE hosts AS h SET pages = h.pages + f.n FROM (SELECT host, count(*) AS n
		FROM unnest($1::text[]) AS f (host) GROUP BY host) AS f WHERE h.host = f.host`, hosts)
	steps.Queue(`INSERT INTO addresses AS a (ip, due_at, priority)
		SELECT ip, clock_timestamp(), min(priority)
		FROM unnest($1::text[], $2::int[]) AS f (ip, priority) GROUP BY ip ORDER BY ip
		ON CONFLICT (ip) DO UPDATE SET due_at = least(a.due_at, excluded.due_at),
			priority = CASE WHEN a.due_at = 'infinity' THEN excluded.priority
				ELSE least(a.priority, excluded.priority) END`, ips, priorities)
	return tx.SendBatch(ctx, steps).Close()
}

// finish is one transaction, which does nothing if another process has leased the address since.
func (s tables) finish(ctx context.Context, j *job, r *result) error {
	err := s.DB.Transaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return s.finishIn(ctx, tx, j, r)
	})
	return stores.Failed("storing a page", err)
}

func (s tables) finishIn(ctx context.Context, tx pgx.Tx, j *job, r *result) error {
	if err := s.keepHost(ctx, tx, j, r); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `UPDATE addresses SET fence = fence + 1 WHERE ip = $1 AND fence = $2`,
		j.IP, j.Fence)
	if err == nil && tag.RowsAffected() == 0 {
		err = errLost
	}
	for _, o := range r.Pages {
		if err == nil {
			err = keepPage(ctx, tx, o)
		}
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE addresses AS a SET due_at = `+ready+`,
			free_at = clock_timestamp() + $2::bigint * interval '1 microsecond' WHERE a.ip = $1`,
			j.IP, r.Rest.Microseconds())
	}
	return err
}

// keepHost notes how a host is. Its row is locked before the address, as when pages are added.
func (s tables) keepHost(ctx context.Context, tx pgx.Tx, j *job, r *result) error {
	var raw []byte
	if r.Rules != nil {
		var err error
		if raw, err = json.Marshal(r.Rules); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE hosts SET failures = $2,
			not_before = clock_timestamp() + $3::bigint * interval '1 microsecond',
			rules = coalesce($4::jsonb, rules),
			rules_at = CASE WHEN $4::jsonb IS NULL THEN rules_at ELSE clock_timestamp() END
		WHERE host = $1`, j.Host, r.Failures, r.Quarantine.Microseconds(), raw)
	return err
}

// keepPage stores what became of a page, and its body before that.
func keepPage(ctx context.Context, tx pgx.Tx, o outcome) error {
	if o.Body != nil {
		_, err := tx.Exec(ctx, `INSERT INTO bodies (hash, body) VALUES ($1, $2)
			ON CONFLICT (hash) DO NOTHING`, o.Hash, o.Body)
		if err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE pages SET state = $2, status = $3, hash = $4, every_ms = $5,
			due_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
			fetched = fetched + $7::int, failed = failed + $8::int,
			tries = CASE WHEN $8::int = 1 THEN tries + 1 WHEN $7::int = 1 THEN 0 ELSE tries END
		WHERE url = $1 AND seq = $9`, o.URL, o.State, o.Status, o.Hash, o.EveryMS, o.Again.Microseconds(),
		count(o.Kept), count(o.Asked && !o.Kept), o.Seq)
	return err
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// look reads a page.
func (s tables) look(ctx context.Context, url string) (p Page, err error) {
	p.URL = url
	err = s.DB.Row(ctx, `SELECT state, fetched, status, hash FROM pages WHERE url = $1`, []any{url},
		&p.State, &p.Fetched, &p.Status, &p.Hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	return p, stores.Failed("looking for a page", err)
}

// pendingPages counts pages that wait.
func pendingPages(ctx context.Context, st *opened) (left int64, what string, err error) {
	err = st.DB.Row(ctx, `SELECT count(*) FROM pages WHERE state = 'waiting'`, nil, &left)
	return left, fmt.Sprintf("%d pages wait to be fetched", left), err
}

// auditTables reads everything in one snapshot.
func auditTables(ctx context.Context, st *opened) (any, error) {
	var a Audit
	err := st.DB.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(
			stores.CollectInto(ctx, tx, &a.Seeds, `SELECT op_id, url FROM seeds ORDER BY op_id`),
			stores.CollectInto(ctx, tx, &a.Pages, `SELECT url, state, hash, fetched, failed FROM pages
				ORDER BY url`),
			stores.CollectInto(ctx, tx, &a.Hosts, `SELECT host, pages FROM hosts ORDER BY host`),
			stores.CollectInto(ctx, tx, &a.Bodies, `SELECT hash, encode(sha256(body), 'hex'), length(body)
				FROM bodies ORDER BY hash`))
	})
	if err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	return withLog(a, st.Config.Folder)
}
