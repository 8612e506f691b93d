package model

import (
	"math/rand/v2"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
)

// Moves are data, so that a game can be printed, and played again without some of them. What can only be
// known when a move is made, such as the number of a reservation, they say in relation to the paper.

type move interface{ play(g *game) }

type (
	movePass       struct{ By time.Duration }
	moveLeap       struct{ Confirmed bool } // of the clock, further than anybody believes
	moveReopen     struct{ How opening }
	moveCheckpoint struct{} // keeps one
	moveCompact    struct{}
	moveCopy       struct{ Compact bool } // page by page, or record by record
	moveRestore    struct {
		Copy   int // counted from the latest
		How    opening
		Beside bool // tries it first while the other one is open
	}
	moveDefine struct {
		Other bool // with other values
		As    api.Encoding
	}
	moveWithdraw struct{ Object string }
	moveForget   struct{ Object string }
	moveEpoch    struct{ Question, Object string }
	moveReturn   struct{ Question, Object string } // under its former policy
	moveCancel   struct{ Deal int }                // counted from the latest
	moveAgain    struct {
		Request, Change int // which one, counted from the latest; what to change in it, if that is there
	}
	moveEnroll struct {
		Question string
		Objects  []string
		Rule     int
		Other    int // of those with odd names, unless it is 0
		Cap      int64
		Partial  bool
	}
	moveTerms struct {
		Question string
		Objects  []string
		Rule     int   // of allRules, from 1; 0 leaves it as it is
		Cap      int64 // likewise
		Consent  string
		Partial  bool
	}
	moveReconcile struct {
		Rows     []row
		Withdraw bool
		Expected bool // the host says how many are gone
		Dry      bool
	}
	moveRaise struct {
		Question string
		Objects  []string // nil for all
		Epsilon  int64
		Partial  bool
		Host     host
	}
	moveRelease struct {
		Question, Object string
		Epsilon          int64
		Host             host
	}
	moveAdvance struct {
		Question string
		Host     host
	}
	moveOrder struct {
		Buyer, Question string
		Objects         []string // nil for all
		Epsilon         int64
	}
	moveQuote struct{ Order moveOrder }
	moveSell  struct {
		Order   moveOrder
		Partial bool
		Quoted  quoted
		Most    atMost
		Host    host
	}
	moveReserve struct {
		Order   moveOrder
		For     time.Duration
		Partial bool
		Quoted  quoted
		Most    atMost
	}
	moveCommit struct {
		Deal    int // counted from the latest
		Partial bool
		Host    host
	}
	moveAnswer struct {
		Question, Query string
		Objects         []string // nil for all
		Epsilon         int64
		Partial         bool
		Host            host
		AcceptLoss      bool
	}
	moveEstimate struct {
		Question string
		Epsilon  int64
		But      string // leaves one object out
	}
)

// row is one of the host's table.
type row struct {
	Question, Object string
	Rule             int // of allRules
	Cap              int64
	Consent          string
}

// quoted says by which quote an order is bound.
type quoted string

const (
	unquoted   quoted = ""
	freshQuote quoted = "fresh" // one got just before
	staleQuote quoted = "stale" // the last one somebody got
)

// most says how much an order may cost.
type atMost string

const (
	anything atMost = ""
	exactly  atMost = "exactly"
	oneLess  atMost = "one less"
)

