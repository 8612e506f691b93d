package market

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

const data = "../../../testdata/health_insurance_1996.csv"

// One month, with every tenth person, is enough for all checks. The long form takes everybody.
func TestMonth(t *testing.T) {
	var out bytes.Buffer
	m, b, err := run(&out, data, pace.Scale(10, 1))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log("\n" + out.String())
	for name, test := range map[string]func(*testing.T, *market, *books){
		"money": testMoney, "budgets": testBudgets, "returning buyer": testReturn, "release by time": testReleases,
		"terms": testTerms, "withdrawal": testWithdrawal, "subscriber": testSubscriber, "pool": testPool,
		"false books": testFalseBooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, m, b) })
	}
	t.Run("report", func(t *testing.T) { testReport(t, out.String()) })
}

// The estimates vary from run to run; everything else in the report does not.
func testReport(t *testing.T, report string) {
	for _, want := range []string{
		fmt.Sprintf(`TERMS   %d people answer two questions`, pace.Scale(880, 8802)),
		`day  2  Atlas buys "insured" at ε = 0\.5 everywhere: \d+ people, \$\d+\.\d\d\.\n`,
		`day  3  Beacon reserves "healthy" at ε = 1 in the west for three days`,
		`day  4  Cobalt wants .* refused:\n +\d+ not-for-sale, \d+ buyer-refused, \d+ chain-ceiling\. For example\n +object "\d+": chain-ceiling: ε=1 asked`,
		`day  5  Beacon pays, and gets`,
		`day  8  Cobalt reserves .* Person (\d+) has ε = 1\.5 left\.\n`,
		`day 10  Cobalt comes to pay too late.* has ε = 2\.5 left again\.\n`,
		`day 11  The quote has lapsed: .* A new one is kept: \d+ people`,
		`day 14  Person \d+ \(open\) withdraws`,
		`day 21  The first sweep after six days .* ε = 0\.25, 0\.5 now\.\n`,
		`24 Cobalt +insured +0\.7 +0 +\d+ +0 `, // no draw, hence no ε
		`26 Atlas +insured +1 +0 +0 +\d+ `,
		`ESTIMATES`, `midwest +healthy +\d+ +\d+\.\d % +-?\d+\.\d ± \d+\.\d % +– +\d+\.\d ± \d+\.\d %\n`,
		`the pool, each person's highest`, `INVOICES`, `STATEMENTS`, `BUDGETS`,
		`revenue is \$\d+\.\d\d: the same\.`, `came to the same earnings, payments and budgets`,
		`EVIDENCE`, `With one answer altered, the receipt does not verify:\n +no\. \d+, event \d+, object "\d+": `,
		`nothing left out up to event \d+\.\n`, `: 0 problems\.\n`, `rolled back: the checkpoint is of \d+ events, the ledger has \d+\n`,
		`is forgotten: no answer is left in the file\. .*\nthe audit finds 0 problems\.\n`,
	} {
		if !regexp.MustCompile(want).MatchString(report) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

func testMoney(t *testing.T, m *market, b *books) {
	earned, invoiced, paid := int64(0), int64(0), int64(0)
	for _, person := range b.people {
		earned += person.Earned
	}
	for _, buyer := range b.buyers {
		paid += buyer.Paid
		for _, one := range m.invoice(b, buyer.Buyer) {
			invoiced += one.difference
		}
	}
	if earned == 0 || invoiced != earned || paid != earned || b.stats.Revenue != earned {
		t.Errorf("earned %d, invoiced %d, paid %d, revenue %d", earned, invoiced, paid, b.stats.Revenue)
	}
	if len(b.buyers) != 3 {
		t.Errorf("buyers %v", b.buyers)
	}
}

func testBudgets(t *testing.T, m *market, b *books) {
	full := 0
	for _, person := range b.people {
		limit := m.offerOf[person.Object].cap
		if person.Cap != limit || limit.Less(person.Spent) {
			t.Errorf("person %s has spent %s of %s", person.Object, person.Spent, limit)
		}
		if !person.Held.IsZero() {
			t.Errorf("%s of person %s is still reserved", person.Held, person.Object)
		}
		if person.Spent == limit {
			full++
		}
	}
	if full == 0 {
		t.Error("no budget is spent: none was put to the test")
	}
}

// A buyer who comes back has paid, in both steps together, the price of the higher level.
func testReturn(t *testing.T, m *market, b *books) {
	paid := map[string]int64{}
	for _, sale := range b.sales {
		if sale.Buyer == atlas && sale.Question == insured {
			for _, one := range b.deliveries[sale.Number] {
				paid[one.Object] += one.Price
			}
		}
	}
	held := b.held(insured, atlas)
	if len(held) == 0 || len(held) != len(paid) {
		t.Fatalf("%d held, %d paid for", len(held), len(paid))
	}
	for person, one := range held {
		if price := m.offerOf[person].policy.Terms().Price(one.epsilon); paid[person] != price {
			t.Errorf("person %s (%s) at ε = %s: %d paid, the price is %d", person, m.offerOf[person].name, one.epsilon, paid[person], price)
		}
	}
}

// After the pause, the sweeps have left every level that time has released and the budget allows.
func testReleases(t *testing.T, m *market, b *books) {
	want := map[string][]string{"donor": {"0.25", "0.5"}}
	for _, person := range b.people {
		for _, chain := range person.Chains {
			var levels []string
			for _, level := range chain.Levels {
				levels = append(levels, level.Epsilon.String())
			}
			name := m.offerOf[person.Object].name
			for _, level := range want[name] {
				if !slices.Contains(levels, level) {
					t.Errorf("person %s (%s) has levels %v of %q", person.Object, name, levels, chain.Question)
				}
			}
			if name == "donor" && len(levels) != 2 {
				t.Errorf("donor %s has levels %v", person.Object, levels)
			}
		}
	}
}

// Nobody gets what the terms do not allow.
func testTerms(t *testing.T, m *market, b *books) {
	names := map[string]map[string]bool{}
	for _, question := range questions() {
		for _, buyer := range b.buyers {
			if names[buyer.Buyer] == nil {
				names[buyer.Buyer] = map[string]bool{}
			}
			for person := range b.held(question, buyer.Buyer) {
				names[buyer.Buyer][m.offerOf[person].name] = true
			}
		}
	}
	for buyer, none := range map[string][]string{atlas: {"donor"}, beacon: {"donor"}, cobalt: {"donor", "wary", "thrifty"}} {
		for _, o := range m.offers {
			if names[buyer][o.name] == slices.Contains(none, o.name) {
				t.Errorf("%s and people on the terms %q: %v", buyer, o.name, names[buyer][o.name])
			}
		}
	}
}

func testWithdrawal(t *testing.T, m *market, b *books) {
	for _, line := range b.subscriber.accounts[m.quitter].lines {
		if day := m.calendar.day(line.at); day > 14 {
			t.Errorf("an answer on day %d, after the withdrawal", day)
		}
	}
	if state := b.person(m.quitter); state.Earned == 0 || !state.Chains[0].Withdrawn || !state.Chains[1].Withdrawn {
		t.Errorf("state %+v", state)
	}
}

func testSubscriber(t *testing.T, _ *market, b *books) {
	if s := b.subscriber; s.last != b.stats.Events || s.revenue != b.stats.Revenue {
		t.Errorf("%d events of %d, revenue %d of %d", s.last, b.stats.Events, s.revenue, b.stats.Revenue)
	}
	for _, person := range b.people {
		if a := b.subscriber.accounts[person.Object]; a.earned != person.Earned || a.spent() != person.Spent {
			t.Errorf("person %s: earned %d of %d, spent %s of %s", person.Object, a.earned, person.Earned, a.spent(), person.Spent)
		}
	}
}

func testPool(t *testing.T, m *market, b *books) {
	p, err := m.newPool(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.both) == 0 || len(p.low) != len(p.both) || len(p.high) != len(p.both) {
		t.Fatalf("%d, %d and %d answers", len(p.low), len(p.high), len(p.both))
	}
	alone, err := p.high.share()
	if err != nil {
		t.Fatal(err)
	}
	pooled, err := p.both.share()
	if err != nil {
		t.Fatal(err)
	}
	if alone != pooled {
		t.Errorf("%s alone estimates %+v, the pool %+v", beacon, alone, pooled)
	}
	for w := 0.0; w <= 1; w += 0.05 {
		if p.averaged(w) < p.highVar {
			t.Errorf("at weight %v the pool's variance is %v, below %v", w, p.averaged(w), p.highVar)
		}
	}
}

// The checks that the host makes find books that were tampered with.
func testFalseBooks(t *testing.T, m *market, b *books) {
	top, _ := m.earners(b)
	i := slices.IndexFunc(b.people, func(s api.ObjectState) bool { return s.Object == top })
	sale := b.sales[0].Number
	for name, number := range map[string]*int64{
		"a seller's earnings": &b.people[i].Earned, "a payment": &b.buyers[0].Paid, "the revenue": &b.stats.Revenue,
		"an invoice": &b.sales[0].Price, "a delivery": &b.deliveries[sale][0].Price, "the subscriber": &b.subscriber.revenue,
	} {
		if err := b.check(); err != nil {
			t.Fatal(err)
		}
		*number++
		if b.check() == nil {
			t.Errorf("nobody notices that %s is off by a cent", name)
		}
		*number--
	}
}

// The variance of a mean of both answers, by all outcomes of the chain, is the one that the host
// prints, and no weight makes it smaller than that of the higher answer alone.
func TestPooledVariance(t *testing.T) {
	for _, levels := range [][2]string{{"0.7", "1"}, {"0.5", "2"}, {"0.1", "0.2"}} {
		p := pool{lowAt: epsilon(levels[0]), highAt: epsilon(levels[1])}
		var err error
		if p.lowVar, err = variance(p.lowAt, []int64{1, 0}); err != nil {
			t.Fatal(err)
		}
		if p.highVar, err = variance(p.highAt, []int64{1, 0}); err != nil {
			t.Fatal(err)
		}
		for w := 0.0; w <= 1; w += 0.125 {
			got, want := enumerate(t, p, w), p.averaged(w)
			if math.Abs(got-want) > 1e-9*want {
				t.Errorf("levels %v, weight %v: variance %v, by enumeration %v", levels, w, want, got)
			}
			if got < p.highVar*(1-1e-12) {
				t.Errorf("levels %v, weight %v: variance %v, below %v", levels, w, got, p.highVar)
			}
		}
	}
}

// enumerate computes the variance of w·low + (1−w)·high for one person whose truth is "yes".
func enumerate(t *testing.T, p pool, w float64) float64 {
	t.Helper()
	kernel, err := rrchain.NewKernel(2, p.lowAt, p.highAt)
	if err != nil {
		t.Fatal(err)
	}
	low, high := truthful(p.lowAt), truthful(p.highAt)
	mean, square := 0.0, 0.0
	for _, outcome := range []struct{ first, second, probability float64 }{
		{1, 1, low * kernel.PAA}, {1, 0, low * kernel.OneMinusPAA}, {0, 1, (1 - low) * kernel.PBA}, {0, 0, (1 - low) * kernel.PBB},
	} {
		estimate := w*(outcome.first-1+low)/(2*low-1) + (1-w)*(outcome.second-1+high)/(2*high-1)
		mean += outcome.probability * estimate
		square += outcome.probability * estimate * estimate
	}
	return square - mean*mean
}

// truthful is the probability of a true answer to a question of two values.
func truthful(at privacy.Epsilon) float64 { return 1 / (1 + math.Exp(-at.Float64())) }

func TestMissingData(t *testing.T) {
	if _, _, err := run(new(bytes.Buffer), "nowhere.csv", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestEveryIsChecked(t *testing.T) {
	for _, every := range []int{-1, 0, 100000} {
		if _, _, err := run(new(bytes.Buffer), data, every); err == nil {
			t.Errorf("every %d is accepted", every)
		}
	}
}
