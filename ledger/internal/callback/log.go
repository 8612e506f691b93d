package callback

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/rs/zerolog"
)

// Log writes lines to the logger of the host. If the logger's writer or hooks panic, the line is
// lost. The panic is handled as zerolog handles a writer's error: by [zerolog.ErrorHandler], or
// with a line on the standard error. The zero value discards all lines.
type Log struct {
	host  zerolog.Logger
	quiet zerolog.Logger // host without its sampler, so that a check of the level runs no code of the host

	mu      sync.Mutex
	lines   []func(*zerolog.Logger) // lines of Later that are not written yet
	writing bool                    // a goroutine writes them
}

// Use sets the logger. It must be called once, before all other methods.
func (l *Log) Use(log zerolog.Logger) { l.host, l.quiet = log, log.Sample(nil) }

// Debugging reports whether the logger accepts lines of the debug level. It runs no code of the
// host, so it may be called under a lock.
func (l *Log) Debugging() bool { return l.quiet.Debug().Enabled() }

// Now writes a line in this goroutine. line gets the logger of the host. The caller must hold no
// lock and no transaction, because the logger may be slow or call the ledger.
func (l *Log) Now(line func(*zerolog.Logger)) {
	defer func() {
		if p := recover(); p != nil {
			lost(fmt.Errorf("ledger: the logger panicked: %v", p))
		}
	}()
	line(&l.host)
}

// Later writes a line in another goroutine, after the lines of earlier calls of Later. It is for
// rare lines: those of callers that may hold a lock or a transaction, and those that no request
// waits for.
func (l *Log) Later(line func(*zerolog.Logger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// Say is [Log.Later] for a text and an error, which may be nil.
func (l *Log) Say(level zerolog.Level, err error, text string) {
	l.Later(func(log *zerolog.Logger) { log.WithLevel(level).Err(err).Msg(text) })
}

// Flush writes the lines of Later that no goroutine has begun to write. It does not wait for a line
// that another goroutine is writing. So the logger itself may call it.
func (l *Log) Flush() { l.write() }

// write writes queued lines until none is left.
func (l *Log) write() {
	for line := l.next(); line != nil; line = l.next() {
		l.Now(line)
	}
}

// next removes the next line from the queue and returns it. If the queue is empty, it returns nil,
// and the next call of Later starts a new goroutine.
func (l *Log) next() (line func(*zerolog.Logger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// set under the lock, so that Later cannot add a line that no goroutine writes
	if l.writing = len(l.lines) > 0; l.writing {
		line, l.lines = l.lines[0], l.lines[1:]
	}
	return line
}

// Guard calls a function of the host whose result no request needs. It logs a panic with its stack.
func (l *Log) Guard(name string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			l.Now(func(log *zerolog.Logger) {
				log.Error().Str("function", name).Str("panic", fmt.Sprint(p)).Bytes("stack",
					stack).Msg("a function of the host panicked")
			})
		}
	}()
	call()
}

// lost reports a line that could not be written: to [zerolog.ErrorHandler] or, if that is nil, on
// the standard error.
func lost(err error) {
	if zerolog.ErrorHandler != nil {
		zerolog.ErrorHandler(err)
		return
	}
	fmt.Fprintln(os.Stderr, err)
}
