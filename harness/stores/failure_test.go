package stores_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisReply is an error reply as go-redis returns it.
type redisReply string

func (r redisReply) Error() string { return string(r) }
func (redisReply) RedisError()     {}

func postgres(severity, code string) error {
	return &pgconn.PgError{Severity: severity, Code: code, Message: "test"}
}

// closedWhileWaiting is what pgx returns if the connection ends while it waits
// for the answer to a COMMIT: it claims that nothing was sent.
type closedWhileWaiting struct{}

func (closedWhileWaiting) Error() string     { return "conn closed" }
func (closedWhileWaiting) SafeToRetry() bool { return true }
func (closedWhileWaiting) Unwrap() error     { return pgconn.ErrConnClosed }

// neverSent is what pgx returns if it did not begin.
type neverSent struct{}

func (neverSent) Error() string     { return "conn busy" }
func (neverSent) SafeToRetry() bool { return true }

// TestFailed: only proof makes a refusal.
func TestFailed(t *testing.T) {
	refused := map[string]error{
		"dial refused":         &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"pool timeout":         fmt.Errorf("x: %w", redis.ErrPoolTimeout),
		"client closed":        rueidis.ErrClosing,
		"connecting":           &pgconn.ConnectError{},
		"never sent":           neverSent{},
		"serialization":        postgres("ERROR", "40001"),
		"deadlock":             postgres("ERROR", "40P01"),
		"too many connections": postgres("FATAL", "53300"),
		"starting up":          postgres("FATAL", "57P03"),
		"statement timeout":    postgres("ERROR", "57014"),
		"unique violation":     postgres("ERROR", "23505"),
		"disk full":            postgres("ERROR", "53100"),
		"loading":              redisReply("LOADING Redis is loading the dataset in memory"),
		"read only":            redisReply("READONLY You can't write against a read only replica."),
		"no script":            redisReply("NOSCRIPT No matching script."),
		"disk of redis full":   redisReply("MISCONF Redis is configured to save RDB snapshots"),
		"max clients":          redisReply("ERR max number of clients reached"),
	}
	unknown := map[string]error{
		"deadline":               context.DeadlineExceeded,
		"closed while waiting":   closedWhileWaiting{},
		"cancelled":              context.Canceled,
		"end of file":            io.EOF,
		"reset while reading":    &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"broken pipe":            &net.OpError{Op: "write", Err: syscall.EPIPE},
		"read timeout":           &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded},
		"administrator shutdown": postgres("FATAL", "57P01"),
		"crash shutdown":         postgres("FATAL", "57P02"),
		"commit unknown":         postgres("ERROR", "40003"),
		"connection failure":     postgres("FATAL", "08006"),
		"internal":               postgres("ERROR", "XX000"),
		"constraint, but fatal":  postgres("FATAL", "23505"),
		"script failed half-way": redisReply("ERR user_script:3: attempt to index a nil value"),
		"other reply":            redisReply("WRONGTYPE Operation against a key"),
		"anything else":          errors.New("anything else"),
	}
	for name, cause := range refused {
		if err := stores.Failed("testing", cause); !errors.Is(err, sut.ErrRefused) {
			t.Errorf("%s: %v is not refused", name, err)
		}
	}
	for name, cause := range unknown {
		err := stores.Failed("testing", cause)
		if errors.Is(err, sut.ErrRefused) || !errors.Is(err, cause) {
			t.Errorf("%s: expected an unknown outcome that wraps its cause, got %v", name, err)
		}
	}
}
