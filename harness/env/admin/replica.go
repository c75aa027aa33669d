package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// Replica administers a hot standby of a Postgres server.
type Replica struct{ Postgres }

var _ Store = Replica{}

// ErrNoPrimary says that a run has a replica and nothing that it could follow.
var ErrNoPrimary = errors.New("a replica needs postgres too")

// ReplicaAt administers a replica that stampede started, as PostgresAt does a Postgres.
func ReplicaAt(addr func() string) Store {
	return Replica{Postgres{URL: func() string { return PostgresURL(addr()) }}}
}

// Replaying is a store's administrator that implements what env.Replicating adds: with
// env.ErrNotReplica, unless the store is a replica.
type Replaying struct{ Store }

// Hold stops the replay; see env.Replicating.
func (r Replaying) Hold(ctx context.Context) error {
	replica, is := r.Store.(Replica)
	if !is {
		return env.ErrNotReplica
	}
	return replica.Hold(ctx)
}

// GoOn lets the replay go on; see env.Replicating.
func (r Replaying) GoOn(ctx context.Context) (behind int64, err error) {
	replica, is := r.Store.(Replica)
	if !is {
		return 0, env.ErrNotReplica
	}
	return replica.GoOn(ctx)
}

// Primary is the Postgres that a replica is a copy of, while both are being started.
type Primary struct {
	up   chan struct{}
	addr func(context.Context) (string, error)
}

// NewPrimary is one that is not up yet.
func NewPrimary() *Primary { return &Primary{up: make(chan struct{})} }

// Up gives the primary its address, once; nil means that it did not start. A nil Primary ignores
// it.
func (p *Primary) Up(addr func(context.Context) (string, error)) {
	if p == nil {
		return
	}
	p.addr = addr
	close(p.up)
}

// Addr waits for the primary and returns its address, host:port, as a replica reaches it.
func (p *Primary) Addr(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the primary: %w", ctx.Err())
	case <-p.up:
	}
	if p.addr == nil {
		return "", errors.New("the primary did not start")
	}
	return p.addr(ctx)
}

// PrimaryConf is the configuration file of a Postgres that has a replica. It keeps log for a
// replica that is away, which would never catch up else.
func PrimaryConf(base []byte) []byte {
	return append(slices.Clip(base), "\nwal_keep_size = 1GB\n"...)
}

// ReplicaConf is the configuration file of a replica: that of its primary, and what makes it follow
// closely. Each second it tells its primary which rows its queries still need, so that few of them
// hold the replay up.
func ReplicaConf(primary []byte) []byte {
	return append(slices.Clip(primary), "\nwal_retrieve_retry_interval = 100ms\n"+
		"wal_receiver_status_interval = 1s\nhot_standby_feedback = on\n"...)
}

// Ready implements Store: it answers, and replays what a primary has logged.
func (r Replica) Ready(ctx context.Context) error { return r.ReadyAt(ctx, "") }

// ReadyAt implements Store.
func (r Replica) ReadyAt(ctx context.Context, addr string) error {
	return r.with(ctx, readyTimeout, addr, func(ctx context.Context, conn *pgx.Conn) error {
		var standby bool
		if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
			return fmt.Errorf("ask the replica: %w", err)
		}
		if !standby {
			return fmt.Errorf("the server at %s: %w", Redact(r.URL()), env.ErrNotReplica)
		}
		return nil
	})
}

// Info implements Store.
func (r Replica) Info(ctx context.Context, also []string) (env.Info, error) {
	info, err := r.Postgres.Info(ctx, append([]string{"hot_standby_feedback"}, also...))
	info.Kind = "postgres replica"
	return info, err
}

// holdPause is the pause between two looks whether the replay stands still.
const holdPause = 5 * time.Millisecond

// Hold implements env.Replicating.
func (r Replica) Hold(ctx context.Context) error {
	if err := r.exec(ctx, "SELECT pg_wal_replay_pause()"); err != nil {
		return err
	}
	for {
		state, err := r.text(ctx, "SELECT pg_get_wal_replay_pause_state()")
		if err != nil || state == "paused" {
			return err
		}
		if !sut.Pause(ctx, holdPause) {
			return fmt.Errorf("holding the replay, whose state is %q: %w", state, ctx.Err())
		}
	}
}

// GoOn implements env.Replicating.
func (r Replica) GoOn(ctx context.Context) (behind int64, err error) {
	err = r.with(ctx, adminTimeout, "", func(ctx context.Context, conn *pgx.Conn) error {
		row := conn.QueryRow(ctx, `SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(),
			pg_last_wal_replay_lsn()), 0)::bigint`)
		if err := row.Scan(&behind); err != nil {
			return fmt.Errorf("ask the replica how far it is behind: %w", err)
		}
		if _, err := conn.Exec(ctx, "SELECT pg_wal_replay_resume()"); err != nil {
			return fmt.Errorf("letting the replay go on: %w", err)
		}
		return nil
	})
	return behind, err
}

// Follow tells the replica where its primary is now.
func (r Replica) Follow(ctx context.Context, primary string) error {
	return r.exec(ctx, "ALTER SYSTEM SET primary_conninfo = "+literal(ConnInfo(primary)),
		"SELECT pg_reload_conf()")
}

// ConnInfo is how a replica connects to its primary at an address.
func ConnInfo(primary string) string {
	host, port, _ := net.SplitHostPort(primary)
	return fmt.Sprintf("host=%s port=%s user=%s sslmode=disable application_name=replica", host, port,
		Superuser)
}

// Await waits until the replica has what was made in its primary, a database or a schema, and
// returns the URL of that.
func (r Replica) Await(ctx context.Context, primary, name string) (string, error) {
	at, err := r.urlOf(primary)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	place := Postgres{URL: func() string { return at }}
	for {
		has, err := place.text(ctx, `SELECT (current_database() = $1
			OR to_regnamespace($1) IS NOT NULL)::text`, name)
		switch {
		case err == nil && has == "true":
			return at, nil
		case err != nil && State(err) != noDatabase:
			return "", err
		case !sut.Pause(ctx, holdPause):
			return "", fmt.Errorf("%s was made in the primary, and is not in %s %v later: %w of it", name,
				Redact(at), adminTimeout, env.ErrNotReplica)
		}
	}
}

// noDatabase is the SQLSTATE of a connection to a database that is not there.
const noDatabase = "3D000"

// Pair is a primary and its replica.
type Pair struct {
	// Primary is where the primary is now, as the replica reaches it.
	Primary func(context.Context) (string, error)
	Replica Replica
}

// Reunite tells the replica where its primary is, after one of them was started again or thawed. If
// the other is not there it does nothing: that will do it when it is back. There may be no pair.
func (p *Pair) Reunite(ctx context.Context) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	if addr, err := p.Primary(ctx); err == nil {
		_ = p.Replica.Follow(ctx, addr)
	}
}

// urlOf is the URL of a database or schema of the primary, on the replica.
func (r Replica) urlOf(primary string) (string, error) {
	at, err := url.Parse(primary)
	if err != nil {
		return "", fmt.Errorf("read the URL of postgres: %s", Redact(primary))
	}
	own, err := url.Parse(r.URL())
	if err != nil {
		return "", fmt.Errorf("read the URL of the replica: %s", Redact(r.URL()))
	}
	own.Path = at.Path
	if options := at.Query().Get("options"); options != "" {
		query := own.Query()
		query.Set("options", options)
		own.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	}
	return own.String(), nil
}
