package merkle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

const (
	// MaxCheckpoint is the largest length of a signed checkpoint, in bytes. It leaves room for
	// post-quantum signatures, of almost 7 kB each.
	MaxCheckpoint = 128 << 10
	// MostCosigners is how many signatures a checkpoint may have besides the log's. The
	// specification of signed notes asks for room for 16 signatures.
	MostCosigners = 16
)

// ErrCheckpoint says that a signed checkpoint cannot be made, read or trusted. The text says why.
var ErrCheckpoint = errs.ErrCheckpoint

// Checkpoint is the head of a log at one size, as https://c2sp.org/tlog-checkpoint has it.
type Checkpoint struct {
	Origin string    // the name of the log, which is the name of its key
	Size   uint64    // number of leaves, at most MaxSize
	Root   tlog.Hash // of the tree with that many leaves
}

// Sign returns the checkpoint as a signed note (https://c2sp.org/signed-note): the origin, the
// decimal size and the base64 root, a line each, then a blank line and the log's signature. The
// signer must have the origin as its name. Whatever Sign returns, [Read] reads back, so it returns
// [ErrCheckpoint] for an origin that is no name of a key, a size above [MaxSize], or a note above
// [MaxCheckpoint] bytes. The error of the signer is wrapped as well. Cosigners add their lines
// behind, in the order that Read asks for.
func (c Checkpoint) Sign(signer note.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	// Nothing is signed that would be read as something else: an origin with a newline could be.
	same, err := parse(text)
	if err != nil {
		return nil, err
	}
	if same != c {
		return nil, invalid("the origin %s is not a single line", quote(c.Origin))
	}
	if signer.Name() != c.Origin {
		return nil, invalid("to be trusted it must be signed by a key with the name of the origin, %s", quote(c.Origin))
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return nil, invalid("signing it failed: %w", err)
	}
	if _, err := Read(signed); err != nil {
		return nil, err
	}
	return signed, nil
}

// Cosigners are the keys that signed a checkpoint besides the log's, in its order, as their names
// and hashes: "witness.example+1a2b3c4d".
type Cosigners struct {
	Known   []string // their signatures fit
	Unknown []string // nobody looked at their signatures, which anybody can have added
}

// Open returns the checkpoint if it is signed by a known key that has the name of its origin, and
// who cosigned it. Cosignatures by keys that are not known do not count, but one by a known key
// that does not fit the text, whichever key that is, spoils the whole note (signed-note, section
// Signatures). Lines after the third are ignored. Open returns [ErrCheckpoint] for anything that
// [Read] refuses, and for signatures that are wrong or missing; the text names the keys that
// signed.
func Open(signed []byte, known note.Verifiers) (Checkpoint, Cosigners, error) {
	c, claimed, err := parseSigned(signed)
	if err != nil {
		return Checkpoint{}, Cosigners{}, err
	}
	verified, err := note.Open(signed, known)
	var unfit *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unfit):
		by := note.Signature{Name: unfit.Name, Hash: unfit.Hash}
		err = invalid("the signature by the known key %s does not fit the text: one of them was changed after signing",
			key(by))
	case errors.As(err, &unverified):
		err = invalid("not signed by any known key, but by %s", keys(claimed))
	case err != nil:
		err = invalid("looking up the known keys: %w", err)
	case verified.Sigs[0].Name != c.Origin:
		err = invalid("no known key with the name of its origin, %s, signed it; known keys that did are %s",
			quote(c.Origin), keys(verified.Sigs))
	}
	if err != nil {
		return Checkpoint{}, Cosigners{}, err
	}
	return c, Cosigners{Known: keyIDs(verified.Sigs[1:]), Unknown: keyIDs(verified.UnverifiedSigs)}, nil
}

// Read returns what a signed checkpoint says, and verifies no signature: anybody can have written
// it. It is for callers that have no key, and say so. It accepts exactly what [Open] would accept
// if every key were known and every signature fitted. It returns [ErrCheckpoint] for what is no
// signed note of at most [MaxCheckpoint] bytes, does not begin with three lines of the form that
// [Checkpoint.Sign] writes, or has other signatures than these: first one in the name of the
// origin, which no other has; behind it at most [MostCosigners], by rising name and hash of their
// keys, so no key twice. So nothing of a checkpoint can be written in two ways, but anybody can
// leave out cosignatures, or add some by keys that the reader does not know.
func Read(signed []byte) (Checkpoint, error) {
	c, _, err := parseSigned(signed)
	return c, err
}

