package admin

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Reserved is a TCP port that is bound and does not listen. Until it is closed, the kernel gives it
// to nobody else, while a process that is told of it may listen on it, die and listen on it again.
// Who connects in between is refused, and does not reach another server by mistake. A nil *Reserved
// is none. See docs/decisions/2026-11-28-a-dead-server-keeps-its-port.md.
type Reserved struct {
	socket int
	addr   string
}

// Reserve reserves a port of an address of this machine, which the kernel chooses.
func Reserve(host string) (r *Reserved, err error) {
	at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("reserve a port of %s: %w", host, err)
	}
	var addr syscall.Sockaddr
	family := syscall.AF_INET6
	if v4 := at.IP.To4(); v4 != nil {
		family, addr = syscall.AF_INET, &syscall.SockaddrInet4{Addr: [4]byte(v4)}
	} else {
		addr = &syscall.SockaddrInet6{Addr: [16]byte(at.IP.To16())}
	}
	syscall.ForkLock.RLock()
	r = &Reserved{}
	r.socket, err = syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(r.socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	port, err := bound(r.socket, addr)
	if err != nil {
		_ = syscall.Close(r.socket)
		return nil, fmt.Errorf("reserve a port of %s: %w", host, err)
	}
	r.addr = net.JoinHostPort(at.IP.String(), strconv.Itoa(port))
	return r, nil
}

// bound binds a socket and says to which port. Others may bind to it too as long as none of them
// listens but one (SO_REUSEADDR, which net.Listen sets as well).
func bound(socket int, addr syscall.Sockaddr) (port int, err error) {
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, addr); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	got, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	switch got := got.(type) {
	case *syscall.SockaddrInet4:
		port = got.Port
	case *syscall.SockaddrInet6:
		port = got.Port
	}
	return port, nil
}

// String is host:port, "" if there is none.
func (r *Reserved) String() string {
	if r == nil {
		return ""
	}
	return r.addr
}

// Close gives the port back.
func (r *Reserved) Close() error {
	if r == nil {
		return nil
	}
	return os.NewSyscallError("close", syscall.Close(r.socket))
}
