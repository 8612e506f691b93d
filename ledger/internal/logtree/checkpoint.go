package logtree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// MaxCheckpoint is the largest length of a signed checkpoint, in bytes. It leaves room for the 100 Ed25519
// signatures, of some 100 bytes, that the package note reads at most, but only for about 9 post-quantum
// ones, of almost 7 kB, where the specification of signed notes asks for 16.
const MaxCheckpoint = 64 << 10

// ErrCheckpoint says that a signed checkpoint cannot be made, read or trusted. The text says why.
var ErrCheckpoint = errors.New("invalid checkpoint")

// Checkpoint is the head of a log at one size, as https://c2sp.org/tlog-checkpoint has it.
type Checkpoint struct {
	Origin string    // the name of the log, which is the name of its key
	Size   uint64    // number of leaves, at most MaxSize
	Root   tlog.Hash // of the tree with that many leaves
}

// Sign returns the checkpoint as a signed note (https://c2sp.org/signed-note): the origin, the decimal size
// and the base64 root, a line each, then a blank line and the signatures in the order of the signers. One
// of the signers must have the origin as its name. Whatever Sign returns, [Read] reads back, so it
// returns [ErrCheckpoint] for an origin that is no name of a key, a size above [MaxSize], or a note above
// [MaxCheckpoint] bytes or 100 signatures. The error of a signer is wrapped as well.
func (c Checkpoint) Sign(signers ...note.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	// Nothing is signed that would be read as something else: an origin with a newline could be.
	same, err := parse(text)
	if err != nil {
		return nil, err
	}
	if same != c {
		return nil, fmt.Errorf("%w: the origin %s is not a single line", ErrCheckpoint, quote(c.Origin))
	}
	if !slices.ContainsFunc(signers, func(s note.Signer) bool { return s.Name() == c.Origin }) {
		return nil, fmt.Errorf("%w: to be trusted it must be signed by a key with the name of the origin, %s", ErrCheckpoint, quote(c.Origin))
	}
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		return nil, fmt.Errorf("%w: signing it failed: %w", ErrCheckpoint, err)
	}
	if _, err := Read(signed); err != nil {
		return nil, err
	}
	return signed, nil
}

// Open returns the checkpoint if it is signed by a known key that has the name of its origin. Signatures
// by keys that are not known are ignored, but one by a known key that does not fit the text, whichever key
// that is, spoils the whole note (signed-note, section Signatures). Lines after the third are ignored. Open
// returns [ErrCheckpoint] for anything that [Read] refuses, and for signatures that are wrong or missing;
// the text names the keys that signed.
func Open(signed []byte, known note.Verifiers) (Checkpoint, error) {
	c, claimed, err := parseSigned(signed)
	if err != nil {
		return Checkpoint{}, err
	}
	verified, err := note.Open(signed, known)
	if invalid := (*note.InvalidSignatureError)(nil); errors.As(err, &invalid) {
		return Checkpoint{}, fmt.Errorf("%w: the signature by the known key %s does not fit the text: one of them was changed after signing",
			ErrCheckpoint, key(invalid.Name, invalid.Hash))
	}
	if unverified := (*note.UnverifiedNoteError)(nil); errors.As(err, &unverified) {
		return Checkpoint{}, fmt.Errorf("%w: not signed by any known key, but by %s", ErrCheckpoint, keys(claimed))
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: looking up the known keys: %w", ErrCheckpoint, err)
	}
	if !signedBy(c.Origin, verified.Sigs) {
		return Checkpoint{}, fmt.Errorf("%w: no known key with the name of its origin, %s, signed it; known keys that did are %s",
			ErrCheckpoint, quote(c.Origin), keys(verified.Sigs))
	}
	return c, nil
}

// Read returns what a signed checkpoint says, and verifies no signature: anybody can have written it. It
// is for callers that have no key, and say so. It accepts exactly what [Open] would accept if every key
// were known and every signature fitted. It returns [ErrCheckpoint] for what is no signed note of at most
// [MaxCheckpoint] bytes, has no signature in the name of the origin, or does not begin with three lines
// of the form that [Checkpoint.Sign] writes.
func Read(signed []byte) (Checkpoint, error) {
	c, _, err := parseSigned(signed)
	return c, err
}

// parseSigned reads the three lines, and the signatures that are claimed for them.
func parseSigned(signed []byte) (Checkpoint, []note.Signature, error) {
	if len(signed) > MaxCheckpoint {
		return Checkpoint{}, nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrCheckpoint, len(signed), MaxCheckpoint)
	}
	// Without any known key, this error is the only way to a note that is well-formed.
	_, err := note.Open(signed, note.VerifierList())
	unverified := (*note.UnverifiedNoteError)(nil)
	if !errors.As(err, &unverified) {
		return Checkpoint{}, nil, fmt.Errorf("%w: not a signed note: %s", ErrCheckpoint, fault(signed))
	}
	claimed := unverified.Note.UnverifiedSigs
	c, err := parse(unverified.Note.Text)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if !signedBy(c.Origin, claimed) {
		return Checkpoint{}, nil, fmt.Errorf("%w: not signed in the name of its origin, %s, but by %s", ErrCheckpoint, quote(c.Origin), keys(claimed))
	}
	return c, claimed, nil
}

// parse reads the text of a checkpoint. Its lines have one form only, so no two texts without further
// lines say the same.
func parse(text string) (Checkpoint, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 3 {
		return Checkpoint{}, fmt.Errorf("%w: its text has %d of the 3 lines that it needs: origin, size, root", ErrCheckpoint, len(lines))
	}
	if blank := slices.Index(lines, ""); blank >= 0 {
		return Checkpoint{}, fmt.Errorf("%w: line %d is empty", ErrCheckpoint, blank+1)
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && size > MaxSize {
		return Checkpoint{}, fmt.Errorf("%w: the size in line 2, %s, is above %d", ErrCheckpoint, quote(lines[1]), uint64(MaxSize))
	}
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("%w: line 2, %s, is not a size: a decimal number without leading zeros", ErrCheckpoint, quote(lines[1]))
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil || root.String() != lines[2] { // ParseHash ignores the unused bits of the last digit
		return Checkpoint{}, fmt.Errorf("%w: line 3, %s, is not a root: %d bytes in standard base64", ErrCheckpoint, quote(lines[2]), tlog.HashSize)
	}
	return Checkpoint{lines[0], size, root}, nil
}

// fault tells what keeps bytes from being a signed note. The package note does not say, and damage by
// copying is common.
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
	return "its bytes are not plain UTF-8 text, or the lines after the last blank one are not up to 100 signatures like «— name base64»"
}

func signedBy(name string, signatures []note.Signature) bool {
	return slices.ContainsFunc(signatures, func(s note.Signature) bool { return s.Name == name })
}

// keys names the keys of some signatures. There may be 100 of them, made up by anybody.
func keys(signatures []note.Signature) string {
	const most = 5
	var names []string
	for _, s := range signatures[:min(most, len(signatures))] {
		names = append(names, key(s.Name, s.Hash))
	}
	if more := len(signatures) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// key writes a key as the beginning of its encoded form, by which people know it.
func key(name string, hash uint32) string {
	return strconv.Quote(fmt.Sprintf("%s+%08x", short(name), hash))
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
