package telemetry

import (
	"context"
	"fmt"

	"stampede/harness/sut"
)

// replicaSQL asks a hot standby how far it is behind: what has arrived and is not replayed, and
// how old its newest transaction is while there is any of that.
const replicaSQL = `
SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0)::float8,
	CASE WHEN pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()
		THEN coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0)
		ELSE 0 END::float8`

// Replica is the replica of a database, on the server that is at an address now. It is asked
// over one connection of its own.
func Replica(url string, addr func() string) Source {
	return &replica{postgres{url: url, addr: addr}}
}

type replica struct{ postgres }

func (*replica) Name() string { return string(sut.Replica) }

func (r *replica) Read(ctx context.Context) ([]Value, error) {
	if r.conn == nil {
		if err := r.connect(ctx); err != nil {
			return nil, err
		}
	}
	values := []Value{{Quantity: "log not replayed", Unit: "bytes"}, {Quantity: "lag", Unit: "s"}}
	err := r.conn.QueryRow(ctx, replicaSQL).Scan(&values[0].Amount, &values[1].Amount)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("asking the replica how far it is behind: %w", err)
	}
	return values, nil
}
