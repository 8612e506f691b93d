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
	// ErrNoKey says that a holder does not have a key.
	ErrNoKey = errors.New("no such key")
	// ErrDestroyed is the ErrNoKey of a key that was destroyed, or would be: a holder takes it no
	// more.
	ErrDestroyed = fmt.Errorf("%w: it is destroyed", ErrNoKey)
	// ErrConflict says that a holder has another key for a segment.
	ErrConflict = errors.New("there is another key for this segment")
	// ErrInvalid says that a name or a number cannot be.
	ErrInvalid = errors.New("not what a holder is asked")
)

// Key encrypts the bytes of a segment: 32 random bytes. It prints as a word, so that none gets into
// a log.
type Key [32]byte

// String returns "key".
func (Key) String() string { return "key" }

// Format is [fmt.Formatter].
func (Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("key")) }

// MarshalText is [encoding.TextMarshaler]: in JSON, such as a line of a log, a key is a word, too.
func (Key) MarshalText() ([]byte, error) { return []byte("key"), nil }

// Segment says which part of a journal it is: the number counts within the term of whoever began
// it. Segments of higher terms are newer.
type Segment struct {
	Term   uint64 `json:"term"`   // of the claim under which it was begun
	Number uint64 `json:"number"` // from 1
}

// Compare returns -1 if s is older than another segment, 0 if they are the same, 1 if it is newer.
func (s Segment) Compare(other Segment) int {
	return cmp.Or(cmp.Compare(s.Term, other.Term), cmp.Compare(s.Number, other.Number))
}

// String returns both numbers with a dot between.
func (s Segment) String() string { return fmt.Sprintf("%d.%d", s.Term, s.Number) }

// ParseSegment reads what [Segment.String] writes, and nothing else.
func ParseSegment(text string) (s Segment, err error) {
	term, number, _ := strings.Cut(text, ".")
	s.Term, err = strconv.ParseUint(term, 10, 64)
	if err == nil {
		s.Number, err = strconv.ParseUint(number, 10, 64)
	}
	if err != nil || s.String() != text {
		return Segment{}, fmt.Errorf("%w: segment %q", ErrInvalid, text)
	}
	return s, nil
}

// Mark says how far somebody was told: under this term, everything up to this position.
type Mark struct {
	Term     uint64           // 0 if nobody was told anything
	Position journal.Position // where a group ends
}

// Compare returns -1 if m says less than another mark, 0 if they say the same, 1 if it says more. A
// mark of a higher term says more.
func (m Mark) Compare(other Mark) int {
	return cmp.Or(cmp.Compare(m.Term, other.Term), cmp.Compare(m.Position.Events, other.Position.Events))
}

// Seen is what a holder knows of a journal.
type Seen struct {
	Mark Mark   // the one that says most
	Term uint64 // the highest of which it has heard, by any call; 0 if it knows nothing
}

// Holder keeps the keys of journals, and marks, on a host. Its methods may be called by several
// goroutines at once. What they have done is durable when they return nil; any other error leaves
// open whether it was done, and each call may be repeated.
//
// A journal is named as [journal.Journal.Name] says: letters, a colon, 32 hexadecimal digits.
type Holder interface {
	// Name tells people which host it is.
	Name() string
	// Put keeps the key of a segment. ErrConflict: it has another one. ErrDestroyed: Keep has
	// destroyed it, or would have.
	Put(ctx context.Context, journal string, s Segment, k Key) error
	// Get returns the key of a segment. ErrNoKey: it does not have it; ErrDestroyed: not any more.
	Get(ctx context.Context, journal string, s Segment) (Key, error)
	// Keep destroys the keys of all segments below one, but those of the live ones, for good. One
	// that comes late is not taken any more. A call with a lower segment than an earlier one does
	// nothing.
	Keep(ctx context.Context, journal string, below Segment, live []Segment) error
	// Mark notes how far somebody was told, unless it knows of more. It outlives the process at
	// once; and the machine, if a second goes by between two calls, when the second one returns.
	Mark(ctx context.Context, journal string, m Mark) error
	// Seen returns what it knows of a journal.
	Seen(ctx context.Context, journal string) (Seen, error)
}

// CheckName says whether a journal can have a name, which becomes part of paths: else it is an
// ErrInvalid.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[a-z]{1,32}:[0-9a-f]{32}$`).MatchString(name) {
		return fmt.Errorf("%w: journal %.60q", ErrInvalid, name)
	}
	return nil
}
