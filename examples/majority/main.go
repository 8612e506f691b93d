// Majority answers panel queries about the survey before the Chilean plebiscite of 1988: which
// intention is the most common, by region and at three ε, and does one have a majority?
// Run it from the top of the repository: go run ./examples/majority
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

const question = "vote 1988"
const levels = "0.05 0.2 1" // rising, so that each answer is a new draw and charged

func main() {
	dir, err := os.MkdirTemp("", "majority")
	if err == nil {
		err = errors.Join(run(context.Background(), os.Stdout, filepath.Join(dir, "panel.db")), os.RemoveAll(dir))
	}
	kit.Exit(err)
}

// run enrols all people, and prints the answers.
func run(ctx context.Context, out io.Writer, file string) (err error) {
	chile, err := kit.ReadSurvey("testdata/chile_plebiscite_1988.csv")
	if err != nil {
		return err
	}
	if err := ledger.Create(ctx, file, ledger.CreateOptions{}); err != nil {
		return err
	}
	l, err := ledger.Open(ctx, file, ledger.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.DefineQuestion(ctx, "define", api.Question{Name: question, Values: kit.Votes()}); err != nil {
		return err
	}
	budget := privacy.MustEpsilon("2.55") // for the winners of the own region and of all, 1.25 each, and a majority
	r := api.EnrollRequest{Key: "enroll", Question: question, Objects: chile.People, Cap: budget}
	if _, err = l.Enroll(ctx, r); err != nil {
		return err
	}
	if err := printWinners(ctx, out, l, chile); err != nil {
		return err
	}
	return printPrivacy(ctx, out, l, chile)
}

// ask answers a query about a region, or about all people for "". Each of them is charged ε.
func ask(
	ctx context.Context, l *ledger.Ledger, chile kit.Survey, key, query, level, region string,
) (api.AnswerResult, error) {
	return l.Answer(ctx, api.AnswerRequest{
		Key: key, Question: question, Query: query, Epsilon: privacy.MustEpsilon(level),
		Objects: chile.Members(region), Truth: chile.Truth,
	})
}

// reveal computes from the real votes what a ledger never shows: the true answer, the number of
// votes that must change before it changes, and the probability of the true answer.
func reveal(chile kit.Survey, level, region string) (truth string, changes int64, sure float64, err error) {
	query, err := mechanism.ParseQuery("winner", kit.Votes())
	if err != nil {
		return "", 0, 0, err
	}
	place, err := query.Place(chile.Counts(region))
	if err != nil {
		return "", 0, 0, err
	}
	dp := graph.Privacy{Epsilon: privacy.MustEpsilon(level).Float64()}
	law, err := dp.RandomizedResponse(len(kit.Votes()))
	if err != nil {
		return "", 0, 0, err
	}
	law, err = dp.Law(law, int(place.Distance))
	if err != nil {
		return "", 0, 0, err
	}
	return kit.Votes()[place.Color()], place.Distance + 1, law[0], nil
}

// printWinners prints, for each region and for all, the true answer and the answers at three ε.
func printWinners(ctx context.Context, out io.Writer, l *ledger.Ledger, chile kit.Survey) error {
	fmt.Fprintln(out, "WINNER   Which intention is the commonest? The answers at three ε; a wrong one has an ✗. "+
		"\"Changes\" is how many votes\nmust change before the answer does, and \"sure\" how probable it was "+
		"to be true. A ledger shows neither.")
	answers := "ε = " + strings.ReplaceAll(levels, " ", "\tsure\tε = ") + "\tsure\t"
	rows := kit.HeadedTable(out, "region\tpeople\tcommonest\tchanges\t"+answers)
	for _, region := range append(chile.Regions(), "") {
		fmt.Fprintf(rows, "%s\t%d\t", kit.Left(cmp.Or(kit.RegionName(region), "ALL REGIONS")), chile.Size(region))
		for i, level := range strings.Fields(levels) {
			truth, changes, sure, err := reveal(chile, level, region)
			if err != nil {
				return err
			}
			result, err := ask(ctx, l, chile, "winner "+level+region, "winner", level, region)
			if err != nil {
				return err
			}
			if i == 0 {
				fmt.Fprintf(rows, "%s\t%d\t", word(truth), changes)
			}
			mark := map[bool]string{false: " ✗"}[result.Answer == truth]
			fmt.Fprintf(rows, "%s%s\t%s\t", word(result.Answer), mark, percent(sure))
		}
		fmt.Fprintln(rows)
	}
	return rows.Flush()
}

// printPrivacy requests a majority, repeats a query, and prints the ε that each person has spent.
func printPrivacy(ctx context.Context, out io.Writer, l *ledger.Ledger, chile kit.Survey) error {
	most, err := ask(ctx, l, chile, "majority", "majority:Y", "0.05", "")
	if err != nil {
		return err
	}
	again, err := ask(ctx, l, chile, "again", "winner", "0.2", "")
	if err != nil {
		return err
	}
	person, err := l.Object(ctx, chile.People[0])
	fmt.Fprintf(out, "\nMAJORITY   Do more than half of all people intend to vote for Pinochet? "+
		"At ε = %s the answer is %q.\n", most.Epsilon, most.Answer)
	fmt.Fprintf(out, "\nPRIVACY   Answers about many people add up, and charge all of them: each has spent ε = %s. "+
		"Asked again at\nε = %s, all people say %q, as before, and that costs ε = %s.\n",
		person.Spent, again.Epsilon, word(again.Answer), again.Charged)
	return err
}

// word returns a vote in one word.
func word(vote string) string { return strings.Fields(kit.VoteName(vote))[0] }

// percent formats a probability. A probability that would be rounded to 100 % is shown as >99 %.
func percent(p float64) string {
	return strings.Replace(fmt.Sprintf("%.0f %%", 100*p), "100", ">99", 1)
}
