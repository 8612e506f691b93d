// A trace runs a process and sees every system call by which it changes files, before it is carried
// out and after. It can let it be, end the process there, or make the call fail. So a test can kill
// a program at each point where the state of its files changes, and can keep what was written and
// when it was synced, to build the files that a loss of power could have left.
//
// It uses ptrace and seccomp, on Linux on x86-64, and needs nothing installed. Some sandboxes
// forbid it; [Need] ends a test there. A process that is traced must start no others: they could
// make none of the calls that are seen. It serves the tests of this module alone.
package trial

import (
	"errors"
	"runtime"
)

// ErrUnsupported says that processes cannot be traced on this system.
var ErrUnsupported = errors.New("no tracing of processes on this system")

// Kind is what a call does to files.
type Kind string

const (
	Write    Kind = "write"    // Data at Offset of Path; of a pipe too
	Sync     Kind = "sync"     // Path, which may be a directory, is made durable
	Truncate Kind = "truncate" // Path gets the length Offset
	Allocate Kind = "allocate" // Path gets at least the length Offset
	Create   Kind = "create"   // Path is opened, and made if it is not there
	Link     Kind = "link"     // Path gets the second name To
	Rename   Kind = "rename"   // Path gets the name To instead
	Remove   Kind = "remove"   // the name Path goes
	Mkdir    Kind = "mkdir"    // the directory Path is made
)

// Call is a system call that changes files.
type Call struct {
	Kind   Kind   // what the call does
	FD     int    // of Write, Sync, Truncate and Allocate
	Path   string // absolute; of a file without a name what the system calls it, such as "pipe:[17]"
	To     string // the new name, of Rename
	Offset int64  // where in the file, of Write
	Data   []byte // what is written, of Write
	// Content says of Sync that it need make durable only what was within the file's length before.
	Content bool
	callers []uintptr
}

// Callers returns what led to a call, the innermost function first, if the process runs the program that this one does.
func (c *Call) Callers() *runtime.Frames { return runtime.CallersFrames(c.callers) }

// Verdict is what becomes of a call.
type Verdict int

const (
	Proceed  Verdict = iota // the call is carried out
	Kill                    // the process ends, by SIGKILL, and the call is not carried out; others that had begun are, and are seen
	FailIO                  // the call is not carried out, and fails with EIO
	FailFull                // the call is not carried out, and fails with ENOSPC
)

// Watcher sees the calls of a process. Its methods are called one at a time.
type Watcher interface {
	// Before is called before a call is carried out.
	Before(*Call) Verdict
	// After is called when a call has succeeded. (Of a write that wrote less, Data is what was written.)
	After(*Call)
}
