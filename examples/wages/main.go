// Wages estimates a mean. In March 1988 the Current Population Survey asked 28,155 men in the United States
// for their wages, which reach from 50 to 18,777 dollars a week. Here a host lets them answer through a
// ledger. It first has to say where the range of wages shall end: a pilot among some of the men tells,
// without a look at the wages. Then each other wage is rounded to an end of the range, once, and that end
// is the truth of a chain of randomized responses that is raised from ε = 0.25 to 2.
//
// Run it from the top of the repository:
//
//	go run ./examples/wages
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/sluicedp/sluice/examples/internal/survey"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

func main() {
	data := flag.String("data", "testdata/cps1988_wages.csv", "the survey")
	every := flag.Int("every", 1, "take part of the survey only: every n-th person")
	flag.Parse()
	if err := run(os.Stdout, *data, *every); err != nil {
		fmt.Fprintln(os.Stderr, "wages:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, path string, every int) (err error) {
	all, err := survey.ReadWages(path, every)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "wages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "panel.db")
	if err := ledger.Create(file, "", ""); err != nil {
		return err
	}
	l, err := ledger.Open(file, ledger.Options{TruthKey: secret()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return newStudy(out, all, l).run(context.Background())
}

// secret returns a new key. A host keeps its keys; this one ends with its ledger.
func secret() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return key
}

// study is the host of the survey: it knows the wages.
type study struct {
	out    io.Writer
	ledger *ledger.Ledger
	wages  survey.Wages
	pilot  []string          // who is asked for the bracket of the wage
	panel  []string          // everybody else, who is asked for the wage
	key    []byte            // by which wages are rounded
	levels []privacy.Epsilon // rising
}

// newStudy puts every tenth person into the pilot.
func newStudy(out io.Writer, all survey.Wages, l *ledger.Ledger) *study {
	s := &study{
		out: out, ledger: l, wages: all, key: secret(),
		levels: []privacy.Epsilon{epsilon("0.25"), epsilon("0.5"), epsilon("1"), epsilon("2")},
	}
	for i, person := range all.People {
		if i%10 == 9 {
			s.pilot = append(s.pilot, person)
		} else {
			s.panel = append(s.panel, person)
		}
	}
	return s
}

// last returns the level that everybody is raised to in the end.
func (s *study) last() privacy.Epsilon { return s.levels[len(s.levels)-1] }

func (s *study) run(ctx context.Context) error {
	mean, _ := list(s.wages.Of(s.wages.People)).clipped(unclipped)
	fmt.Fprintf(s.out, "%d people have a mean wage of %.2f dollars a week. The host knows it, and the buyer does not.\n", len(s.wages.People), mean)
	guess, err := s.askPilot(ctx)
	if err != nil {
		return err
	}
	bound, err := s.chooseBound(guess)
	if err != nil {
		return err
	}
	wages, err := rrchain.NewRange(0, bound)
	if err != nil {
		return err
	}
	if err := s.askPanel(ctx, wages, guess); err != nil {
		return err
	}
	if err := s.printGroups(ctx, wages); err != nil {
		return err
	}
	return s.roundAnew(ctx, wages)
}

// ask enrols people in a question, each with a budget for it.
func (s *study) ask(ctx context.Context, q ledger.Question, people []string, budget privacy.Epsilon) error {
	if err := s.ledger.DefineQuestion(ctx, "define "+q.Name, q); err != nil {
		return err
	}
	_, err := s.ledger.Enroll(ctx, ledger.EnrollRequest{
		Key: "enroll " + q.Name, Question: q.Name, Objects: people, Policy: policy.Fixed(budget), Cap: budget,
	})
	return err
}

func (s *study) table() *tabwriter.Writer {
	return tabwriter.NewWriter(s.out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

// left pads the first column of a table, whose other columns are aligned to the right.
func left(text string) string { return fmt.Sprintf("%-14s", text) }

// epsilon reads a constant of this program.
func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}
