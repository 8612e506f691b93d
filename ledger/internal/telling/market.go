package telling

import (
	"github.com/sluicedp/sluice/ledger/history"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// sale is what all events of a sale or reservation are told with.
type sale struct {
	number          uint64
	buyer, question string
	state.Sale
}

func saleOf(s *state.State, number uint64) (sale, error) {
	r, err := s.Sale(number)
	if err != nil {
		return sale{}, err
	}
	x := sale{number: number, Sale: r}
	x.buyer, x.question, err = Names(s, r)
	return x, err
}

// Names returns the names of a sale's buyer and question.
func Names(s *state.State, r state.Sale) (buyer, question string, err error) {
	b, err := s.Buyer(r.Buyer)
	if err != nil {
		return "", "", err
	}
	question, err = nameOf(s, r.Question)
	return b.Name, question, err
}

// ofMarket tells a change of the market; nil for all others.
func ofMarket(s *state.State, c event.Change) (history.Detail, error) {
	switch c := c.(type) {
	case *event.Reserved:
		return reserved(s, c)
	case *event.Held:
		return held(s, c)
	case *event.Cancelled:
		return cancelled(s, c)
	case *event.SaleMade:
		return saleMade(s, c)
	case *event.Sold:
		return sold(s, c)
	}
	return nil, nil
}

func reserved(s *state.State, c *event.Reserved) (history.Reserved, error) {
	x, err := saleOf(s, c.Sale)
	return history.Reserved{
		Question: x.question, Epsilon: x.Epsilon, Objects: c.Objects, Sale: x.number, Buyer: x.buyer, Price: int64(c.Price), Expires: c.Expires,
	}, err
}

func held(s *state.State, c *event.Held) (history.Held, error) {
	x, err := saleOf(s, c.Sale)
	return history.Held{Object: c.Object, Question: x.question, Epsilon: x.Epsilon, Sale: x.number, Buyer: x.buyer, Price: int64(c.Price)}, err
}

func cancelled(s *state.State, c *event.Cancelled) (history.Cancelled, error) {
	x, err := saleOf(s, c.Sale)
	return history.Cancelled{Question: x.question, Epsilon: x.Epsilon, Sale: x.number, Buyer: x.buyer}, err
}

func saleMade(s *state.State, c *event.SaleMade) (history.SaleMade, error) {
	x, err := saleOf(s, c.Sale)
	return history.SaleMade{Question: x.question, Epsilon: x.Epsilon, Objects: c.Objects, Sale: x.number, Buyer: x.buyer, Price: int64(c.Price)}, err
}

func sold(s *state.State, c *event.Sold) (history.Sold, error) {
	x, err := saleOf(s, c.Sale)
	if err != nil {
		return history.Sold{}, err
	}
	q, err := s.Question(x.Question)
	if err != nil {
		return history.Sold{}, err
	}
	response, err := Response(q, c.Object, x.Epsilon, c.Value)
	return x.sold(c.Object, response, c.Method.String(), c.Price), err
}

func (x sale) sold(object, response, method string, price uint64) history.Sold {
	return history.Sold{
		Object: object, Question: x.question, Epsilon: x.Epsilon, Response: response, Method: method,
		Sale: x.number, Buyer: x.buyer, Price: int64(price),
	}
}