// player makes the moves of one game up.
type player struct {
	*rand.Rand
	rules  []int
	caps   []int64
	shares []int // of the kinds of moves
	truth  truthUse
	noises []noiseUse
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// mechanical is how many games go without one whose first question has a mechanism of its own: to read it takes time.
const mechanical = 80

// questions are those that the game of a seed begins with. Their encodings are told, or left to the ledger.
func questions(seed uint64) []api.Question {
	r := rand.New(rand.NewPCG(seed, 2))
	first, second := Vote(), Smoker()
	switch {
	case seed%mechanical == 3:
		first.Mechanism = mechanisms()[len(first.Values)]
	case seed%3 == 1:
		first.Encoding = api.Unary
	}
	if seed%3 != 0 && first.Mechanism == nil {
		first.Values = append(first.Values, Crowd(r.IntN(28))...)
	}
	second.Encoding = pick(r, api.Direct, api.Unary)
	return []api.Question{first, second}
}

func people() []string { return []string{"ann", "bob", "cid", "dot", "mute"} }

// newMoves makes up the game of a seed. Few policies meet in one game, and some kinds of moves are its
// favourites and others do not occur, so that what needs several of a kind happens.
func newMoves(seed uint64, moves int) []move {
	p := &player{Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 2 {
		p.rules = append(p.rules, p.IntN(len(allRules())), firstMarket+p.IntN(len(allRules())-firstMarket))
		p.caps = append(p.caps, pick(p.Rand, Boundless().Nano(), milli(300), milli(1000), milli(1300)+1))
	}
	p.truth = pick(p.Rand, truthAsAtFirst, truthAsAtFirst, truthGiven)
	p.noises = pick(p.Rand, []noiseUse{noNoise}, []noiseUse{"2025"}, []noiseUse{"2025", "2026"}, []noiseUse{"2025", "2026", "2026", pastNoise})
	for _, k := range p.kinds() {
		p.shares = append(p.shares, k.share*pick(p.Rand, 0, 1, 1, 1, 2, 6))
	}
	game := []move{
		moveEnroll{Question: "vote", Objects: people(), Rule: p.rules[1], Cap: p.caps[0]},
		moveEnroll{Question: "smoker", Objects: p.names(), Rule: pick(p.Rand, p.rules...)},
	}
	if !p.yes(2) {
		game = append([]move{moveReopen{p.opening(false)}}, game...)
	}
	for len(game) < moves {
		game = append(game, p.some()...)
	}
	return game
}

// some makes up a move, or a few that belong together: a spell in which much is refused, or what happens, is lost, and
// happens again.
func (p *player) some() []move {
	if p.yes(40) {
		lost := p.several()
		again := append([]move{moveCopy{p.yes(2)}}, lost...)
		return append(append(again, moveRestore{0, p.opening(false), false}), lost...)
	}
	one := p.move()
	if how, opens := openingOf(one); opens && how.hinders() {
		return append(append([]move{one}, p.several()...), moveReopen{p.opening(false)})
	}
	return []move{one}
}

func (p *player) several() (moves []move) {
	for range 1 + p.IntN(6) {
		moves = append(moves, p.move())
	}
	return moves
}

// openingOf returns how a move opens the ledger, if it does.
func openingOf(one move) (how opening, opens bool) {
	switch one := one.(type) {
	case moveReopen:
		return one.How, true
	case moveRestore:
		return one.How, true
	}
	return opening{}, false
}

// ofTheHost tells whether a move is none of the ledger's requests, or changes nothing of what it holds.
func ofTheHost(one move) bool {
	switch one.(type) {
	case movePass, moveLeap, moveReopen, moveRestore, moveCopy, moveCompact, moveCheckpoint:
		return true
	}
	return false
}

// opening makes up how the ledger is opened. What hinders most requests is kept for a short while.
func (p *player) opening(hindered bool) opening {
	o := opening{Truth: p.truth, Noise: pick(p.Rand, p.noises...), Signing: pick(p.Rand, signed, signed, unsigned, publishing), Trusting: p.yes(2), Wrong: p.yes(8)}
	if !hindered {
		return o
	}
	o.ReadOnly = p.yes(3)
	if p.yes(4) {
		o.Truth = pick(p.Rand, truthGiven, truthKept)
	}
	if p.yes(4) {
		o.Noise = pick(p.Rand, noNoise, pastNoise)
	}
	if p.yes(4) {
		o.Lost = pick(p.Rand, "2025", "2026")
	}
	return o
}

// encoding is one for a question that is defined late.
func (p *player) encoding() api.Encoding {
	if p.yes(mechanical) {
		return api.Finite
	}
	return pick(p.Rand, "", api.Direct, api.Unary)
}

func (p *player) yes(in int) bool { return p.IntN(in) == 0 }

func (p *player) question() string {
	return pick(p.Rand, "vote", "vote", "vote", "vote", "smoker", "smoker", "late")
}

func (p *player) name() string { return pick(p.Rand, people()...) }

// names are some of the people, and sometimes somebody whom nobody has enrolled yet.
func (p *player) names() []string {
	names := people()
	if p.yes(8) {
		names = append(names, "new")
	}
	p.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+p.IntN(len(names))]
}

func (p *player) namesOrAll() []string {
	if p.yes(3) {
		return nil
	}
	return p.names()
}

func (p *player) epsilon() int64 {
	return pick(p.Rand, 1, milli(50), milli(100), milli(100), milli(200), milli(300), milli(300), milli(300)+1, milli(500), milli(500), milli(700), milli(1000))
}

func (p *player) host() host { return host{Lies: p.yes(30), Broken: p.yes(40)} }

func (p *player) order() moveOrder {
	return moveOrder{pick(p.Rand, "acme", "bolt", "cryo"), p.question(), p.namesOrAll(), p.epsilon()}
}

func (p *player) quoted() quoted {
	return pick(p.Rand, unquoted, unquoted, freshQuote, freshQuote, staleQuote)
}
func (p *player) most() atMost {
	return pick(p.Rand, anything, anything, anything, exactly, oneLess)
}

func (p *player) during() time.Duration {
	return pick(p.Rand, 1, time.Minute, time.Hour, time.Hour, 24*time.Hour)
}

func (p *player) pass() time.Duration {
	return pick(p.Rand, 1, time.Minute-1, 30*time.Minute, time.Hour-1, time.Hour, time.Hour, 4*time.Hour, 6*time.Hour, 24*time.Hour, 300*time.Hour, -time.Hour, -3*time.Hour, -6*time.Hour, -48*time.Hour)
}

// moveKind is a kind of move with its usual share of a game.
type moveKind struct {
	share int
	make  func() move
}

func (p *player) kinds() []moveKind {
	return []moveKind{
		{12, func() move { return movePass{p.pass()} }},
		{1, func() move { return moveLeap{p.yes(4)} }},
		{3, func() move { return moveReopen{p.opening(p.yes(2))} }},
		{1, func() move { return moveCheckpoint{} }},
		{1, func() move { return moveCompact{} }},
		{2, func() move { return moveCopy{p.yes(2)} }},
		{2, func() move { return moveRestore{p.IntN(2), p.opening(p.yes(3)), p.yes(6)} }},
		{1, func() move { return moveDefine{p.yes(3), p.encoding()} }},
		{2, func() move { return moveWithdraw{p.name()} }},
		{2, func() move { return moveForget{pick(p.Rand, append(people(), "new")...)} }},
		{5, func() move { return moveEpoch{p.question(), p.name()} }},
		{4, func() move { return moveReturn{p.question(), p.name()} }},
		{5, func() move {
			return moveEnroll{p.question(), p.names(), pick(p.Rand, p.rules...), pick(p.Rand, 0, 0, pick(p.Rand, p.rules...)), p.cap(), p.yes(3)}
		}},
		{8, func() move { return p.terms() }},
		{2, func() move { return p.reconcile() }},
		{7, func() move {
			return moveRaise{p.question(), p.namesOrAll(), p.epsilon(), p.yes(2), p.host()}
		}},
		{4, func() move { return moveRelease{p.question(), p.name(), p.epsilon(), p.host()} }},
		{7, func() move { return moveAdvance{pick(p.Rand, "", "", p.question()), p.host()} }},
		{8, func() move { return moveQuote{p.order()} }},
		{18, func() move { return moveSell{p.order(), !p.yes(3), p.quoted(), p.most(), p.host()} }},
		{10, func() move { return moveReserve{p.order(), p.during(), !p.yes(3), p.quoted(), p.most()} }},
		{8, func() move { return moveCommit{p.IntN(3), p.yes(2), p.host()} }},
		{2, func() move { return moveCancel{p.IntN(4)} }},
		{6, func() move {
			query := pick(p.Rand, "majority:yes", "majority:no", "threshold:yes:2", "plurality", "winner")
			return moveAnswer{p.question(), query, p.namesOrAll(), p.epsilon(), p.yes(2), p.host(), !p.yes(3)}
		}},
		{2, func() move {
			return moveEstimate{p.question(), pick(p.Rand, 0, p.epsilon()), pick(p.Rand, "", p.name())}
		}},
		{5, func() move { return moveAgain{p.IntN(12), p.IntN(12)} }},
	}
}

// cap is one, or as it is.
func (p *player) cap() int64 {
	return pick(p.Rand, 0, pick(p.Rand, p.caps...), pick(p.Rand, p.caps...))
}

// terms makes up a change of terms: mostly among the few policies of the game, often to what allows less.
func (p *player) terms() move {
	one := moveTerms{Question: p.question(), Objects: p.names(), Partial: p.yes(2)}
	if !p.yes(3) {
		one.Objects = []string{p.name()}
	}
	if !p.yes(4) {
		one.Rule = 1 + pick(p.Rand, pick(p.Rand, p.rules...), pick(p.Rand, p.rules...), p.IntN(len(allRules())))
	}
	if p.yes(3) || one.Rule == 0 {
		one.Cap = pick(p.Rand, append(p.caps, milli(1), milli(100), milli(500))...)
	}
	one.Consent = pick(p.Rand, "", "", "they agreed")
	return one
}

// reconcile makes up a table of the host's.
func (p *player) reconcile() move {
	one := moveReconcile{Withdraw: p.yes(2), Expected: !p.yes(4), Dry: p.yes(4)}
	for _, name := range append(people(), "new") {
		limit := pick(p.Rand, p.caps...)
		for _, question := range []string{"vote", "smoker"} {
			if p.yes(3) {
				continue
			}
			one.Rows = append(one.Rows, row{question, name, pick(p.Rand, p.rules...), pick(p.Rand, limit, limit, 0), pick(p.Rand, "", "", "on file")})
		}
	}
	p.Shuffle(len(one.Rows), func(i, j int) { one.Rows[i], one.Rows[j] = one.Rows[j], one.Rows[i] })
	return one
}

func (p *player) move() move {
	sum := 1
	for _, share := range p.shares {
		sum += share
	}
	n := p.IntN(sum)
	for i, k := range p.kinds() {
		if n -= p.shares[i]; n < 0 {
			return k.make()
		}
	}
	return moveReopen{}
}
