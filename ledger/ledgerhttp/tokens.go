package ledgerhttp

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/internal/httpapi"
)

// tokens identifies callers by a file of hashed tokens.
type tokens struct {
	path  string
	fault func(error)      // called once for each distinct error while the file cannot be read
	now   func() time.Time // the clock

	mu        sync.Mutex
	text      []byte            // content at the last read
	lastFault string            // the last error passed to fault
	known     map[string]Holder // by the hash of the token; nil if the file could not be read
	mark      mark              // mark of the file at the last read
	markSince time.Time         // when the file was first seen with this mark
	isSettled bool              // every later change of the file changes its mark
}

// settleTime is how long a file must have the same mark before the mark is trusted. A file that
// changes twice within one clock tick of its file system has the same mark both times. No file
// system has ticks of 10 seconds.
const settleTime = 10 * time.Second

// OpenTokens returns an [Options.Gate] that identifies callers by a file of hashed tokens, which
// "ledgerctl token" writes. The gate returns the [Holder] of the bearer token of a request, or
// false if the token is not in the file.
//
// The file must be readable now. The gate opens it for each request, and reads it unless it is
// certainly unchanged, so that added and removed tokens take effect at once. While the file cannot
// be read, no caller is admitted, and fault is called once for each new error, from any goroutine.
// fault may be nil. The file is JSON, with the SHA-256 of each token in hexadecimal digits:
//
//	{"tokens": [{"name": "shop", "role": "buyer", "whom": "acme", "sha256": "…"}]}
func OpenTokens(path string, fault func(error)) (gate func(*http.Request) (Holder, bool), err error) {
	t, err := openTokens(path, fault)
	if err != nil {
		return nil, err
	}
	return t.admit, nil
}

// openTokens returns the tokens of a file, or an error if the file cannot be read now.
func openTokens(path string, fault func(error)) (*tokens, error) {
	if fault == nil {
		fault = func(error) {}
	}
	t := &tokens{path: path, fault: fault, now: time.Now}
	return t, t.refresh(statMark(path))
}

// admit returns the holder of the bearer token of a request. It returns false if the request does
// not have exactly one bearer token, or if the file does not have this token. While the file cannot
// be read, it returns false for every request, and reports each new error to fault.
func (t *tokens) admit(r *http.Request) (Holder, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return Holder{}, false
	}
	hash := httpapi.HashToken(strings.TrimSpace(token))
	is, marked, err := statMark(t.path) // outside the lock, so that no other request waits for the file system
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.refresh(is, marked, err)
	// an error is reported once, and not for each request
	if text := fmt.Sprint(err); err != nil && text != t.lastFault {
		t.lastFault = text
		t.fault(err)
	}
	// A map lookup is safe here: its timing depends on the hash only, which reveals no token.
	holder, known := t.known[hash]
	return holder, known
}

// statMark opens and closes a file. It returns the mark of the file, and whether the mark can be
// trusted. It opens the file, and does not only stat it, for two reasons. It must notice that the
// process lost the permission to read the file. Some network file systems fetch changes only on
// open. It closes the file at once, because each request that waits for the lock would otherwise
// hold a descriptor.
func statMark(path string) (is mark, marked bool, err error) {
	file, info, err := openRegular(path)
	if err == nil {
		is, marked = markOf(info)
		err = file.Close()
	}
	return is, marked, err
}

// openRegular opens a regular file for reading, and returns it with its state. It returns an error,
// and leaves nothing open, for any other kind of file. The caller closes the file.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	// without O_NONBLOCK, opening a named pipe would block
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", path)
	}
	if err != nil {
		_ = file.Close()
	}
	return file, info, err
}

// refresh updates the known tokens from the file. The arguments are the results of statMark. It
// reads the file, unless the mark shows that the file is the one that was read last. If the file
// could not be opened or read, it returns the error, and then no token is known.
func (t *tokens) refresh(is mark, marked bool, err error) error {
	if err != nil {
		t.isSettled, t.known, t.text = false, nil, nil
		return err
	}
	if marked && t.isSettled && t.known != nil && is == t.mark {
		return nil
	}
	now := t.now()
	if !marked || is != t.mark { // the file is new or has changed, or its mark cannot be trusted
		t.mark, t.markSince = is, now
	}
	// The mark was taken before this read. If the file changed in between, the next mark differs
	// and the file is read again.
	t.isSettled = marked && now.Sub(t.markSince) >= settleTime
	return t.read()
}

// read reads the file and replaces the known tokens, unless its text is the same as before. If that
// fails, it returns the error, and no token is known.
func (t *tokens) read() error {
	var text []byte
	file, _, err := openRegular(t.path)
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, httpapi.MaxTokens+1))
		_ = file.Close()
	}
	if err == nil && len(text) > httpapi.MaxTokens {
		err = fmt.Errorf("%q has more than %d bytes", t.path, httpapi.MaxTokens)
	}
	if err == nil && t.known != nil && bytes.Equal(text, t.text) {
		return nil
	}
	t.known, t.text = nil, text
	if err != nil {
		return err
	}
	// Some editors write a byte order mark at the beginning.
	read, err := httpapi.ReadTokens(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return fmt.Errorf("%q: %w", t.path, err)
	}
	t.known, t.lastFault = make(map[string]Holder, len(read.Tokens)), "" // the next error is a new one
	for _, one := range read.Tokens {
		t.known[one.SHA256] = Holder{one.Name, one.Role, one.Whom}
	}
	return nil
}
