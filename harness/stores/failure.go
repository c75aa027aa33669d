package stores

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stampede/harness/sut"
)

// Failed wraps an error of a store with what was being done. It wraps
// sut.ErrRefused too if, and only if, the error proves that the store did not
// apply the operation and never will; in doubt the outcome stays unknown. It is
// for the first step of an operation: what fails later has had an effect. Nil
// stays nil.
func Failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if notApplied(err) {
		return fmt.Errorf("%s: %w: %w", doing, sut.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Unknown wraps an error of a later step of an operation: the effect of the first
// one stays, whatever the error says of its own.
func Unknown(doing string, err error) error {
	//nolint:errorlint // the cause may wrap sut.ErrRefused, which would be a lie here
	return fmt.Errorf("%s: %v", doing, err)
}

func notApplied(err error) bool {
	return neverSent(err) || postgresRolledBack(err) || redisRefused(err)
}

// neverSent: no byte of the operation left this process. The driver says so of a
// connection that was closed, too; but if the end of the connection comes while
// it waits for the answer to a COMMIT, it says the same (pgx 5.12: NextResult
// drops the error and finds the connection closed), and the order is there.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting) ||
		pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, errNoConnection) ||
		errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, rueidis.ErrClosing)
}

// errNoConnection is why an operation on Postgres did not start.
var errNoConnection = errors.New("no connection")

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

// redisRefused: an error reply that Redis gives instead of running a command.
// Errors raised by a running script are not among them, because what the
// script did before stays done.
func redisRefused(err error) bool {
	text, isReply := redisReply(err)
	if !isReply {
		return false
	}
	for _, prefix := range []string{
		"LOADING ", "READONLY ", "NOSCRIPT ", "MISCONF ", "MASTERDOWN ", "BUSY ",
		"NOAUTH ", "NOPERM ", "ERR max number of clients reached",
	} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

func redisReply(err error) (text string, isReply bool) {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply.Error(), true
	}
	var rueidisReply *rueidis.RedisError
	if errors.As(err, &rueidisReply) {
		return rueidisReply.Error(), true
	}
	return "", false
}

// Constraint returns the name of the constraint that an error of Postgres
// says was violated, or "".
func Constraint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.HasPrefix(pg.Code, "23") {
		return pg.ConstraintName
	}
	return ""
}
