package env

import (
	"context"
	"io"
)

// Program is a process of a system under test: stampede itself, executed again
// with arguments of its own.
type Program struct {
	// Name tells it apart from the others of its run, for example "counter-2".
	Name string
	// Args are the arguments, without the program's name.
	Args []string
	// Log is the file that its standard error is appended to.
	Log string
	// RunID is the run that it belongs to.
	RunID string
	// Folder is one that it reads and writes under the same path, "" for none.
	Folder string
}

// Launcher starts programs.
type Launcher interface {
	// Available says why nothing can be launched here, or nil.
	Available(ctx context.Context) error
	// Launch starts a program, which is dead when this process is, however it
	// died. On error nothing is left running.
	Launch(ctx context.Context, p Program) (Process, error)
	// Close gives back what launching needed. Programs must have ended.
	Close() error
}

// Process is a started program. Its methods may be called at once.
type Process interface {
	// PID is its number on this machine.
	PID() int
	// Input and Output are its standard input and output.
	Input() io.WriteCloser
	Output() io.ReadCloser
	// Kill ends it with SIGKILL and Terminate asks it to end with SIGTERM; one
	// that has ended is no error. Kill returns when it is over.
	Kill(ctx context.Context) error
	Terminate(ctx context.Context) error
	// Pause freezes it and returns when it stands still; Resume thaws it.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Done is closed when it has ended; How says then how it did.
	Done() <-chan struct{}
	How() End
}

// Ended says whether what closes a channel at its end is over.
func Ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// End is how a process ended.
type End struct {
	// Code is its exit code, -1 if a signal ended it.
	Code int
	// Killed is true when that was SIGKILL.
	Killed bool
	// Text is how the system words it, for example "signal: killed".
	Text string
}
