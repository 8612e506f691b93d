package model

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// Eps is an ε that a test writes.
func Eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return check.Eps(t, text)
}

// Nano is an ε of so many nano-nats.
func Nano(t testing.TB, n int64) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.EpsilonFromNano(n))(t)
}

// Boundless is the cap of those whom only a policy bounds, or nothing.
func Boundless() privacy.Epsilon { return privacy.MaxEpsilon() }

// Vote is the question that most tests ask.
func Vote() ledger.Question {
	return ledger.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}
}

// Smoker is a question of two values.
func Smoker() ledger.Question { return ledger.Question{Name: "smoker", Values: []string{"yes", "no"}} }

// Define defines a question.
func Define(t testing.TB, l Book, q ledger.Question) {
	t.Helper()
	check.Must(t, l.DefineQuestion(t.Context(), "define "+q.Name, q))
}

// Enroll enrols objects in a question, each with the same cap.
func Enroll(t testing.TB, l Book, question, limit string, objects ...string) {
	t.Helper()
	key := fmt.Sprintf("enrol in %.40s %.40q %d", question, objects[0], len(objects))
	_ = check.Value(l.Enroll(t.Context(), ledger.EnrollRequest{Key: key, Question: question, Objects: objects, Cap: Eps(t, limit)}))(t)
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
	check.Must(t, Voters(t, h.Open(t, ledger.Options{}), limit, objects...).Close())
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
func SameTruth(value string) ledger.TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{value}, len(objects)), nil
	}
}

// ReleaseOf asks for an object's vote, which is yes.
func ReleaseOf(t testing.TB, key, object, epsilon string) ledger.ReleaseRequest {
	t.Helper()
	return ledger.ReleaseRequest{Key: key, Question: "vote", Object: object, Epsilon: Eps(t, epsilon), Truth: SameTruth("yes")}
}

// Release carries a request out.
func Release(t testing.TB, l Book, r ledger.ReleaseRequest) ledger.Response {
	t.Helper()
	response := check.Value(l.Release(t.Context(), r))(t)
	return response
}

// Order asks for the votes of many objects, or of all.
func Order(t testing.TB, key, epsilon string, objects ...string) ledger.RaiseRequest {
	t.Helper()
	return ledger.RaiseRequest{Key: key, Question: "vote", Epsilon: Eps(t, epsilon), Objects: objects, All: objects == nil, Truth: SameTruth("yes")}
}

// CarryOut carries a request out.
func CarryOut(t testing.TB, l Book, r ledger.RaiseRequest) ledger.RaiseResult {
	t.Helper()
	result := check.Value(l.Raise(t.Context(), r))(t)
	return result
}

// Never is a source of true values that must not be asked.
func Never(t testing.TB) ledger.TruthFunc {
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		t.Errorf("asked for the truth of %q about %.3q", question, objects)
		return nil, errors.New("no truth for you")
	}
}

// Ballots is a source of truths: who is named votes yes, everybody else no.
func Ballots(yes ...string) ledger.TruthFunc {
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
func Inquire(t testing.TB, key, query, epsilon string, truth ledger.TruthFunc, objects ...string) ledger.AnswerRequest {
	t.Helper()
	return ledger.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: Eps(t, epsilon), Objects: objects, Truth: truth}
}

// AnswerTo carries a request out.
func AnswerTo(t testing.TB, l Book, r ledger.AnswerRequest) ledger.AnswerResult {
	t.Helper()
	result := check.Value(l.Answer(t.Context(), r))(t)
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
func Home(values int) ledger.Question {
	return ledger.Question{Name: "home", Values: ValuesOf(values), Encoding: ledger.Unary}
}

// HomesOf asks for the homes of many objects, or of all.
func HomesOf(t testing.TB, key, epsilon string, objects ...string) ledger.RaiseRequest {
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
func NoiseKeys(current string) ledger.NoiseKeys {
	return ledger.NoiseKeys{Current: current, Key: func(name string) ([]byte, error) { return TheNoiseKey(name), nil }}
}

// TruthKey is the truth key of a host.
func TruthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

// ListOf is a source that gives these values, whomever it is asked about.
func ListOf(values ...string) ledger.TruthFunc {
	return func(context.Context, string, []string) ([]string, error) { return values, nil }
}
