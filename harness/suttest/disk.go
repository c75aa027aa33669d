package suttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/stores"
	"stampede/harness/sut"
)

// watchDisk makes every table of a database one that a row in full_disk can close:
// who writes then is told that the disk is full, as Postgres does (SQLSTATE 53100),
// and counted, which no rollback undoes.
const watchDisk = `
CREATE TABLE full_disk (yes boolean NOT NULL);
INSERT INTO full_disk VALUES (false);
CREATE SEQUENCE full_disk_hits;
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF (SELECT yes FROM full_disk) THEN
		PERFORM nextval('full_disk_hits');
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
	END IF;
	RETURN NULL;
END $$;
DO $$ DECLARE t regclass; BEGIN
	FOR t IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
		AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'full_disk'
	LOOP
		EXECUTE format('CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON %s
			EXECUTE FUNCTION full_disk()', t);
	END LOOP;
END $$`

// fullFor is how long a disk is full where no operation is answered.
const fullFor = time.Second

// FullDisk hammers variants of a suite on a Postgres whose disk is full for a
// while: until a write was turned away, and a third of the operations have an
// outcome or a second is over.
// What is acknowledged is kept, nothing is done twice, and what waited goes on
// when there is room: no invariant may be broken that the variant is not known to
// break. The time without room is in the history as what it is, a fault.
func FullDisk(t *testing.T, s Suite, variants ...string) {
	if s.Patience == 0 {
		s.Patience = defaultPatience
	}
	for _, name := range variants {
		i := slices.IndexFunc(s.System.Variants, func(v sut.Variant) bool { return v.Name == name })
		if i < 0 {
			t.Fatalf("there is no variant %s", name)
		}
		t.Run(name, func(t *testing.T) { s.fullDisk(t, s.System.Variants[i]) })
	}
}

func (s Suite) fullDisk(t *testing.T, v sut.Variant) {
	cfg := s.config(t, v)
	inst := open(t, v, cfg)
	cfg.MaxConns = 1
	db, err := stores.OpenPostgres(t.Context(), cfg, "full-disk",
		map[string]string{"enable_seqscan": "on", "default_transaction_isolation": "read committed"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Pool.Exec(t.Context(), watchDisk); err != nil {
		t.Fatalf("watching the disk: %v", err)
	}
	cfg.MaxConns = maxConns
	stop := s.start(t, v, cfg) // while there is room: it waits until the roles work
	if _, err := db.Exec(t.Context(), `UPDATE full_disk SET yes = true`); err != nil {
		t.Fatalf("filling the disk: %v", err)
	}
	rec, base := &recorder{}, time.Now()
	full := history.Window{
		Kind: history.FaultWindow, Name: "full-disk", Fault: "no space left on device",
	}
	var room sync.WaitGroup
	room.Go(func() {
		s.untilNoticed(t, db, rec)
		if _, err := db.Exec(t.Context(), `UPDATE full_disk SET yes = false`); err != nil {
			t.Errorf("making room: %v", err)
		}
		full.End = time.Since(base)
	})
	s.attack(t, inst, base, rec)
	room.Wait()
	s.settle(t, inst)
	stop()
	audit, err := inst.Audit(t.Context())
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	full.Evidence = []string{fmt.Sprintf("%d writes were turned away", hits(t, db))}
	t.Logf("%s in %v", full.Evidence[0], full.End)
	s.judgeHarm(t, v, history.Slice(rec.records, full), audit)
}

// untilNoticed waits as long as the disk is full.
func (s Suite) untilNoticed(t testing.TB, db *stores.Postgres, rec *recorder) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < s.Patience; {
		if hits(t, db) > 0 && (rec.len() >= s.Ops/3 || time.Since(begin) >= fullFor) {
			return
		}
		sut.Pause(t.Context(), 10*time.Millisecond)
	}
	t.Error("nobody noticed that the disk was full")
}

// hits is how many writes were turned away.
func hits(t testing.TB, db *stores.Postgres) (n int64) {
	t.Helper()
	err := db.Row(t.Context(), `SELECT CASE WHEN is_called THEN last_value ELSE 0 END
		FROM full_disk_hits`, nil, &n)
	if err != nil {
		t.Errorf("asking how many writes were turned away: %v", err)
	}
	return n
}

// judgeHarm wants nothing broken that the variant is not known to break. What a
// full disk leaves undecided is no harm.
func (s Suite) judgeHarm(t *testing.T, v sut.Variant, h history.History, audit json.RawMessage) {
	t.Helper()
	for _, verdict := range check.All(t.Context(), s.System.Invariants(s.Params), h, audit) {
		known := slices.ContainsFunc(v.Breaks, func(b sut.Break) bool {
			return b.Invariant == verdict.Invariant || b.Under == sut.Load
		})
		if verdict.Status == check.Broken && !known && v.NotApplicable[verdict.Invariant] == "" {
			t.Errorf("%s: broken %d times: %+v", verdict.Invariant, verdict.Count, verdict.Violations)
		}
	}
}
