package ledgerhttp

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
)

// A named pipe without a writer is refused at once, and blocks no caller.
func TestOpenTokens_NamedPipe_IsRefused(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	check.Must(t, syscall.Mkfifo(fifo, 0o600))
	_, err := OpenTokens(fifo, nil)
	check.That(t, err != nil && strings.Contains(err.Error(), "not a regular file"), "%v", err)
}

// Requests that wait while another one reads the file hold no descriptors: there may be as many of
// them as connections.
func TestTokens_RequestsWait_FileIsNotOpen(t *testing.T) {
	a := newTokensAt(t)
	path := check.Value(filepath.EvalSymlinks(a.path))(t)
	open := func() (n int) {
		all := check.Value(os.ReadDir("/proc/self/fd"))(t)
		for _, fd := range all {
			if at, _ := os.Readlink("/proc/self/fd/" + fd.Name()); at == path {
				n++
			}
		}
		return n
	}
	var waiting sync.WaitGroup
	a.mu.Lock()
	for range 50 {
		waiting.Go(func() { a.admit(&http.Request{Header: http.Header{"Authorization": {"Bearer " + a.token}}}) })
	}
	time.Sleep(50 * time.Millisecond)
	n := open()
	for end := time.Now().Add(5 * time.Second); n > 0 && time.Now().Before(end); n = open() {
		time.Sleep(time.Millisecond)
	}
	a.mu.Unlock()
	waiting.Wait()
	check.That(t, n == 0, "%d requests that wait have the file open", n)
}
