package ledgerfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// head is the number of bytes of a file that are read to recognize it.
const head = 4096

// Recognize returns the kind of a file by its content. It follows symbolic links. A directory is a
// Journal or Keys if it has a file of one ([holds]). Other directories, pipes and devices are
// Unknown. The error is one of finding, opening or reading the file.
func Recognize(path string) (Kind, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Unknown, err
	case info.Mode()&fs.ModeSocket != 0:
		return Socket, nil
	case info.IsDir():
		return holds(path), nil
	case !info.Mode().IsRegular():
		return Unknown, nil
	}
	// O_NONBLOCK, because the file may have become a pipe since the call of Stat.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Unknown, err
	}
	defer func() { _ = file.Close() }()
	begin := make([]byte, head)
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Unknown, err
	}
	if isDatabase(file) {
		return Ledger, nil
	}
	return recognizeText(begin[:n]), nil
}

// isDatabase reports whether a file begins like one of bbolt. Its first two pages have the magic
// number after a page header. One of them may be damaged, so one is enough. The second page begins
// where the page size says, which depends on the system that created the file.
func isDatabase(file io.ReaderAt) bool {
	const magic, headerSize = 0xED0CDAED, 16
	// Where the first page begins, and the second one for each usual page size.
	for _, page := range []int64{0, 4 << 10, 8 << 10, 16 << 10, 64 << 10} {
		b := make([]byte, 4)
		if _, err := file.ReadAt(b, page+headerSize); err != nil {
			return false
		}
		if binary.LittleEndian.Uint32(b) == magic || binary.BigEndian.Uint32(b) == magic {
			return true
		}
	}
	return false
}

// recognizeText returns the kind of a file by its first bytes, at most [head] of them. A byte order
// mark, and white space before a known prefix, are ignored.
func recognizeText(begin []byte) Kind {
	begin = bytes.TrimPrefix(begin, []byte("\ufeff"))
	text := bytes.TrimLeftFunc(begin, unicode.IsSpace)
	for _, known := range []struct {
		prefix string
		kind   Kind
	}{
		{"PRIVATE+KEY+", SigningKey},
		{"sluice_", Token},
		{strings.TrimSpace(LockText), TokensLock},
		{"sluice journal ", Journal},
		{"sluice key ", Keys},
		{"sluice kept ", Keys},
		{"sluice mark ", Keys},
		{"sluice keys lock", Keys},
	} {
		if bytes.HasPrefix(text, []byte(known.prefix)) {
			return known.kind
		}
	}
	switch {
	case bytes.Contains(begin, []byte("-----BEGIN ")) && bytes.Contains(begin, []byte("PRIVATE KEY-----")),
		isSecret(begin):
		return SecretKey
	case isTokens(text):
		return Tokens
	}
	return Unknown
}

// LockText is the content of the lock of a token file, by which the lock is recognized.
const LockText = "sluice token lock\n"

// isSecret reports whether a file is a truth or noise key. Such a key is 32 random bytes, or a line
// of 32 to 2048 hexadecimal digits, an even number. 32 bytes of text do not count as random.
func isSecret(content []byte) bool {
	const size, least, most = 32, 32, 2048 // least and most are numbers of digits
	digits := strings.TrimRight(string(content), "\r\n")
	if strings.Trim(digits, "0123456789abcdefABCDEF") == "" {
		return len(digits) >= least && len(digits) <= most && len(digits)%2 == 0
	}
	return len(content) == size && !isText(content)
}

// isText reports whether content is UTF-8 without control characters other than white space.
func isText(content []byte) bool {
	isBinary := func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }
	return utf8.Valid(content) && !bytes.ContainsFunc(content, isBinary)
}

// isTokens reports whether a text begins like a token file: as JSON with an object whose first key
// is "tokens". The end may be missing.
func isTokens(text []byte) bool {
	in := json.NewDecoder(bytes.NewReader(text))
	for _, want := range []json.Token{json.Delim('{'), "tokens"} {
		if got, err := in.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}

// holds returns Journal or Keys if a directory has a file of that kind under a name of such files.
// Otherwise it returns Unknown, also if the directory cannot be read. It reads at most 1000 names.
func holds(path string) Kind {
	dir, err := os.Open(path)
	if err != nil {
		return Unknown
	}
	defer func() { _ = dir.Close() }()
	const most = 1000 // a journal has few segments
	names, _ := dir.Readdirnames(most)
	for _, name := range names {
		if !strings.HasSuffix(name, ".segment") && !slices.Contains([]string{"kept", "mark", "lock"}, name) {
			continue
		}
		at := filepath.Join(path, name)
		if info, err := os.Lstat(at); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if found, err := Recognize(at); err == nil && (found == Journal || found == Keys) {
			return found
		}
	}
	return Unknown
}
