package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// All calls of Sluice are in this file. It uses only API that both checkouts of a comparison have.

// The questions of the ledger: of single releases, of bulk raises, and of enrolments.
const (
	single = "single"
	bulk   = "bulk"
	enrol  = "enrol"
)

// store is an open ledger.
type store struct {
	l      *ledger.Ledger
	people int
	asked  int // number of releases that were requested
	raised int // number of raises of all people
	joined int // number of enrolments
}

func create(ctx context.Context, path string, people int) (*store, error) {
	if err := ledger.Create(ctx, path, ledger.CreateOptions{}); err != nil {
		return nil, err
	}
	s, err := open(path, people, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{single, bulk, enrol} {
		question := api.Question{Name: name, Values: []string{"yes", "no", "unknown", "abstain"}}
		if err := s.l.DefineQuestion(ctx, "define "+name, question); err != nil {
			return nil, err
		}
	}
	for _, question := range []string{single, bulk} {
		if err := s.enroll(ctx, question, "person", people); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// open opens a ledger. memory is [ledger.Options.Memory].
func open(path string, people int, memory int64) (*store, error) {
	l, err := ledger.Open(context.Background(), path, ledger.Options{Memory: memory})
	return &store{l: l, people: people}, err
}

func (s *store) close() error { return s.l.Close() }

func name(prefix string, i int) string { return fmt.Sprintf("%s-%08d", prefix, i) }

// enroll enrolls objects whose names begin with a prefix.
func (s *store) enroll(ctx context.Context, question, prefix string, n int) error {
	names := make([]string, n)
	for i := range names {
		names[i] = name(prefix, i)
	}
	_, err := s.l.Enroll(ctx, api.EnrollRequest{
		Key: "enrol " + question + " " + prefix, Question: question, Objects: names,
		Cap: privacy.MaxEpsilon(), Policy: policy.Fixed(privacy.MaxEpsilon()),
	})
	return err
}

// release requests the n-th release. Consecutive releases are of objects from all over the ledger,
// and each is above all former levels of its object.
func (s *store) release(ctx context.Context, n int) error {
	const stride = 40_503_007 // a prime above the number of objects
	epsilon, err := privacy.EpsilonFromNano(int64(1+n/s.people) * 1_000_000)
	if err != nil {
		return err
	}
	_, err = s.l.Release(ctx, api.ReleaseRequest{
		Key: "release " + strconv.Itoa(n), Question: single, Object: name("person", n%s.people*stride%s.people),
		Epsilon: epsilon, TrueValue: "yes",
	})
	return err
}

// raise raises all objects by the same step.
func (s *store) raise(ctx context.Context) error {
	s.raised++
	epsilon, err := privacy.EpsilonFromNano(int64(s.raised) * 500_000_000)
	if err != nil {
		return err
	}
	truth := func(_ context.Context, _ string, objects []string) ([]string, error) {
		return slices.Repeat([]string{"yes"}, len(objects)), nil
	}
	_, err = s.l.Raise(ctx, api.RaiseRequest{
		Key: "raise " + strconv.Itoa(s.raised), Question: bulk, All: true, Epsilon: epsilon, Truth: truth,
	})
	return err
}

func (s *store) read(ctx context.Context, object int) error {
	_, err := s.l.Object(ctx, name("person", object))
	return err
}

// audit verifies the ledger, and returns the number of events.
func (s *store) audit(ctx context.Context) (events int, err error) {
	done, err := s.l.Verify(ctx, api.VerifyRequest{})
	if err == nil && done.Problems != 0 {
		err = fmt.Errorf("the audit found %d problems", done.Problems)
	}
	return int(done.Events), err
}
