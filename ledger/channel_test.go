package ledger

import (
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

func TestChannel_EachEncoding_HasTheProbabilitiesOfTheDraw(t *testing.T) {
	e := math.Exp(0.5)
	direct, unary, finite := vote(), vote(), fixture.Party(t)
	direct.Encoding, unary.Encoding, finite.Encoding = "direct", "unary", "finite"
	for _, c := range []struct {
		question api.Question
		want     api.Channel
	}{
		{direct, api.Channel{Encoding: "direct", Values: 3, P: e / (e + 2), Q: 1 / (e + 2)}},
		{unary, api.Channel{Encoding: "unary", Values: 3, P: 0.5, Q: 1 / (e + 1)}},
		{finite, api.Channel{Encoding: "finite", Values: len(finite.Values)}},
	} {
		got := check.Value(c.question.Channel(eps(t, "0.5")))(t)
		if math.Abs(got.P-c.want.P) > 1e-15 || math.Abs(got.Q-c.want.Q) > 1e-15 || got.Encoding != c.want.Encoding || got.Values != c.want.Values {
			t.Errorf("%s: %+v, want %+v", c.want.Encoding, got, c.want)
		}
		wantErr(t, check.Err(c.question.Channel(privacy.Epsilon{})), api.ErrInvalid)
	}
	wantErr(t, check.Err(api.Question{Encoding: "direct"}.Channel(eps(t, "0.5"))), api.ErrInvalid)
	for _, epsilon := range []privacy.Epsilon{nano(t, 1), eps(t, "40"), privacy.MaxEpsilon()} {
		got := check.Value(direct.Channel(epsilon))(t)
		check.That(t, got.P > got.Q && got.P <= 1 && got.Q >= 0 && !(math.Abs(got.P+2*got.Q-1) > 1e-15),
			"ε=%s: %+v", epsilon, got)
	}
}

// TestDeliveries_OfASale_HaveItsNumberAndChannel reads what an estimate needs from the deliveries alone.
func TestDeliveries_OfASale_HaveItsNumberAndChannel(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "9", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "1", "ann", "bob"))
	sale := sell(t, l, purchase(t, "2", "acme", "0.5", "ann", "bob"))
	all := delivered(t, l, sale.Number)
	check.Need(t, len(all) == 2, "delivered %v", all)
	for _, d := range all {
		want := check.Value(questionsOf(t, l)[0].Channel(d.Epsilon))(t)
		check.That(t, d.Sale == sale.Number && d.Epsilon == eps(t, "0.5") && d.Channel == want && d.P != 0,
			"%+v, want the channel %+v", d, want)
	}
}
