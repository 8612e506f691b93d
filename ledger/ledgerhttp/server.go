package ledgerhttp

import (
	"bytes"
	"log"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// Server returns an HTTP server for the handler. It closes a connection that stays idle for 2
// minutes, or that takes longer than 10 seconds to send a header. The caller configures TLS, and
// serves on a [Handler.Listener], which limits the number of connections.
func (h *Handler) Server() *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ConnContext:       withConnection,
		ConnState:         noteState,
		ErrorLog:          log.New(&errorLog{logger: h.options.Logger, bound: newLineLimiter(time.Now)}, "", 0),
	}
}

// errorLog writes the server's messages about connections, such as failed TLS handshakes, to the
// logger of the handler. It limits their rate, because any client can cause them.
type errorLog struct {
	logger zerolog.Logger
	bound  *lineLimiter
}

// Write implements [io.Writer]. Each call has one line. "unlogged" is the number of lines that were
// suppressed since the last line. Write always reports success, because a [log.Logger] ignores it.
func (l *errorLog) Write(line []byte) (int, error) {
	if left, may := l.bound.allow(); may {
		l.logger.Warn().Uint64("unlogged", left).Bytes("error", bytes.TrimSpace(line)).Msg("a connection failed")
	}
	return len(line), nil
}
