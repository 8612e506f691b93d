package keyholder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/journal"
)

// The errors of holders, for [errors.Is].
var (
	// ErrNoKey is returned if a holder does not have a key.
	ErrNoKey = errors.New("no such key")
	// ErrDestroyed is an ErrNoKey: the key was destroyed. A holder does not accept it again.
	ErrDestroyed = fmt.Errorf("%w: it was destroyed", ErrNoKey)

	errConflict = errors.New("the holder has another key for this segment")
	errInvalid  = errors.New("invalid request to a key holder") // an invalid name or number
)

// Key encrypts the bytes of a segment: 32 random bytes. It prints as the word "key", so that no log
// contains one.
type Key [32]byte

// String returns "key".
func (Key) String() string { return "key" }

// Format implements [fmt.Formatter]: it writes "key".
func (Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("key")) }

// MarshalText implements [encoding.TextMarshaler]: in JSON, such as a line of a log, a key is the
// word "key".
func (Key) MarshalText() ([]byte, error) { return []byte("key"), nil }

// Segment identifies a part of a journal that is encrypted under one key, by a term and a number
// within that term. Segments of higher terms are newer.
type Segment struct {
	Term   uint64 `json:"term"`   // of the claim under which it was begun
	Number uint64 `json:"number"` // from 1
}

// Compare returns -1 if s is older than another segment, 0 if they are the same, 1 if it is newer.
func (s Segment) Compare(other Segment) int {
	return cmp.Or(cmp.Compare(s.Term, other.Term), cmp.Compare(s.Number, other.Number))
}

// String returns the term and the number with a dot between them.
func (s Segment) String() string { return fmt.Sprintf("%d.%d", s.Term, s.Number) }

// parseSegment parses the result of [Segment.String]. It returns an errInvalid for any other text,
// also for one with the same numbers, such as "07.2".
func parseSegment(text string) (s Segment, err error) {
	term, number, _ := strings.Cut(text, ".")
	s.Term, err = strconv.ParseUint(term, 10, 64)
	if err == nil {
		s.Number, err = strconv.ParseUint(number, 10, 64)
	}
	if err != nil || s.String() != text {
		return Segment{}, fmt.Errorf("%w: segment %q", errInvalid, text)
	}
	return s, nil
}

// Mark records how far events were acknowledged: under Term, everything up to Position.
type Mark struct {
	Term     uint64           // 0 if nothing was acknowledged
	Position journal.Position // the end of a group
}

// Compare returns -1 if m is lower than another mark, 0 if they are equal, 1 if it is higher. A
// mark of a higher term is higher.
func (m Mark) Compare(other Mark) int {
	return cmp.Or(cmp.Compare(m.Term, other.Term), cmp.Compare(m.Position.Events, other.Position.Events))
}

// Holder stores the keys and marks of journals on a host. Several goroutines may call its methods
// at once. When a call returns nil, its change is durable; for marks, see Mark. After any other
// error it is uncertain whether the change was made. Each call may be repeated.
//
// The name of a journal ([journal.Journal.Name]) is up to 32 letters from a to z, a colon and 32
// hexadecimal digits. Other names, and segments with the number 0, are errors.
type Holder interface {
	// Name returns the name of the host, for people.
	Name() string
	// Put stores the key of a segment. It is an error if the holder has another key for it.
	// ErrDestroyed: Keep has destroyed the key, or would have.
	Put(ctx context.Context, journal string, s Segment, k Key) error
	// Get returns the key of a segment. ErrNoKey: the holder does not have it. ErrDestroyed: it was
	// destroyed.
	Get(ctx context.Context, journal string, s Segment) (Key, error)
	// Keep destroys the keys of all segments older than below, except the live ones, for good. Put
	// refuses them from then on. Keep does nothing if an earlier call had a higher below.
	Keep(ctx context.Context, journal string, below Segment, live []Segment) error
	// Mark records how far events were acknowledged, unless the holder has a higher mark. The mark
	// survives the end of the process at once. It survives a crash of the machine when a call with
	// a higher mark returns that comes at least a second later.
	Mark(ctx context.Context, journal string, m Mark) error
	// Seen returns the highest mark of a journal, and the highest term of any call. Both are zero
	// if there was none.
	Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error)
	// Close closes the holder; the stored keys and marks remain. A second Close does nothing.
	Close() error
}

// checkName returns an errInvalid if no journal can have the name. The check matters because the
// name becomes part of file paths.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z]{1,32}:[0-9a-f]{32}$`).MatchString(name) {
		return fmt.Errorf("%w: journal %.60q", errInvalid, name)
	}
	return nil
}
