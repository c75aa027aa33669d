package sqlbroker

import (
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"stampede/harness/sut"
)

// failed wraps an error of a store with what was being done. It wraps
// sut.ErrRefused too if, and only if, the error proves that the store did not
// apply the operation and never will; in doubt the outcome stays unknown. It is
// for the first step of an operation: what fails later has had an effect.
func failed(doing string, err error) error {
	if neverSent(err) || postgresRolledBack(err) {
		return fmt.Errorf("%s: %w: %w", doing, sut.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unknown wraps an error of a later step: the effect of the first one stays.
func unknown(doing string, err error) error {
	//nolint:errorlint // the cause may wrap sut.ErrRefused, which would be a lie here
	return fmt.Errorf("%s: %v", doing, err)
}

// errNoConnection is why an operation on Postgres did not start.
var errNoConnection = errors.New("no connection")

// neverSent: no byte of the operation left this process.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting) ||
		// Of a connection that ends while a COMMIT awaits its answer, pgx says the
		// same as of one that was closed before (5.12): the outcome is unknown.
		pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, errNoConnection)
}

// postgresRolledBack: the server answered with an ERROR, which ends the
// transaction. A FATAL one may come while a commit is under way, and classes
// that are not listed (08 connection, 40003, 57P01 shutdown, 58 and XX
// internal) do not say how far the server got.
func postgresRolledBack(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", // serialization failure, deadlock
		"53300", "57P03", // too many connections, starting up or shutting down
		"55P03", "57014": // lock not available, cancelled by statement_timeout
		return true
	}
	if pg.Severity != "ERROR" || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "25", "42", "53": // data, constraint, state, syntax, resources
		return true
	}
	return false
}
