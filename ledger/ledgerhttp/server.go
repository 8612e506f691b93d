package ledgerhttp

import (
	"bytes"
	"log"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// Server returns a server of the handler that closes a connection on which nothing, or half of a
// header, is sent for long. The caller sets how it is encrypted, and serves on a
// [Handler.Listener], which bounds connections in number.
func (h *Handler) Server() *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       withConnection,
		ConnState:         noteState,
		ErrorLog:          log.New(&errorLog{logger: h.options.Logger, bound: newQuiet(time.Now)}, "", 0),
	}
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
