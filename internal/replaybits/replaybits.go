// Package replaybits makes samplers that draw from given bits, for tests that enumerate draws or repeat
// them. Nothing but tests imports it: who knows the bits of a draw knows the truth behind it.
package replaybits

import (
	"reflect"

	"github.com/sluicedp/sluice/internal/exact"
)

// Sampler returns a sampler, of package rrchain, rrchain/finite or mechanism, that draws from bits.
// Their public functions cannot set the bits of one. It panics for a type that is no sampler.
func Sampler[S any](bits *exact.Bits) *S {
	s := new(S)
	field := reflect.ValueOf(s).Elem().FieldByName("bits")
	*(**exact.Bits)(field.Addr().UnsafePointer()) = bits
	return s
}
