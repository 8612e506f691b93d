package model

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// Eps is an ε that a test writes.
func Eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	Must(t, err)
	return e
}

// Nano is an ε of so many nano-nats.
func Nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	e, err := privacy.EpsilonFromNano(n)
	Must(t, err)
	return e
}

// Boundless is the cap of those whom only a policy bounds, or nothing.
func Boundless() privacy.Epsilon { return privacy.MaxEpsilon() }

// Vote is the question that most tests ask.
func Vote() api.Question {
	return api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}
}

// Smoker is a question of two values.
func Smoker() api.Question { return api.Question{Name: "smoker", Values: []string{"yes", "no"}} }

// Define defines a question.
func Define(t testing.TB, l Book, q api.Question) {
	t.Helper()
	Must(t, l.DefineQuestion(t.Context(), "define "+q.Name, q))
}

// Enroll enrols objects in a question, each with the same cap.
func Enroll(t testing.TB, l Book, question, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d", question, objects[0], len(objects))
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: question, Objects: objects, Cap: Eps(t, limit)})
	Must(t, err)
}

// Voters defines the vote and enrols objects in it, each with the same cap.
func Voters(t testing.TB, l Book, limit string, objects ...string) Book {
	t.Helper()
	Define(t, l, Vote())
	Enroll(t, l, "vote", limit, objects...)
	return l
}

// VotersHouse is a closed ledger with voters in it.
func VotersHouse(t testing.TB, limit string, objects ...string) *House {
	t.Helper()
	h := NewHouse(t)
	Must(t, Voters(t, h.Open(t, ledger.Options{}), limit, objects...).Close())
	return h
}

// Crowd returns n names in order.
func Crowd(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("person-%05d", i)
	}
	return names
}

// SameTruth is a source with one value for all objects.
func SameTruth(value string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// ReleaseOf asks for an object's vote, which is yes.
func ReleaseOf(t testing.TB, key, object, epsilon string) api.ReleaseRequest {
	t.Helper()
	return api.ReleaseRequest{Key: key, Question: "vote", Object: object, Epsilon: Eps(t, epsilon), Truth: SameTruth("yes")}
}

// Release carries a request out.
func Release(t testing.TB, l Book, r api.ReleaseRequest) api.Response {
	t.Helper()
	response, err := l.Release(t.Context(), r)
	Must(t, err)
	return response
}

// Order asks for the votes of many objects, or of all.
func Order(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	return api.RaiseRequest{Key: key, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil, Truth: SameTruth("yes")}
}

// CarryOut carries a request out.
func CarryOut(t testing.TB, l Book, r api.RaiseRequest) api.RaiseResult {
	t.Helper()
	result, err := l.Raise(t.Context(), r)
	Must(t, err)
	return result
}

// Never is a source of true values that must not be asked.
func Never(t testing.TB) api.TruthFunc {
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		t.Errorf("asked for the truth of %q about %.3q", question, objects)
		return nil, errors.New("no truth for you")
	}
}

// Ballots is a source of truths: who is named votes yes, everybody else no.
func Ballots(yes ...string) api.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, object := range objects {
			values[i] = "no"
			for _, name := range yes {
				if name == object {
					values[i] = "yes"
				}
			}
		}
		return values, nil
	}
}

// Inquire asks a query about the votes of objects.
func Inquire(t testing.TB, key, query, epsilon string, truth api.TruthFunc, objects ...string) api.AnswerRequest {
	t.Helper()
	return api.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: Eps(t, epsilon), Objects: objects, Truth: truth}
}

// AnswerTo carries a request out.
func AnswerTo(t testing.TB, l Book, r api.AnswerRequest) api.AnswerResult {
	t.Helper()
	result, err := l.Answer(t.Context(), r)
	Must(t, err)
	return result
}

// ValueName is the name of a value, by its number.
func ValueName(v int) string { return fmt.Sprint("value ", v) }

// ValuesOf returns n values.
func ValuesOf(n int) []string {
	values := make([]string, n)
	for v := range values {
		values[v] = ValueName(v)
	}
	return values
}

// Home is a question in unary encoding.
func Home(values int) api.Question {
	return api.Question{Name: "home", Values: ValuesOf(values), Encoding: api.Unary}
}

// HomesOf asks for the homes of many objects, or of all.
func HomesOf(t testing.TB, key, epsilon string, objects ...string) api.RaiseRequest {
	t.Helper()
	r := Order(t, key, epsilon, objects...)
	r.Question, r.Truth = "home", SameTruth(ValueName(2))
	return r
}

// TheNoiseKey is the key of a name: of every name another one.
func TheNoiseKey(name string) []byte {
	key := sha256.Sum256([]byte("for tests, the key " + name))
	return key[:]
}

// NoiseKeys is a host with a key of every name.
func NoiseKeys(current string) api.NoiseKeys {
	return api.NoiseKeys{Current: current, Key: func(name string) ([]byte, error) { return TheNoiseKey(name), nil }}
}

// TruthKey is the truth key of a host.
func TruthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

// ListOf is a source that gives these values, whomever it is asked about.
func ListOf(values ...string) api.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}
