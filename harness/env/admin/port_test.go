package admin_test

import (
	"net"
	"os"
	"strings"
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
