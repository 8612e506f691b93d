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

// tokens knows callers by a file of hashed tokens.
type tokens struct {
	path  string
	fault func(error)      // is told once of each state in which the file cannot be read
	now   func() time.Time // the clock

	mu      sync.Mutex
	text    []byte // as it was read last
	said    string // the fault that was told last
	known   map[string]Holder
	mark    mark      // of the file when it was read last
	first   time.Time // when it was first read with this mark
	settled bool      // whatever happens to the file changes its mark
}

// settling is how long a file has the same mark before that is believed. A file that changes twice
// within one tick of the clock of its disk has the same mark both times. No disk's clock ticks as
// rarely as that.
const settling = 10 * time.Second

// OpenTokens returns an [Options.Gate] that knows callers by a file of hashed tokens, which
// "ledgerctl token" writes. It returns the [Holder] of the bearer token of a request, and false if
// the token is not in the file.
//
// The file must be readable now. It is opened again for each request, and read unless it is
// certainly unchanged, so that a token that is added or removed counts at once. While it cannot be
// read, no caller is admitted, and fault is called, from any goroutine; it may be nil. The file is
// JSON, with the SHA-256 of each token in hexadecimal digits:
//
//	{"tokens": [{"name": "shop", "role": "buyer", "whom": "acme", "sha256": "…"}]}
func OpenTokens(path string, fault func(error)) (gate func(*http.Request) (Holder, bool), err error) {
	t, err := openTokens(path, fault)
	if err != nil {
		return nil, err
	}
	return t.admit, nil
}

func openTokens(path string, fault func(error)) (*tokens, error) {
	if fault == nil {
		fault = func(error) {}
	}
	t := &tokens{path: path, fault: fault, now: time.Now}
	return t, t.refresh(look(path))
}

// admit returns the holder of the bearer token of a request, and false if there is none in the file.
func (t *tokens) admit(r *http.Request) (Holder, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return Holder{}, false
	}
	hash := httpapi.HashToken(strings.TrimSpace(token))
	is, marked, err := look(t.path) // before the lock: no other request need wait for it
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.refresh(is, marked, err)
	if text := fmt.Sprint(err); err != nil && text != t.said {
		t.said = text
		t.fault(err)
	}
	// Which hash is looked up says nothing of any token.
	holder, known := t.known[hash]
	return holder, known
}

// look opens a file, closes it again, and returns its mark, and whether that can be relied on. It
// does not only ask about the name: a process that may not read the file any more must see that,
// and some network file systems only then fetch what has changed. It does not leave the file open:
// all requests may wait for the lock at once, and each would hold a descriptor.
func look(path string) (is mark, marked bool, err error) {
	file, info, err := openRegular(path)
	if err == nil {
		is, marked = markOf(info)
		err = file.Close()
	}
	return is, marked, err
}

// openRegular opens a file, which must be a regular one, to be read.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else a named pipe would wait
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

// refresh sees to it that those are known who are in the file, which was looked at a moment ago. No
// token is known if it could not be opened, or cannot be read.
func (t *tokens) refresh(is mark, marked bool, err error) error {
	if err != nil {
		t.settled, t.known, t.text = false, nil, nil
		return err
	}
	if marked && t.settled && t.known != nil && is == t.mark {
		return nil
	}
	now := t.now()
	if !marked || is != t.mark {
		t.mark, t.first = is, now
	}
	// The mark is older than what is read now: if the file has changed in between, the next mark is
	// another one.
	t.settled = marked && now.Sub(t.first) >= settling
	return t.read()
}

// read reads the file again. If that fails, no token is known.
func (t *tokens) read() error {
	var text []byte
	file, _, err := openRegular(t.path)
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, httpapi.MaxTokens+1))
		_ = file.Close()
	}
	if err == nil && len(text) > httpapi.MaxTokens {
		err = fmt.Errorf("%q is too large", t.path)
	}
	if err == nil && t.known != nil && bytes.Equal(text, t.text) {
		return nil
	}
	t.known, t.text = nil, text
	if err != nil {
		return err
	}
	// Some editors write a byte order mark.
	read, err := httpapi.ReadTokens(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return fmt.Errorf("%q: %w", t.path, err)
	}
	t.known, t.said = make(map[string]Holder, len(read.Tokens)), ""
	for _, one := range read.Tokens {
		t.known[one.SHA256] = Holder{one.Name, one.Role, one.Whom}
	}
	return nil
}
