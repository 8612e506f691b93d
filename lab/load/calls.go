package main

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// kind is what is called.
type kind string

const (
	releases kind = "release"
	reads    kind = "read"
)

const (
	question   = "vote"
	valueCount = 4 // of the question
)

// stride leads from one object to the next. It is a prime, so that all objects have their turn
// before one is asked again, however many there are below it; and they come from all over the
// ledger.
const stride = 40_503_007

// release is a call. The n-th is the same in every process: load.lua makes the same ones.
type release struct {
	key, object, epsilon, truth string
}

// callAt returns the n-th call of a ledger with so many objects. Each asks for an ε that its object
// has no response at yet.
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

// body is the call as a request has it.
func (r release) body() string {
	return fmt.Sprintf(`{"question":%q,"object":%q,"epsilon":%q,"truths":{%q:%q}}`, question, r.object, r.epsilon,
		r.object, r.truth)
}

// request is the call as a process has it.
func (r release) request() (api.ReleaseRequest, error) {
	epsilon, err := privacy.ParseEpsilon(r.epsilon)
	if err != nil {
		return api.ReleaseRequest{}, err
	}
	return api.ReleaseRequest{Key: r.key, Question: question, Object: r.object, Epsilon: epsilon,
		TrueValue: r.truth}, nil
}
