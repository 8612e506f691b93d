package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/examples/internal/survey"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

const question = "vote 1988"

// winnerLevels are the ε at which each panel is asked for its winner. They rise, so that each
// answer is drawn anew and charged.
func winnerLevels() []privacy.Epsilon {
	return []privacy.Epsilon{epsilon("0.05"), epsilon("0.2"), epsilon("1")}
}

// majorityLevel is the ε at which all are asked for a majority.
func majorityLevel() privacy.Epsilon { return epsilon("0.05") }

// panel is the people of one region, or of all, with what only the host knows of them.
type panel struct {
	name   string
	people []string
	counts []int64 // of each vote
}

// lead returns by how many people the commonest vote is ahead of the second.
func (p panel) lead() int64 {
	sorted := slices.Sorted(slices.Values(p.counts))
	return sorted[len(sorted)-1] - sorted[len(sorted)-2]
}

// request is one question to one panel.
type request struct {
	panel   panel
	query   string
	epsilon privacy.Epsilon
}

// host knows the truth, and asks the ledger as a buyer would.
type host struct {
	out    io.Writer
	survey survey.Survey
	ledger *ledger.Ledger
	panels []panel
	// What was asked, and what was answered.
	asked    []request
	answered []string
}

// pollRegions enrols everybody of a survey, asks, and prints the answers beside the truth.
func pollRegions(out io.Writer, path string) error {
	chile, err := survey.Read(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "majority")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "panel.db")
	if err := ledger.Create(file, "", ""); err != nil {
		return err
	}
	l, err := ledger.Open(file, ledger.Options{})
	if err != nil {
		return err
	}
	defer l.Close()
	h := &host{out: out, survey: chile, ledger: l, panels: panelsOf(chile)}
	for _, step := range []func(context.Context) error{h.enroll, h.printWinners, h.printMajority, h.printPrivacy} {
		if err := step(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// panelsOf returns the regions and the whole, from the smallest lead to the largest.
func panelsOf(s survey.Survey) []panel {
	panels := []panel{{"ALL REGIONS", s.People, s.Counts("")}}
	for _, region := range s.Regions() {
		panels = append(panels, panel{survey.RegionName(region), s.Members(region), s.Counts(region)})
	}
	slices.SortStableFunc(panels, func(a, b panel) int { return cmp.Compare(a.lead(), b.lead()) })
	return panels
}

// whole returns the panel of everybody.
func (h *host) whole() panel {
	return h.panels[slices.IndexFunc(h.panels, func(p panel) bool { return len(p.people) == len(h.survey.People) })]
}

func (h *host) enroll(ctx context.Context) error {
	if err := h.ledger.DefineQuestion(ctx, "define", ledger.Question{Name: question, Values: survey.Votes()}); err != nil {
		return err
	}
	enrolled, err := h.ledger.Enroll(ctx, ledger.EnrollRequest{
		Key: "enroll", Question: question, Objects: h.survey.People, Cap: budget(),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(h.out, "%d people enrolled, each with a budget of ε = %s; %d more did not answer the survey.\n", enrolled.Enrolled, budget(), h.survey.Silent)
	return nil
}

// ask asks the ledger, and keeps the answer for printPrivacy.
func (h *host) ask(ctx context.Context, r request) (answer string, err error) {
	result, err := h.ledger.Answer(ctx, h.order(fmt.Sprintf("order %d", len(h.asked)+1), r))
	if err != nil {
		return "", err
	}
	if result.Charged != r.epsilon {
		return "", fmt.Errorf("%s at ε = %s was charged %s", r.query, r.epsilon, result.Charged)
	}
	h.asked, h.answered = append(h.asked, r), append(h.answered, result.Answer)
	return result.Answer, nil
}

func (h *host) order(key string, r request) ledger.AnswerRequest {
	return ledger.AnswerRequest{
		Key: key, Question: question, Query: r.query, Epsilon: r.epsilon, Objects: r.panel.people, Truth: h.survey.Truth,
	}
}

func (h *host) printWinners(ctx context.Context) error {
	fmt.Fprintln(h.out, "\nWINNER   Which intention is the commonest? The answers at three ε; a wrong one has an ✗.")
	table := newTable(h.out)
	fmt.Fprint(table, left("region")+"\tpeople\tcommonest\tlead\t")
	for _, level := range winnerLevels() {
		fmt.Fprintf(table, "ε = %s\tsure\t", level)
	}
	fmt.Fprintln(table)
	for _, p := range h.panels {
		known, err := reveal(request{p, "winner", winnerLevels()[0]})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t", left(p.name), len(p.people), word(known.truth), p.lead())
		for _, level := range winnerLevels() {
			if err := h.printCell(ctx, table, request{p, "winner", level}); err != nil {
				return err
			}
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return h.explain()
}

func (h *host) printCell(ctx context.Context, table io.Writer, r request) error {
	answer, err := h.ask(ctx, r)
	if err != nil {
		return err
	}
	known, err := reveal(r)
	if err != nil {
		return err
	}
	text := word(answer)
	if answer != known.truth {
		text += " ✗"
	}
	fmt.Fprintf(table, "%s\t%s\t", text, percent(known.sure))
	return nil
}

// hidden is what a ledger never shows.
type hidden struct {
	truth   string  // the true answer
	sure    float64 // the probability that it is given
	changes int64   // how many votes must change before the true answer does
}

// reveal computes it from the real votes.
func reveal(r request) (hidden, error) {
	query, err := mechanism.ParseQuery(r.query, survey.Votes())
	if err != nil {
		return hidden{}, err
	}
	answers, err := query.Answers(survey.Votes())
	if err != nil {
		return hidden{}, err
	}
	place, err := query.Place(r.panel.counts, mechanism.Substitution)
	if err != nil {
		return hidden{}, err
	}
	law, err := graph.DefaultLaw(len(answers), r.epsilon.Float64())
	if err != nil {
		return hidden{}, err
	}
	law, err = graph.Line(law, graph.Privacy{Epsilon: r.epsilon.Float64()}, int(place.Distance))
	if err != nil {
		return hidden{}, err
	}
	return hidden{answers[place.Color()], law[0], place.Distance + 1}, nil
}

// explain says what the table shows, by the panels with the smallest and the largest lead and by
// everybody.
func (h *host) explain() error {
	var changes []int64
	least, most, all := h.panels[0], h.panels[len(h.panels)-1], h.whole()
	for _, p := range []panel{least, most, all} {
		known, err := reveal(request{p, "winner", winnerLevels()[0]})
		if err != nil {
			return err
		}
		changes = append(changes, known.changes)
	}
	_, err := fmt.Fprintf(h.out, `"sure" is how probable it was that the answer would be true. It can be told here because this example knows
the votes; a ledger shows neither it nor the lead. The farther the votes are from deciding otherwise, the
surer is the answer at the same ε; how many people there are does not matter. The winner changes
when %d people change their votes (%s), %d (%s), or %d of all %d.
One person's vote stays hidden: by itself it is but one step toward another answer.
`, changes[0], least.name, changes[1], most.name, changes[2], len(all.people))
	return err
}

func (h *host) printMajority(ctx context.Context) error {
	r := request{h.whole(), "majority:Y", majorityLevel()}
	answer, err := h.ask(ctx, r)
	if err != nil {
		return err
	}
	known, err := reveal(r)
	if err != nil {
		return err
	}
	yes := h.survey.Counts("")[slices.Index(survey.Votes(), "Y")]
	_, err = fmt.Fprintf(h.out, `
MAJORITY   Do more than half of all people intend to vote for Pinochet?
The answer at ε = %s is %q. The truth is %q: %d of %d do. It was %s sure.
`, r.epsilon, answer, known.truth, yes, len(h.survey.People), percent(known.sure))
	return err
}

// word puts a vote in one word.
func word(vote string) string {
	first, _, _ := strings.Cut(survey.VoteName(vote), " ")
	return first
}

// epsilon reads a constant of this program.
func epsilon(text string) privacy.Epsilon {
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		panic(err)
	}
	return e
}
