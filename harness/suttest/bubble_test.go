package suttest_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"stampede/harness/suttest"
)

// TestWay: bytes pass on a way that is whole, wait while it is stalled, and are lost where
// answers are; a connection that was cut is closed, and a dead process gets none.
func TestWay(t *testing.T) {
	suttest.InBubble(t, func(t *testing.T) {
		begin := time.Now()
		way := suttest.NewLink()
		dial := way.Through(func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(far, far) }() // it echoes until it is closed
			return near, nil
		})
		conn, err := dial(t.Context(), "tcp", "redis:6379")
		if err != nil {
			t.Fatal(err)
		}
		after := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
		echo := func(text string, want time.Duration) {
			t.Helper()
			got := make([]byte, 1)
			if _, err := conn.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			_, err := conn.Read(got)
			if took := time.Since(begin); err != nil || string(got) != text || took != want {
				t.Errorf("%q came back as %q after %v, %v; want %v", text, got, took, err, want)
			}
		}
		echo("a", 0)
		after(time.Second, way.Stall())
		echo("b", time.Second)
		hear := way.Silence()
		if _, err := conn.Write([]byte("c")); err != nil {
			t.Fatal(err)
		}
		after(time.Second, func() {
			hear()
			_, _ = conn.Write([]byte("d"))
		})
		got := make([]byte, 1)
		if _, err := conn.Read(got); err != nil || string(got) != "d" || way.Alive() != nil {
			t.Errorf("after what was lost came %q, %v; alive: %v", got, err, way.Alive())
		}
		way.Die()
		_, wrote := conn.Write([]byte("e"))
		_, connected := dial(t.Context(), "tcp", "redis:6379")
		if alive := way.Alive(); wrote == nil || connected == nil || alive == nil {
			t.Errorf("a dead process writes: %v, connects: %v, is alive: %v", wrote, connected, alive)
		}
	})
}
