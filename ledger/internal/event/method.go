package event

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Method tells how a response came about.
type Method uint8

const (
	MethodRaise   Method = iota + 1 // above the current level, from the truth
	MethodDegrade                   // below all levels, from the lowest
	MethodInsert                    // between two levels, from both
	MethodFresh                     // an answer to a query drawn from the truths, whatever was answered before
	MethodResale                    // a recorded response sold again
)

func (m Method) String() string {
	names := [...]string{"", "raise", "degrade", "insert", "fresh", "resale"}
	if int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// fields describes how a response came about.
func (m *Method) fields(x wire.Codec) {
	x.U8((*uint8)(m))
	if d := x.Reads(); d != nil && (*m < MethodRaise || *m > MethodInsert) && *m != MethodResale {
		d.Fail("unknown method %d", *m)
	}
}

// ParseMethod returns the method of a response by its name, if it is one.
func ParseMethod(name string) (Method, bool) {
	for _, m := range []Method{MethodRaise, MethodDegrade, MethodInsert, MethodResale} {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// MethodAt returns how a response comes about that gets this place among the levels of a chain.
// With the last place it is raised, with the first degraded, else inserted.
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
