package ledgerhttp

import (
	"net/http"
	"time"
)

// Server returns a server of a handler whose connections are bounded in time: whoever opens one and sends nothing, or half of a header,
// is dropped. Its caller sets what it listens on, and how it is encrypted.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
}
