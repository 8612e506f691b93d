package main

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// kind is a kind of call.
type kind string

const (
	releases kind = "release"
	reads    kind = "read"
)

const (
	question   = "vote"
	valueCount = 4 // number of values of the question
)

// stride is the distance from one object to the next. It is a prime, so that all objects have their
// turn before one is repeated, for any smaller number of objects. Consecutive objects are far apart
// in the ledger.
const stride = 40_503_007

// release is a call of a release. The n-th is the same in every process, and in load.lua.
type release struct {
	key, object, epsilon, truth string
}

// callAt returns the n-th call for a ledger with the given number of objects. Each requests an ε at
// which its object has no response yet.
func callAt(n, objects int) release {
	object := n % objects * stride % objects
	thousandths := n/objects + 1
	return release{
		key: fmt.Sprintf("order-%d", n), object: nameOf(object),
		epsilon: fmt.Sprintf("%d.%03d", thousandths/1000, thousandths%1000), truth: valueOf(object % valueCount),
	}
}

func nameOf(object int) string  { return fmt.Sprintf("person-%08d", object) }
func valueOf(number int) string { return fmt.Sprintf("value %d", number) }

// body returns the body of the call as an HTTP request.
func (r release) body() string {
	return fmt.Sprintf(`{"question":%q,"object":%q,"epsilon":%q,"truths":{%q:%q}}`, question, r.object, r.epsilon,
		r.object, r.truth)
}

// request returns the call as a request in the process.
func (r release) request() (api.ReleaseRequest, error) {
	epsilon, err := privacy.ParseEpsilon(r.epsilon)
	if err != nil {
		return api.ReleaseRequest{}, err
	}
	return api.ReleaseRequest{Key: r.key, Question: question, Object: r.object, Epsilon: epsilon,
		TrueValue: r.truth}, nil
}
