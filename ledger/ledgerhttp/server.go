package ledgerhttp

import (
	"bytes"
	"log"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// Server returns a server of a handler whose connections are bounded in time: one on which nothing
// is sent, or half of a header, is closed. Its caller sets what it listens on, which [Connections]
// bound in number, and how it is encrypted.
func Server(h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       withConnection,
		ConnState:         noteState,
	}
	if h, is := h.(*Handler); is {
		s.ErrorLog = log.New(&errorLog{logger: h.options.Logger, bound: newQuiet(time.Now)}, "", 0)
	}
	return s
}

// errorLog writes what a server says of connections, such as that TLS failed, to the log of a
// handler. Any client can cause such lines.
type errorLog struct {
	logger zerolog.Logger
	bound  *quiet
}

// Write implements [io.Writer]. It is called with one line at a time.
func (l *errorLog) Write(line []byte) (int, error) {
	if left, may := l.bound.allow(); may {
		l.logger.Warn().Uint64("unlogged", left).Bytes("error", bytes.TrimSpace(line)).Msg("a connection failed")
	}
	return len(line), nil
}
