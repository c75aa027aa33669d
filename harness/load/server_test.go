package load_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"stampede/harness/childtest"
	"stampede/harness/history"
	"stampede/harness/load"
)

// serveEnv makes the test binary be a server: a trivial one, which answers every request with
// "ok", or a plainShop.
const (
	serveEnv     = "STAMPEDE_LOAD_TEST_SERVE"
	serveTrivial = "trivial"
	serveShop    = "shop"
)

// serve serves until its standard input is closed, which the death of the parent does too. It
// prints its address.
func serve(what string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	trivial := &fasthttp.Server{
		Handler:           func(ctx *fasthttp.RequestCtx) { ctx.WriteString("ok") },
		NoDefaultDate:     true,
		ReadTimeout:       time.Minute,
		ReduceMemoryUsage: false,
	}
	accept := trivial.Serve
	if what == serveShop {
		accept = (&http.Server{Handler: plainShop(), ReadHeaderTimeout: time.Minute}).Serve
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		os.Exit(0)
	}()
	if err := accept(listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startServer starts a server as a child process and returns its address.
func startServer(b *testing.B, what string) string {
	b.Helper()
	_, printed := childtest.Start(b, serveEnv, what)
	address, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// httpDo sends one GET for each operation.
func httpDo(address string) load.Do {
	client := &fasthttp.HostClient{
		Addr: address, MaxConns: 1024, NoDefaultUserAgentHeader: true,
		MaxIdemponentCallAttempts: 1, MaxIdleConnDuration: time.Minute,
	}
	return func(ctx context.Context, _ history.Op) (history.Reply, error) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI("http://" + address + "/")
		deadline, _ := ctx.Deadline()
		if err := client.DoDeadline(req, resp, deadline); err != nil {
			return history.Reply{}, err
		}
		if resp.StatusCode() != fasthttp.StatusOK {
			return history.Reply{}, fmt.Errorf("status %d", resp.StatusCode())
		}
		return history.Reply{Value: int64(len(resp.Body()))}, nil
	}
}

func TestMain(m *testing.M) {
	if what := os.Getenv(serveEnv); what != "" {
		serve(what)
	}
	os.Exit(m.Run())
}
