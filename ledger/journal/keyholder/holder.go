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
	ErrDestroyed = fmt.Errorf("%w: it is destroyed", ErrNoKey)

	errConflict = errors.New("there is another key for this segment")
	errInvalid  = errors.New("not what a holder is asked") // a name or a number that cannot be
)

// Key is the key under which the bytes of a segment are encrypted: 32 random bytes. It prints as the
// word "key", so that none gets into a log.
type Key [32]byte

// String returns "key".
func (Key) String() string { return "key" }

// Format is [fmt.Formatter].
func (Key) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("key")) }

// MarshalText is [encoding.TextMarshaler]: in JSON, such as a line of a log, a key is a word, too.
func (Key) MarshalText() ([]byte, error) { return []byte("key"), nil }

// Segment is a part of a journal that is encrypted under one key. It is numbered within the term of
// the claim under which it was begun. Segments of higher terms are newer.
type Segment struct {
	Term   uint64 `json:"term"`   // of the claim under which it was begun
	Number uint64 `json:"number"` // from 1
}

// Compare returns -1 if s is older than another segment, 0 if they are the same, 1 if it is newer.
func (s Segment) Compare(other Segment) int {
	return cmp.Or(cmp.Compare(s.Term, other.Term), cmp.Compare(s.Number, other.Number))
}

// String returns both numbers with a dot between them.
func (s Segment) String() string { return fmt.Sprintf("%d.%d", s.Term, s.Number) }

// parseSegment reads what [Segment.String] returns, and nothing else.
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

// Mark records how far events were acknowledged: under this term, everything up to this position.
type Mark struct {
	Term     uint64           // 0 if nothing was acknowledged
	Position journal.Position // where a group ends
}

// Compare returns -1 if m is lower than another mark, 0 if they are equal, 1 if it is higher. A mark
// of a higher term is higher.
func (m Mark) Compare(other Mark) int {
	return cmp.Or(cmp.Compare(m.Term, other.Term), cmp.Compare(m.Position.Events, other.Position.Events))
}

// Holder keeps the keys of journals, and marks, on a host. Its methods may be called by several
// goroutines at once. What they have done is durable when they return nil. After any other error it
// is uncertain whether it was done. Each call may be repeated.
//
// The name of a journal ([journal.Journal.Name]) is up to 32 letters from a to z, a colon and 32
// hexadecimal digits. Other names, and segment numbers of 0, are errors.
type Holder interface {
	// Name returns which host it is, for people.
	Name() string
	// Put stores the key of a segment. It is an error if there is another one. ErrDestroyed: Keep
	// has destroyed it, or would have.
	Put(ctx context.Context, journal string, s Segment, k Key) error
	// Get returns the key of a segment. ErrNoKey: it does not have it; ErrDestroyed: not any more.
	Get(ctx context.Context, journal string, s Segment) (Key, error)
	// Keep destroys the keys of all segments below one, except those of the live ones, for good.
	// Put refuses them from then on. A call with a lower segment than an earlier one does nothing.
	Keep(ctx context.Context, journal string, below Segment, live []Segment) error
	// Mark records how far events were acknowledged, unless it has a higher mark. The mark survives
	// the process at once. It survives the machine when a call returns that comes a second later.
	Mark(ctx context.Context, journal string, m Mark) error
	// Seen returns the highest mark of a journal, and the highest term of any call; 0 if there was
	// none.
	Seen(ctx context.Context, journal string) (highest Mark, term uint64, err error)
	// Close closes the holder; what it keeps stays. A second Close does nothing.
	Close() error
}

// checkName returns an errInvalid if no journal can have a name. It becomes part of paths.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z]{1,32}:[0-9a-f]{32}$`).MatchString(name) {
		return fmt.Errorf("%w: journal %.60q", errInvalid, name)
	}
	return nil
}
