package httpapi

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// An address means the same to servers and clients, and never names an abstract socket, which any
// local user can bind.
func TestSocketPath_AbstractSocket_IsErrInvalid(t *testing.T) {
	for address, want := range map[string]string{"unix:a.sock": "a.sock", "unix:/run/a": "/run/a", "unix:./@a": "./@a", "unix:a@b": "a@b"} {
		path, is, err := SocketPath(address)
		check.That(t, path == want && is && err == nil, "%s: %q, %v, %v; want %q", address, path, is, err, want)
	}
	for _, address := range []string{"http://localhost", "https://a", "a.sock", "", "unix", "UNIX:a"} {
		if path, is, err := SocketPath(address); path != "" || is || err != nil {
			t.Errorf("%s: %q, %v, %v; want that it is another address", address, path, is, err)
		}
	}
	for _, address := range []string{"unix:", "unix:@a", "unix:@", "unix:\x00a", "unix:a\x00b"} {
		if path, is, err := SocketPath(address); path != "" || !is || !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%q: %q, %v, %v; want ErrInvalid", address, path, is, err)
		}
	}
}