// parseSigned reads the three lines, and the signatures that are claimed for them.
func parseSigned(signed []byte) (Checkpoint, []note.Signature, error) {
	if len(signed) > MaxCheckpoint {
		return Checkpoint{}, nil, invalid("it has %d bytes, at most %d are read", len(signed), MaxCheckpoint)
	}
	// Without any known key, this error is the only way to a note that is well-formed.
	_, err := note.Open(signed, note.VerifierList())
	unverified := (*note.UnverifiedNoteError)(nil)
	if !errors.As(err, &unverified) {
		return Checkpoint{}, nil, invalid("not a signed note: %s", fault(signed))
	}
	claimed := unverified.Note.UnverifiedSigs
	c, err := parse(unverified.Note.Text)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if err := c.checkSignatures(claimed, unverified.Note.Text, signed); err != nil {
		return Checkpoint{}, nil, err
	}
	return c, claimed, nil
}

// checkSignatures refuses signatures out of place. The package note has dropped lines that come
// again.
func (c Checkpoint) checkSignatures(claimed []note.Signature, text string, signed []byte) error {
	if claimed[0].Name != c.Origin {
		return invalid("not signed in the name of its origin, %s, in the first place, but by %s",
			quote(c.Origin), keys(claimed))
	}
	lines := bytes.Count(signed[len(text):], []byte("— "))
	if beside := lines - 1; beside > MostCosigners {
		return invalid("%d signatures besides the log's; at most %d are read", beside, MostCosigners)
	}
	for i, s := range claimed {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			// The package note does not look at the last bits.
			return invalid("the signature by %s is not spelled as usual: %w", key(s), err)
		}
		if i > 0 && s.Name == c.Origin {
			return invalid("signed twice in the name of its origin, by %s", keys(claimed))
		}
		if i > 1 && !isBefore(claimed[i-1], s) {
			return invalid("the signature by %s is behind that by %s: cosignatures come in the order of their keys, "+
				"each once", key(s), key(claimed[i-1]))
		}
	}
	if lines != len(claimed) {
		return invalid("a signature comes twice")
	}
	return nil
}

// isBefore reports whether a cosignature comes before another: by the name of its key, and the
// hash.
func isBefore(a, b note.Signature) bool {
	return a.Name < b.Name || a.Name == b.Name && a.Hash < b.Hash
}

// parse reads the text of a checkpoint. Its lines have one form only, so no two texts without
// further lines say the same.
func parse(text string) (Checkpoint, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 3 {
		return Checkpoint{}, invalid("its text has %d of the 3 lines that it needs: origin, size, root", len(lines))
	}
	if blank := slices.Index(lines, ""); blank >= 0 {
		return Checkpoint{}, invalid("line %d is empty", blank+1)
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && size > MaxSize {
		return Checkpoint{}, invalid("the size in line 2, %s, is above %d", quote(lines[1]), uint64(MaxSize))
	}
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, invalid("line 2, %s, is not a size: a decimal number without leading zeros",
			quote(lines[1]))
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil || root.String() != lines[2] { // ParseHash ignores the unused bits of the last digit
		return Checkpoint{}, invalid("line 3, %s, is not a root: %d bytes in standard base64",
			quote(lines[2]), tlog.HashSize)
	}
	return Checkpoint{lines[0], size, root}, nil
}

// invalid returns an [ErrCheckpoint] that says why.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCheckpoint}, args...)...)
}

// fault returns what keeps bytes from being a signed note. The package note does not say, and
// damage by copying is common.
func fault(signed []byte) string {
	_, signatures, blank := bytes.Cut(signed, []byte("\n\n"))
	switch {
	case len(signed) == 0:
		return "it is empty"
	case bytes.ContainsRune(signed, '\r'):
		return "its lines end with carriage returns; they must end with line feeds only"
	case !blank:
		return "no blank line separates the text from the signatures"
	case len(signatures) == 0:
		return "it has no signatures"
	case signatures[len(signatures)-1] != '\n':
		return "its last line does not end with a newline"
	}
	return "its bytes are not plain UTF-8 text, " +
		"or the lines after the last blank one are not up to 100 signatures like «— name base64»"
}

// keys names the keys of some signatures. There may be 100 of them, made up by anybody.
func keys(signatures []note.Signature) string {
	const most = 5
	var names []string
	for _, s := range signatures[:min(most, len(signatures))] {
		names = append(names, key(s))
	}
	if more := len(signatures) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// keyIDs returns the keys of some signatures; nil if there are none.
func keyIDs(signatures []note.Signature) (ids []string) {
	for _, s := range signatures {
		ids = append(ids, keyID(s))
	}
	return ids
}

// keyID writes the key of a signature as the beginning of its encoded form, by which people know
// it.
func keyID(s note.Signature) string { return fmt.Sprintf("%s+%08x", s.Name, s.Hash) }

// key is keyID for a message.
func key(s note.Signature) string {
	return strconv.Quote(fmt.Sprintf("%s+%08x", short(s.Name), s.Hash))
}

// quote makes text from outside fit for a message: short, and without what a terminal would obey.
func quote(text string) string { return strconv.Quote(short(text)) }

func short(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
