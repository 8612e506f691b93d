package market

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// offer is one kind of terms on which people take part: a policy for each question, and a cap over both.
type offer struct {
	name, words string
	cap         privacy.Epsilon
	policy      policy.Policy
}

// sold tells whether anybody can buy on these terms.
func (o *offer) sold() bool { return o.policy.Terms() != nil }

// allOffers lists the kinds of terms. Prices are in cents, for one person.
func allOffers(c *calendar) ([]*offer, error) {
	texts := []struct{ name, cap, words, json string }{
		{"open", "3", "up to ε = 2: 40¢ at 0.5, 70¢ at 1, $1.20 at 2", `
			{"kind": "market", "max": "2", "price": [["0.5", 40], ["1", 70], ["2", 120]]}`},
		{"thrifty", "1.5", "ε = 0.5 or 1 only, never below 45¢: 45¢ at 0.5, 60¢ at 1", `
			{"kind": "market", "max": "1", "price": [["0.5", 30], ["1", 60]], "stride": "0.5", "floor": 45}`},
		{"patient", "2", "0.25 more for sale on days 6, 11, 16, 21 and 26: 60¢ per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "linear", "from": "0", "to": "1.5", "start": "DAY 1", "end": "DAY 31", "stride": "0.25"},
				{"kind": "market", "max": "1.5", "price": [["1.5", 90]]}]}`},
		{"one by one", "2", "each buyer unlocks 0.5 more, up to ε = 2: $1.00 per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "unlock", "total": "2", "orders": 4},
				{"kind": "market", "max": "2", "price": [["2", 200]]}]}`},
		{"wary", "2", "up to ε = 1, but never to Cobalt: 80¢ per unit of ε", `
			{"kind": "market", "max": "1", "price": [["1", 80]], "barred": ["Cobalt"]}`},
		{"later more", "2", "ε = 0.5, and up to 1 from day 15: 50¢ per unit of ε", `
			{"kind": "min", "of": [
				{"kind": "steps", "steps": [["DAY 1", "0.5"], ["DAY 15", "1"]]},
				{"kind": "market", "max": "1", "price": [["1", 50]]}]}`},
		{"donor", "1", "not for sale: ε = 0.25 on day 10 and 0.5 on day 20, for free", `
			{"kind": "steps", "steps": [["DAY 10", "0.25"], ["DAY 20", "0.5"]]}`},
	}
	var all []*offer
	for _, text := range texts {
		p, err := policy.Parse([]byte(withDates(text.json, c)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.name, err)
		}
		all = append(all, &offer{text.name, text.words, epsilon(text.cap), p})
	}
	return all, nil
}

// withDates puts dates for days.
func withDates(text string, c *calendar) string {
	for day := 1; day <= 31; day++ {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"DAY %d"`, day), c.midnight(day).Format(`"`+time.RFC3339+`"`))
	}
	return text
}

// drawOffers draws the terms of each person. The seed makes them the same in every run; they depend on
// nobody's answer, so that those who sell stand for all.
func drawOffers(all []*offer, people []string) map[string]*offer {
	random := rand.New(rand.NewPCG(1996, 8802))
	drawn := make(map[string]*offer, len(people))
	for _, person := range people {
		drawn[person] = all[random.IntN(len(all))]
	}
	return drawn
}

// on returns the people with some terms.
func (m *market) on(o *offer) (people []string) {
	for _, person := range m.people.People {
		if m.offerOf[person] == o {
			people = append(people, person)
		}
	}
	return people
}

// someone returns the first person of a region with the terms of that name.
func (m *market) someone(region, terms string) (string, error) {
	for _, person := range m.people.Members(region) {
		if m.offerOf[person].name == terms {
			return person, nil
		}
	}
	return "", fmt.Errorf("nobody in the %s has the terms %q: there are too few people", region, terms)
}

// enroll enrols everybody in both questions.
func (m *market) enroll(ctx context.Context) error {
	for _, question := range questions() {
		if err := m.ledger.DefineQuestion(ctx, "define "+question, api.Question{Name: question, Values: values()}); err != nil {
			return err
		}
		for _, o := range m.offers {
			_, err := m.ledger.Enroll(ctx, api.EnrollRequest{
				Key: "enroll " + question + " " + o.name, Question: question, Objects: m.on(o), Policy: o.policy, Cap: o.cap,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *market) printOffers() error {
	fmt.Fprintf(m.out, "TERMS   %d people answer two questions: \"insured\", do you have health insurance, and \"healthy\", is your\n", len(m.people.People))
	fmt.Fprintln(m.out, "health good. Each holds a budget for both together, and sells each answer on one of these terms.")
	table := m.table()
	fmt.Fprintln(table, left("terms")+"\tpeople\tbudget\t   for each question")
	for _, o := range m.offers {
		fmt.Fprintf(table, "%s\t%d\tε = %s\t   %s\n", left(o.name), len(m.on(o)), o.cap, o.words)
	}
	return table.Flush()
}
