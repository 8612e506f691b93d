package event

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Method is how a response was made.
type Method uint8

const (
	MethodRaise   Method = iota + 1 // drawn from the true value, above the current level
	MethodDegrade                   // derived from the lowest level, below it
	MethodInsert                    // derived from two levels, between them
	MethodFresh                     // an answer drawn from the true values, independently of earlier answers
	MethodResale                    // a recorded response that is sold again
)

// String returns the name of the method, such as "raise".
func (m Method) String() string {
	names := [...]string{"", "raise", "degrade", "insert", "fresh", "resale"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// fields describes the method of a response. Decoding fails for an unknown method, and for
// [MethodFresh], which only answers to panel queries have.
func (m *Method) fields(x wire.Codec) {
	x.U8((*uint8)(m))
	if d := x.Reads(); d != nil && (*m < MethodRaise || *m > MethodInsert) && *m != MethodResale {
		d.Fail("unknown method %d", *m)
	}
}

// ParseMethod returns the method of a response by its name, and false for another name. It does not
// accept "fresh", which only answers to panel queries have.
func ParseMethod(name string) (Method, bool) {
	for _, m := range []Method{MethodRaise, MethodDegrade, MethodInsert, MethodResale} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// MethodAt returns the method for a new response of a chain with so many levels. place is the
// number of levels below the new one. The response is raised if it is above all levels, also in an
// empty chain. It is degraded if it is below all levels, and otherwise inserted.
func MethodAt(place, levels int) Method {
	switch place {
	case levels:
		return MethodRaise
	case 0:
		return MethodDegrade
	default:
		return MethodInsert
	}
}
