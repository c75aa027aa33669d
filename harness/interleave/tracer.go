package interleave

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Tracer goes into the configuration of the connections whose statements are to be
// put in order. It stops what is sent in a Session and lets everything else pass.
type Tracer struct{}

var (
	_ pgx.QueryTracer    = Tracer{}
	_ pgx.BatchTracer    = Tracer{}
	_ pgx.CopyFromTracer = Tracer{}
)

// TraceQueryStart stops before a statement.
func (Tracer) TraceQueryStart(
	ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	stop(ctx, conn, data.SQL)
	return ctx
}

// TraceQueryEnd does nothing: the next stop says that a statement is over.
func (Tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart stops before a batch, which is one step.
func (Tracer) TraceBatchStart(
	ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	stop(ctx, conn, "a batch")
	return ctx
}

// TraceBatchQuery does nothing.
func (Tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (Tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart stops before a copy, which is one step.
func (Tracer) TraceCopyFromStart(
	ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromStartData,
) context.Context {
	stop(ctx, conn, "COPY "+data.TableName.Sanitize())
	return ctx
}

// TraceCopyFromEnd does nothing.
func (Tracer) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

// stop waits, in a session, until the statement may be sent. BEGIN takes no snapshot
// and no lock, so that it makes no difference when it is sent.
func stop(ctx context.Context, conn *pgx.Conn, sql string) {
	l, inSession := ctx.Value(lineKey{}).(*line)
	if !inSession || strings.HasPrefix(strings.ToLower(sql), "begin") {
		return
	}
	l.tell(ctx, event{line: l, pid: conn.PgConn().PID(), sql: sql})
	select {
	case <-l.grant:
	case <-ctx.Done():
	}
}
