package admin_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"stampede/harness/env/admin"
)

// TestPorts: a store can listen on what it is given, which is no port that the
// kernel would give to somebody else meanwhile, and none twice.
func TestPorts(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("the kernel does not say which ports it gives out:", err)
	}
	if strings.Fields(string(text))[0] != "32768" {
		t.Skipf("the kernel's ports are not the usual ones: %s", text)
	}
	ports, taken := admin.NewPorts(), map[string]bool{}
	for range 50 {
		addr, err := ports.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if port < 20000 || port >= 32768 || taken[addr] {
			t.Errorf("%s was given, after %v", addr, taken)
		}
		taken[addr] = true
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReserve: a reserved port refuses connections until somebody listens on it, alone, who may do
// so again.
func TestReserve(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			r, err := admin.Reserve(host)
			if host == "::1" && (errors.Is(err, syscall.EADDRNOTAVAIL) ||
				errors.Is(err, syscall.EAFNOSUPPORT)) {
				t.Skip("this machine has no IPv6:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
			for range 3 {
				if c, err := net.Dial("tcp", r.String()); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("nobody listens, and there is a connection %v: %v", c, err)
				}
				listener, err := net.Listen("tcp", r.String())
				if err != nil {
					t.Fatal(err)
				}
				if c, err := net.Dial("tcp", r.String()); err != nil || c.Close() != nil {
					t.Error(err)
				}
				if second, err := net.Listen("tcp", r.String()); err == nil {
					t.Errorf("two listen on %s", second.Addr())
				}
				if err := listener.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
