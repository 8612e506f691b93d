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
	// MaxCheckpoint is the largest length of a signed checkpoint, in bytes. It suffices for
	// post-quantum signatures, of almost 7 kB each.
	MaxCheckpoint = 128 << 10
	// MaxCosigners is how many signatures a checkpoint may have besides the log's. The
	// specification of signed notes requires support for 16 signatures.
	MaxCosigners = 16
)

// ErrCheckpoint is returned if a signed checkpoint cannot be made, read or trusted. The text
// describes the fault.
var ErrCheckpoint = errs.ErrCheckpoint

// Checkpoint is the head of a log at one size, as defined by https://c2sp.org/tlog-checkpoint.
type Checkpoint struct {
	Origin string    // the name of the log, which is the name of its key
	Size   uint64    // number of leaves, at most MaxSize
	Root   tlog.Hash // of the tree with that many leaves
}

// Sign returns the checkpoint as a signed note (https://c2sp.org/signed-note). A note has the
// origin, the decimal size and the base64 root, a line each, then a blank line and the log's
// signature. The name of the signer must be the origin. [Read] accepts every note that Sign
// returns. So Sign returns [ErrCheckpoint] for an origin that is no name of a key, a size above
// [MaxSize], or a note above [MaxCheckpoint] bytes. It also wraps the error of the signer.
// Cosigners append their lines, in the order that Read requires.
func (c Checkpoint) Sign(signer note.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	// Parse the text before signing, because an origin with a newline would be read as something
	// else.
	same, err := parse(text)
	if err != nil {
		return nil, err
	}
	if same != c {
		return nil, invalid("the origin %s is not a single line", quote(c.Origin))
	}
	if signer.Name() != c.Origin {
		return nil, invalid("it must be signed by a key with the name of the origin, %s", quote(c.Origin))
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

// Cosigners are the keys that signed a checkpoint besides the log's key, in the order of the note.
// Each is a name and a hash, such as "witness.example+1a2b3c4d".
type Cosigners struct {
	Known   []string // their signatures were verified
	Unknown []string // their signatures were not verified, so they may be forged
}

// Open returns the checkpoint and its cosigners, if it is signed by a known key with the name of
// its origin. Cosignatures by unknown keys do not count. A wrong signature by any known key makes
// the whole note invalid (signed-note, section Signatures). Lines after the third are ignored. Open
// returns [ErrCheckpoint] for everything that [Read] refuses, and for wrong or missing signatures.
// The error's text names the keys that signed.
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
		err = invalid("look up the known keys: %w", err)
	case verified.Sigs[0].Name != c.Origin:
		err = invalid("no known key with the name of its origin, %s, signed it; known keys that did are %s",
			quote(c.Origin), keys(verified.Sigs))
	}
	if err != nil {
		return Checkpoint{}, Cosigners{}, err
	}
	return c, Cosigners{Known: keyIDs(verified.Sigs[1:]), Unknown: keyIDs(verified.UnverifiedSigs)}, nil
}

// Read returns the content of a signed checkpoint without verifying any signature. The content may
// be forged. Read is for callers that have no key, which must say so to their users. It accepts
// exactly the notes that [Open] would accept if every key were known and every signature valid.
//
// Read returns [ErrCheckpoint] for anything but a signed note of at most [MaxCheckpoint] bytes that
// begins with three lines of the form of [Checkpoint.Sign]. The first signature must be in the name
// of the origin, and no other may be. At most [MaxCosigners] follow, in ascending order of the
// names and hashes of their keys, so no key signs twice. So no part of a checkpoint has two valid
// forms. But cosignatures can be removed by others, and added for keys that the reader does not
// know.
func Read(signed []byte) (Checkpoint, error) {
	c, _, err := parseSigned(signed)
	return c, err
}

// parseSigned parses a signed note, as described at [Read]. It returns the checkpoint in its three
// lines, and the signatures that the note claims to have, which are not verified. It returns
// [ErrCheckpoint] for everything that Read refuses.
func parseSigned(signed []byte) (Checkpoint, []note.Signature, error) {
	if len(signed) > MaxCheckpoint {
		return Checkpoint{}, nil, invalid("it has %d bytes, at most %d are read", len(signed), MaxCheckpoint)
	}
	// Without any known key, this error is the only way to get the content of a well-formed note.
	_, err := note.Open(signed, note.VerifierList())
	unverified := (*note.UnverifiedNoteError)(nil)
	if !errors.As(err, &unverified) {
		return Checkpoint{}, nil, invalid("not a signed note: %s", whyNoNote(signed))
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

// checkSignatures returns [ErrCheckpoint] if the number, the order or the form of the signatures is
// not as described at [Read]. text is the part of the note signed before the blank line. The number
// of signatures is that of their lines, because the package note drops duplicates from claimed.
func (c Checkpoint) checkSignatures(claimed []note.Signature, text string, signed []byte) error {
	if claimed[0].Name != c.Origin {
		return invalid("the first signature is not in the name of its origin, %s, but by %s",
			quote(c.Origin), keys(claimed))
	}
	lines := bytes.Count(signed[len(text):], []byte("— "))
	if beside := lines - 1; beside > MaxCosigners {
		return invalid("%d signatures besides the log's; at most %d are read", beside, MaxCosigners)
	}
	for i, s := range claimed {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			// The package note does not check the last bits.
			return invalid("the signature by %s is not canonical base64: %w", key(s), err)
		}
		if i > 0 && s.Name == c.Origin {
			return invalid("signed twice in the name of its origin, by %s", keys(claimed))
		}
		if i > 1 && !isBefore(claimed[i-1], s) {
			return invalid("the signature by %s is after that by %s: cosignatures must be in the order of their keys, "+
				"each once", key(s), key(claimed[i-1]))
		}
	}
	if lines != len(claimed) {
		return invalid("a signature is repeated")
	}
	return nil
}

// isBefore reports whether a cosignature comes before another in the order of the names of their
// keys, and then of the hashes.
func isBefore(a, b note.Signature) bool {
	return a.Name < b.Name || a.Name == b.Name && a.Hash < b.Hash
}

// parse parses the text of a note: the lines origin, size and root, and possibly more, which it
// ignores. It returns [ErrCheckpoint] for any other text. Each of the three lines has only one
// valid form, so two texts without further lines never have the same meaning.
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

// invalid returns an [ErrCheckpoint] with a formatted reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCheckpoint}, args...)...)
}

// whyNoNote returns why bytes are no signed note. The package note does not report that, and damage
// by copying is common.
func whyNoNote(signed []byte) string {
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

// keys lists the keys of the first five signatures, and the number of further ones, for a message.
// A note can claim up to 100, and they may be forged.
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

// keyIDs returns the keys of some signatures, or nil if there are none.
func keyIDs(signatures []note.Signature) (ids []string) {
	for _, s := range signatures {
		ids = append(ids, keyID(s))
	}
	return ids
}

// keyID returns the key of a signature as NAME+HASH, with the hash in 8 hexadecimal digits. The
// encoded form of the key begins in the same way.
func keyID(s note.Signature) string { return fmt.Sprintf("%s+%08x", s.Name, s.Hash) }

// key returns the keyID of a signature, shortened and quoted for a message.
func key(s note.Signature) string {
	return strconv.Quote(fmt.Sprintf("%s+%08x", short(s.Name), s.Hash))
}

// quote prepares text from outside for a message: it shortens the text, and escapes control
// characters.
func quote(text string) string { return strconv.Quote(short(text)) }

// short limits a text to 200 bytes.
func short(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
