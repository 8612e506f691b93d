package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// theSluice is a ledger of Sluice, as a host uses it.
type theSluice struct {
	l      *ledger.Ledger
	dir    string
	values []string
}

// openSluice creates a ledger with the question.
func openSluice(ctx context.Context, dir string) (contestant, error) {
	return openSluiceBy(ctx, dir, ledger.Options{})
}

func openSluiceBy(ctx context.Context, dir string, options ledger.Options) (contestant, error) {
	path := filepath.Join(dir, "ledger.db")
	if err := ledger.Create(ctx, path, ledger.CreateOptions{Currency: "USD"}); err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, path, options)
	if err != nil {
		return nil, err
	}
	s := &theSluice{l: l, dir: dir}
	for i := range valuesAsked {
		s.values = append(s.values, fmt.Sprint("value ", i))
	}
	if err := l.DefineQuestion(ctx, "define", api.Question{Name: "vote", Values: s.values}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

func (s *theSluice) close() error { return s.l.Close() }

// checkpoints returns the number of checkpoints that have begun. Each begins a segment of the
// journal, whose name is its number.
func (s *theSluice) checkpoints() (int, error) {
	segments, err := os.ReadDir(filepath.Join(s.dir, "ledger.db.journal"))
	newest := 0
	for _, one := range segments {
		name, _, _ := strings.Cut(one.Name(), ".")
		if number, err := strconv.Atoi(name); err == nil {
			newest = max(newest, number)
		}
	}
	return newest, err
}

func (s *theSluice) enroll(ctx context.Context, names []string, limit, ceiling privacy.Epsilon) error {
	_, err := s.l.Enroll(ctx, api.EnrollRequest{
		Key: "enroll", Question: "vote", Objects: names, Cap: limit, Policy: policy.Fixed(ceiling),
	})
	return err
}

func (s *theSluice) raise(ctx context.Context, key string, epsilon privacy.Epsilon) error {
	_, err := s.l.Raise(ctx, api.RaiseRequest{Key: key, Question: "vote", Epsilon: epsilon, All: true,
		Truth: s.truths})
	return err
}

func (s *theSluice) truths(_ context.Context, _ string, names []string) ([]string, error) {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = s.values[truthOf(name)]
	}
	return values, nil
}

func (s *theSluice) release(ctx context.Context, o order) error {
	_, err := s.l.Release(ctx, api.ReleaseRequest{
		Key: o.key, Question: "vote", Object: o.object, Epsilon: o.epsilon, TrueValue: s.values[o.truth],
	})
	return err
}

func (s *theSluice) read(ctx context.Context, name string) (levels int, err error) {
	state, err := s.l.Object(ctx, name)
	if err != nil {
		return 0, err
	}
	return len(state.Chains[0].Levels), nil
}

// size returns the size of the file with its journal, after the checkpoint that precedes a copy.
// Before that checkpoint, the commits of a small ledger are only in the journal.
func (s *theSluice) size(ctx context.Context) (written, compact int64, err error) {
	copied := filepath.Join(s.dir, "compact")
	defer os.Remove(copied)
	small, err := s.l.CompactTo(ctx, copied, nil)
	if err != nil {
		return 0, 0, err
	}
	written, err = bytesIn(filepath.Join(s.dir, "ledger.db"), filepath.Join(s.dir, "ledger.db.journal"))
	return written, small.Bytes, err
}

// bytesIn returns the total size of files, and of the files in directories. Missing files count as
// 0.
func bytesIn(paths ...string) (sum int64, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				sum += info.Size()
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return sum, nil
}
