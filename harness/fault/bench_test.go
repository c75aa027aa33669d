package fault_test

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"stampede/harness/fault"
)

// BenchmarkRoundTrip measures one small question and answer over loopback:
// direct, through our proxy, and through an embedded toxiproxy without toxics.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("direct", func(b *testing.B) {
		benchRoundTrip(b, func(upstream string) (string, func()) { return upstream, func() {} })
	})
	b.Run("proxy", func(b *testing.B) { benchRoundTrip(b, throughOurs(b)) })
	b.Run("toxiproxy", func(b *testing.B) { benchRoundTrip(b, throughToxiproxy(b)) })
}

func throughOurs(b *testing.B) func(string) (string, func()) {
	return func(upstream string) (string, func()) {
		p, err := fault.NewProxy(b.Context(), "bench", func() string { return upstream })
		if err != nil {
			b.Fatal(err)
		}
		return p.Addr(), func() { p.Close() }
	}
}

func throughToxiproxy(b *testing.B) func(string) (string, func()) {
	return func(upstream string) (string, func()) {
		server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
		p := toxiproxy.NewProxy(server, "bench", "127.0.0.1:0", upstream)
		if err := p.Start(); err != nil {
			b.Fatal(err)
		}
		return p.Listen, p.Stop
	}
}

func benchRoundTrip(b *testing.B, through func(string) (string, func())) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	e := &echo{listener: listener}
	e.group.Go(e.serve)
	defer e.stop()
	addr, stop := through(e.addr())
	defer stop()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	c := &client{conn, bufio.NewReader(conn)}
	b.ReportAllocs()
	cpu := cpuTime(b)
	defer func() {
		b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	}()
	for b.Loop() {
		if _, err := c.ask("0123456789012345678901234567890123456789"); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime is what this process has used of the cores: on a busy machine it
// says more than the time on the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
