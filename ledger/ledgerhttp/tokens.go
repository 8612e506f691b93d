package ledgerhttp

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/sluicedp/sluice/ledger"
)

// tokenPrefix begins every token, so that one is recognized where it should not be.
const tokenPrefix = "sluice_"

// maxTokens is more than any file of tokens has, in bytes.
const maxTokens = 4 << 20

// NewToken returns a new token: 256 random bits in text. Files hold its hash ([HashToken]); itself
// it is told once.
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashToken returns what a file of tokens holds of a token. A token has 256 random bits, so nobody
// finds one by its hash, and no salt or slow hash is needed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Token is what a file of tokens says of one.
type Token struct {
	Name   string `json:"name"`           // for people: each once
	Role   Role   `json:"role"`           // what whoever has it may do
	Whom   string `json:"whom,omitempty"` // the buyer, or the object, of roles that are of one
	SHA256 string `json:"sha256"`         // by [HashToken]
}

// TokenFile is a file of tokens, in JSON.
type TokenFile struct {
	Tokens []Token `json:"tokens"` // in any order
}

// ReadTokens reads a file of tokens. What is none, or could let in somebody by mistake, is an
// error: unknown roles, a role of somebody without a name, a name twice, a hash that is none.
func ReadTokens(text []byte) (TokenFile, error) {
	var file TokenFile
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return file, fmt.Errorf("a file of tokens: %w", err)
	}
	names, hashes := map[string]bool{}, map[string]bool{}
	for _, t := range file.Tokens {
		fault := t.fault()
		switch {
		case fault != nil:
		case names[t.Name]:
			fault = errors.New("the name is there twice")
		case hashes[t.SHA256]:
			fault = errors.New("the hash is there twice")
		}
		if fault != nil {
			return file, fmt.Errorf("a file of tokens: %q: %w", t.Name, fault)
		}
		names[t.Name], hashes[t.SHA256] = true, true
	}
	return file, nil
}

// fault returns what is wrong with a token by itself, or nil.
func (t Token) fault() error {
	hash, err := hex.DecodeString(t.SHA256)
	named := ledger.CheckName("token", t.Name)
	if t.Whom != "" {
		named = errors.Join(named, ledger.CheckName("buyer or object of a token", t.Whom))
	}
	switch {
	case named != nil:
		return named
	case !slices.Contains(Roles(), t.Role):
		return fmt.Errorf("there is no role %q; the roles are %q", t.Role, Roles())
	case t.Role.named() && t.Whom == "":
		return fmt.Errorf("the role %q is of somebody, and \"whom\" is missing", t.Role)
	case !Holder{t.Name, t.Role, t.Whom}.valid():
		return fmt.Errorf("the role %q is of nobody, and \"whom\" is %q", t.Role, t.Whom)
	case err != nil || len(hash) != sha256.Size || t.SHA256 != strings.ToLower(t.SHA256):
		return errors.New("not a SHA-256 in lower-case hexadecimal digits")
	}
	return nil
}

// Tokens is a [Gate] that knows tokens by a file. The file is opened again for each request, and
// read unless it is certainly as it was, so that what is added or taken away counts at once. While
// it cannot be read, nobody is admitted.
type Tokens struct {
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

// OpenTokens returns the gate of a file, which must be readable now. fault is called when it is not
// any more, from any goroutine; it may be nil.
func OpenTokens(path string, fault func(error)) (*Tokens, error) {
	if fault == nil {
		fault = func(error) {}
	}
	t := &Tokens{path: path, fault: fault, now: time.Now}
	return t, t.refresh(look(path))
}

// Admit implements [Gate].
func (t *Tokens) Admit(r *http.Request) (Holder, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return Holder{}, false
	}
	hash := HashToken(strings.TrimSpace(token))
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
func (t *Tokens) refresh(is mark, marked bool, err error) error {
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
func (t *Tokens) read() error {
	var text []byte
	file, _, err := openRegular(t.path)
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, maxTokens+1))
		_ = file.Close()
	}
	if err == nil && len(text) > maxTokens {
		err = fmt.Errorf("%q is too large", t.path)
	}
	if err == nil && t.known != nil && bytes.Equal(text, t.text) {
		return nil
	}
	t.known, t.text = nil, text
	if err != nil {
		return err
	}
	read, err := ReadTokens(bytes.TrimPrefix(text, []byte("\ufeff"))) // a byte order mark, which some editors write
	if err != nil {
		return fmt.Errorf("%q: %w", t.path, err)
	}
	t.known, t.said = make(map[string]Holder, len(read.Tokens)), ""
	for _, one := range read.Tokens {
		t.known[one.SHA256] = Holder{one.Name, one.Role, one.Whom}
	}
	return nil
}
