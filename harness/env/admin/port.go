package admin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Stores listen on ports from lowestPort up to those that the kernel gives out by
// itself: one of its own could become the source of a stranger's connection while a
// store is being started, or while it lies killed.
const (
	lowestPort = 20000
	portTries  = 200
	// kernelPorts has the first and last port that the kernel gives out.
	kernelPorts = "/proc/sys/net/ipv4/ip_local_port_range"
)

// Ports gives out TCP ports of the loopback address, each but once. It may be asked
// by several goroutines.
type Ports struct {
	next  atomic.Int64
	count int64 // 0 if all ports are the kernel's
}

// NewPorts begins anywhere, so that two of them seldom give the same.
func NewPorts() *Ports {
	p := &Ports{count: int64(firstKernelPort()) - lowestPort}
	if p.count < 2*portTries {
		return &Ports{}
	}
	draw := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(os.Getpid())))
	p.next.Store(draw.Int64N(p.count))
	return p
}

// Free returns a port on which nobody listens. Another process may still take it
// before the caller does.
func (p *Ports) Free() (int, error) {
	if p.count == 0 {
		return kernelPort()
	}
	for range portTries {
		port := lowestPort + int(p.next.Add(1)%p.count)
		listener, err := net.Listen("tcp", Loopback(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("ask for a free port: %w", err)
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("found no free port in %d tries from %d on", portTries, lowestPort)
}

// FreeAddr returns an address of a free port: 127.0.0.1 and the port.
func (p *Ports) FreeAddr() (string, error) {
	port, err := p.Free()
	return Loopback(port), err
}

// kernelPort lets the kernel choose.
func kernelPort() (int, error) {
	listener, err := net.Listen("tcp", Loopback(0))
	if err != nil {
		return 0, fmt.Errorf("ask for a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// firstKernelPort is where the kernel's ports begin, 0 if it does not say.
func firstKernelPort() (first int) {
	text, err := os.ReadFile(kernelPorts)
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &first); err != nil {
		return 0
	}
	return first
}

// Loopback is the loopback address with a port: host:port.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
