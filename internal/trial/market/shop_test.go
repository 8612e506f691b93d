package market

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	_ "modernc.org/sqlite"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// host is the backend, which executes orders.
type host struct {
	ledger shopLedger
	books  *orderBooks
	cards  *cards
	hold   time.Duration     // how long a reservation waits for the card
	hook   func(step string) // called just before and just after each step; it may not return
	log    zerolog.Logger    // silent unless set
	locks  orderLocks
}

// shopLedger is the part of the ledger that the host uses: the ledger itself, or over HTTP.
type shopLedger interface {
	Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error)
	Buyers(ctx context.Context) iter.Seq2[api.BuyerState, error]
	Cancel(ctx context.Context, key string, reservation uint64) error
	Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error)
	Close() error
	DefineQuestion(ctx context.Context, key string, q api.Question) error
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error]
	Events(ctx context.Context, from uint64) iter.Seq2[event.Event, error]
	Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error)
	Forget(ctx context.Context, r api.ObjectRequest) error
	Object(ctx context.Context, name string) (api.ObjectState, error)
	Quote(ctx context.Context, o api.Order) (api.Quote, error)
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)
	Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error)
	Sale(ctx context.Context, number uint64) (api.Sale, error)
	Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error]
	Sell(ctx context.Context, r api.SellRequest) (api.Sale, error)
	Statement(ctx context.Context, r api.ObjectRequest) (evidence.Statement, error)
	Stats(ctx context.Context) (api.Stats, error)
	Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error)
	Withdraw(ctx context.Context, r api.ObjectRequest) error
}

// open opens the host's files in a directory, and creates them if necessary. It opens the ledger
// first: only one process can have its file open, and so has all orders to itself.
func open(ctx context.Context, dir string, hook func(string)) (*host, error) {
	l, err := openLedger(filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		return nil, err
	}
	var m shopLedger = l
	if os.Getenv(servedEnv) != "" {
		if m, err = overHTTP(ctx, l); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	h, err := newHost(ctx, dir, m, time.Now, hook)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return h, nil
}

func newHost(ctx context.Context, dir string, l shopLedger, now func() time.Time, hook func(string)) (*host, error) {
	b, err := openBooks(ctx, filepath.Join(dir, "host.db"), hook)
	if err != nil {
		return nil, err
	}
	c, err := openCards(ctx, filepath.Join(dir, "cards.db"), now)
	if err != nil {
		return nil, errors.Join(err, b.db.Close())
	}
	h := &host{ledger: l, books: b, cards: c, hold: 15 * time.Minute, hook: hook}
	if err := h.enrol(ctx); err != nil {
		return nil, errors.Join(err, b.db.Close(), c.db.Close())
	}
	return h, nil
}

func (h *host) close() error {
	return errors.Join(h.ledger.Close(), h.books.db.Close(), h.cards.db.Close())
}

// around runs a step between two calls of the hook.
func around(hook func(string), step string, do func() error) error {
	hook("before " + step)
	err := do()
	hook("after " + step)
	return err
}

func (h *host) step(name string, do func() error) error { return around(h.hook, name, do) }

// resume finishes the orders of earlier processes. If an order cannot be finished now, it continues
// with the others.
func (h *host) resume(ctx context.Context) error {
	ids, err := h.books.unfinished(ctx)
	for _, id := range ids {
		if failed := h.finish(ctx, id); failed != nil {
			err = errors.Join(err, fmt.Errorf("order %v: %w", id, failed))
		}
	}
	return err
}

// fulfil executes an order and returns its answer. It may be called again at any time, after any
// failure.
func (h *host) fulfil(ctx context.Context, o order) (orderAnswer, error) {
	if err := h.books.place(ctx, o); err != nil {
		return orderAnswer{}, err
	}
	if err := h.finish(ctx, o.ID); err != nil {
		return orderAnswer{}, err
	}
	return h.books.answer(ctx, o.ID)
}

// finish executes a recorded order from its current state. After an error the order is unfinished.
func (h *host) finish(ctx context.Context, id uuid.UUID) error {
	defer h.locks.lock(id)()
	o, state, err := readOrder(ctx, h.books.db, id)
	if err != nil {
		return err
	}
	if state == placed {
		out, err := h.trade(ctx, o)
		if err != nil {
			return err
		}
		if err := h.books.record(ctx, id, out); err != nil {
			return err
		}
	}
	return h.payBack(ctx, id)
}

// trade makes the ledger sell an order, or finds an earlier sale of it.
func (h *host) trade(ctx context.Context, o order) (outcome, error) {
	if o.Card == "" {
		return h.sell(ctx, o)
	}
	return h.sellByCard(ctx, o)
}

// orderLocks are locks on orders. The zero value is ready.
type orderLocks struct{ busy sync.Map }

// lock waits until no worker has an order, and locks it. The caller must call unlock.
func (l *orderLocks) lock(id uuid.UUID) (unlock func()) {
	mine := make(chan struct{})
	for {
		other, taken := l.busy.LoadOrStore(id, mine)
		if !taken {
			return func() {
				l.busy.Delete(id)
				close(mine)
			}
		}
		<-other.(chan struct{})
	}
}

// order is an order of a buyer. It has all parameters of the requests to the ledger, so that every
// attempt makes the same request.
type order struct {
	ID       uuid.UUID       `json:"order"` // chosen by the buyer
	Buyer    string          `json:"buyer"`
	Question string          `json:"question"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	MaxPrice int64           `json:"max_price"`      // in minor units
	Card     string          `json:"card,omitempty"` // none: by invoice
}

// wanted returns the order for the ledger: all people who answered the question.
func (o order) wanted() api.Order {
	return api.Order{Buyer: o.Buyer, Question: o.Question, Epsilon: o.Epsilon, All: true}
}

// The states of an order.
const (
	placed  = "placed"
	sold    = "sold"
	refused = "refused"
)

// outcome is the result of an order.
type outcome struct {
	state      string
	refusal    string
	sale       api.Sale
	deliveries []api.Delivery
	charged    int64 // to the card
	refund     int64 // the part of charged that is not owed
}

func refusing(reason string) outcome { return outcome{state: refused, refusal: reason} }

// orderAnswer is the answer to a buyer.
type orderAnswer struct {
	Order     uuid.UUID         `json:"order"`
	State     string            `json:"state,omitempty"`
	Refusal   string            `json:"refusal,omitempty"`
	Sale      uint64            `json:"sale,omitempty"`
	Price     int64             `json:"price"`
	Responses map[string]string `json:"responses,omitempty"` // by object
	Error     string            `json:"error,omitempty"`     // nothing is decided; the buyer should ask again
}

// sellByCard sells to a buyer who pays first: it holds budget and price, charges the card, and
// sells what it held.
func (h *host) sellByCard(ctx context.Context, o order) (outcome, error) {
	held, err := h.reserve(ctx, o)
	var closed *api.ReservationError
	if errors.As(err, &closed) {
		return h.endClosed(ctx, o, closed)
	}
	if isRefusal(err) {
		return refusing(err.Error()), nil
	}
	if err != nil {
		return outcome{}, err
	}
	declined, err := h.charge(ctx, o, held)
	if err != nil {
		return outcome{}, err
	}
	if declined != "" {
		return refusing("the card was not charged: " + declined), h.cancel(ctx, o, held)
	}
	out, err := h.commit(ctx, o, held)
	out.charged = held.Price
	return out, err
}

// endClosed ends an order whose reservation is no longer open, because an earlier process has
// continued it. It charges nothing. An earlier charge is for the sale, or is refunded.
func (h *host) endClosed(ctx context.Context, o order, closed *api.ReservationError) (outcome, error) {
	paid, err := h.cards.earned(ctx, o.ID)
	if err != nil {
		return outcome{}, err
	}
	held := api.Reservation{Number: closed.Number, Price: paid}
	var out outcome
	if closed.State == "captured" {
		out, err = h.commit(ctx, o, held) // by its key: the sale exists already
	} else {
		out, err = refusing(closed.Error()), h.cancel(ctx, o, held)
		out.refund = paid
	}
	out.charged = paid
	return out, err
}

// reserve reserves the order. It returns a [*api.ReservationError] if it was reserved before, and
// is not open any more.
func (h *host) reserve(ctx context.Context, o order) (held api.Reservation, err error) {
	err = h.step("reserve", func() error {
		held, err = h.ledger.Reserve(ctx, api.ReserveRequest{
			Key: o.ID.String() + "/reserve", Order: o.wanted(), For: h.hold, Partial: true, MaxPrice: &o.MaxPrice,
		})
		return err
	})
	return held, err
}

func (h *host) charge(ctx context.Context, o order, held api.Reservation) (declined string, err error) {
	if held.Price == 0 {
		return "", nil
	}
	err = h.step("charge", func() error {
		declined, err = h.cards.charge(ctx, charge{Key: o.ID, Card: o.Card, Amount: held.Price, Before: held.Expires})
		return err
	})
	return declined, err
}

// commit sells what is reserved. If the host has no answers of some people, the buyer gets the
// others, and the difference back.
func (h *host) commit(ctx context.Context, o order, held api.Reservation) (outcome, error) {
	var sale api.Sale
	err := h.step("commit", func() (err error) {
		sale, err = h.ledger.Capture(ctx, api.CaptureRequest{
			Key: o.ID.String() + "/commit", Reservation: held.Number, Partial: true, Truth: h.books.truth,
		})
		return err
	})
	var none *api.RefusedError
	if errors.As(err, &none) || errors.As(err, new(*api.ReservationError)) {
		out := refusing(err.Error())
		out.refund = held.Price
		return out, h.cancel(ctx, o, held)
	}
	if err != nil {
		return outcome{}, err
	}
	out, err := h.sold(ctx, sale)
	out.refund = sale.Refund
	return out, err
}

// cancel cancels a reservation, so that others do not wait until it expires. It also cancels one
// that has expired, so that a corrected clock does not make it open again.
func (h *host) cancel(ctx context.Context, o order, held api.Reservation) error {
	err := h.step("cancel", func() error { return h.ledger.Cancel(ctx, o.ID.String()+"/cancel", held.Number) })
	if errors.As(err, new(*api.ReservationError)) {
		return nil // it ended earlier
	}
	return err
}

// payBack refunds what the recorded outcome of an order contains. It comes after the outcome, never
// before: until the outcome is committed, another process might still sell the order.
func (h *host) payBack(ctx context.Context, id uuid.UUID) error {
	due, err := h.books.refundDue(ctx, id)
	if err != nil || due == 0 {
		return err
	}
	if err := h.step("refund", func() error { return h.cards.refund(ctx, id, due) }); err != nil {
		return err
	}
	return h.books.noteRefund(ctx, id)
}

// sell sells to a buyer who pays by invoice.
func (h *host) sell(ctx context.Context, o order) (outcome, error) {
	var sale api.Sale
	err := h.step("sell", func() (err error) {
		sale, err = h.ledger.Sell(ctx, api.SellRequest{
			Key: o.ID.String(), Order: o.wanted(), Partial: true, MaxPrice: &o.MaxPrice, Truth: h.books.truth,
		})
		return err
	})
	if isRefusal(err) {
		return refusing(err.Error()), nil
	}
	if err != nil {
		return outcome{}, err
	}
	return h.sold(ctx, sale)
}

// isRefusal returns whether the ledger has refused an order. Any other error decides nothing: a
// full disk, a source of true values that is down, a canceled request. The order then stays placed.
func isRefusal(err error) bool {
	var refused *api.RefusedError // by the people's policies and budgets
	var quote *api.QuoteError     // dearer than the buyer would pay
	if errors.Is(err, api.ErrTruthSource) {
		return false // a fault of the host; the order is valid
	}
	return errors.As(err, &refused) || errors.As(err, &quote) ||
		errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrUnknown) // never possible
}

// sold returns the outcome of a sale. Reading deliveries is free, so each attempt may do it.
func (h *host) sold(ctx context.Context, sale api.Sale) (outcome, error) {
	deliveries, err := api.Collect(h.ledger.Deliveries(ctx, sale.Number))
	return outcome{state: sold, sale: sale, deliveries: deliveries}, err
}

// openSQLite opens a database, or creates it. Its commits survive a power cut: in WAL mode every
// commit is an fsync of the log if synchronous is FULL, and none is if it is NORMAL, which many
// tutorials recommend. (With a rollback journal, FULL might lose the last commit, and EXTRA is
// needed.)
func openSQLite(ctx context.Context, path, schema string) (*sql.DB, error) {
	settings := url.Values{
		"_pragma": {"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		// A transaction that first reads and then writes could fail at once with any timeout,
		// because another one has written since. So transactions begin as writers.
		"_txlock": {"immediate"},
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4) // one writes at a time; more would only wait in SQLite
	db.SetMaxIdleConns(4)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, db.Close()))
	}
	return db, nil
}

// serve is the main loop of a process of the host: it finishes earlier orders and then answers
// orders concurrently, until there are no more.
func (h *host) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	err := h.resume(ctx)
	if errors.Is(err, api.ErrStopped) {
		return err
	}
	if err != nil {
		h.log.Warn().Err(err).Msg("some orders could not be finished")
	}
	write := lines(out)
	d := dispatcher{fulfil: h.fulfil, log: h.log, stopped: make(chan error, 1)}
	d.reply = func(a orderAnswer) {
		// If an answer cannot be written, the buyer asks again.
		_ = h.step("answer", func() error { return write(a) })
	}
	return d.serve(ctx, in)
}

// dispatcher reads requests and writes answers.
type dispatcher struct {
	fulfil  func(context.Context, order) (orderAnswer, error)
	reply   func(orderAnswer)
	log     zerolog.Logger
	stopped chan error // receives the error that ends this process
}

// serve answers all requests concurrently, until there are no more or the ledger has stopped.
func (d dispatcher) serve(ctx context.Context, in io.Reader) error {
	var wg sync.WaitGroup
	requests, end, over := make(chan []byte), make(chan error, 1), make(chan struct{})
	defer close(over)
	go func() { end <- read(in, requests, over) }()
	for {
		select {
		case request := <-requests:
			wg.Go(func() { d.answer(ctx, request) })
		case err := <-d.stopped:
			wg.Wait()
			return err
		case err := <-end:
			wg.Wait()
			select {
			case stopped := <-d.stopped:
				return stopped
			default:
				return err
			}
		}
	}
}

// read passes on lines until there are no more, or over is closed.
func read(in io.Reader, requests chan<- []byte, over <-chan struct{}) error {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		select {
		case requests <- slices.Clone(scanner.Bytes()):
		case <-over:
			return nil
		}
	}
	return scanner.Err()
}

// answer answers one request. It returns no error: the host logs it, and the buyer asks again.
func (d dispatcher) answer(ctx context.Context, request []byte) {
	var o order
	if err := json.Unmarshal(request, &o); err != nil || o.ID == uuid.Nil {
		d.reply(orderAnswer{Error: "this is not an order with an id: send a JSON object with the field order"})
		return
	}
	a, err := d.fulfil(ctx, o)
	switch {
	case errors.Is(err, errOtherOrder):
		a = orderAnswer{Order: o.ID, Error: err.Error()}
	case errors.Is(err, api.ErrStopped):
		// Whether the last commit is on disk is known after the ledger is opened again. Since this
		// program may die anywhere, ending the process is the simplest way to open it again.
		select {
		case d.stopped <- err:
		default: // it is ending already
		}
		return
	case err != nil:
		d.log.Warn().Err(err).Stringer("order", o.ID).Msg("order not decided")
		a = orderAnswer{Order: o.ID, Error: "not decided yet, please ask again"}
	}
	d.reply(a)
}

// lines returns a function that writes each value as a line of JSON, in one write.
func lines(out io.Writer) func(any) error {
	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	return func(v any) error {
		mu.Lock()
		defer mu.Unlock()
		return encoder.Encode(v)
	}
}

// servedEnv is a variable of the environment that makes the backend call its ledger over HTTP,
// through a Unix socket.
const servedEnv = "SLUICE_SHOP_SERVED"

// served is a ledger that is called over HTTP.
type served struct {
	*ledgerclient.Client
	close func() error
}

// Close ends the server, and closes the ledger.
func (s served) Close() error { return errors.Join(s.Client.Close(), s.close()) }

// overHTTP serves a ledger, and returns a client of it.
func overHTTP(ctx context.Context, l *ledger.Ledger) (shopLedger, error) {
	h, err := ledgerhttp.New(l, ledgerhttp.Options{Gate: ledgerhttp.Holder{Name: "shop", Role: "operator"}.Admit})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shop") // the path of a socket must be short
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	at, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	server := h.Server()
	go func() { _ = server.Serve(at) }()
	c, err := ledgerclient.Dial(ctx, "unix:"+socket, ledgerclient.Options{})
	if err != nil {
		return nil, errors.Join(err, server.Close(), os.RemoveAll(dir))
	}
	return served{c, func() error { return errors.Join(server.Close(), l.Close(), os.RemoveAll(dir)) }}, nil
}

// The tests kill the backend itself: TestMain makes this test binary run it, in the processes that
// the tests start. (The page cache survives a kill, so the tests cannot find a missing fsync. They
// find everything that is lost, done twice or answered too early.)

const childEnv = "SLUICE_SHOP_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Setenv(childEnv, "1")
		os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0") // otherwise each child ends a second late
		os.Exit(m.Run())
	}
	if err := runBackend(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// runBackend is one process of the backend, with its files in a directory. It is killed at a step
// such as "after sell", if it reaches it.
func runBackend(dir, kill string) error {
	ctx := context.Background()
	h, err := open(ctx, dir, func(step string) {
		if step == kill {
			killSelf()
		}
	})
	if err != nil {
		return err
	}
	defer h.close()
	h.log = zerolog.New(os.Stderr)
	return h.serve(ctx, os.Stdin, os.Stdout)
}

// killSelf ends the process as kill -9 does: without flushing, closing or reporting anything.
func killSelf() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal may take a moment
}

// steps are all actions of a host with a lasting effect. It can be killed before and after each.
var steps = []string{
	"enrol", "place", "sell", "reserve", "charge", "commit", "cancel", "outcome", "refund", "note refund", "answer",
}

// boundaries returns the instants between steps.
func boundaries() (all []string) {
	for _, step := range steps {
		all = append(all, "before "+step, "after "+step)
	}
	return all
}

// command returns a process of the host: this program, by [TestMain].
func command(ctx context.Context, dir, kill string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, program, dir, kill)
	cmd.Stderr = os.Stderr
	return cmd
}

// buyers are outside of the host. They survive it, and ask until they get an answer.
type buyers struct {
	orders  []order
	answers map[uuid.UUID]orderAnswer
}

// order adds orders with all kinds of results. Each has its own buyer, because a second order for
// the same ε is free.
func (b *buyers) order() []order {
	n := len(b.orders)
	want := func(epsilon string, maxPrice int64, card string) {
		b.orders = append(b.orders, order{
			ID: uuid.New(), Buyer: fmt.Sprintf("buyer %d", len(b.orders)+1),
			Question: question, Epsilon: privacy.MustEpsilon(epsilon), MaxPrice: maxPrice, Card: card,
		})
	}
	levels := []string{"0.5", "1", "0.25", "1.5", "0.75", "2"}
	want(levels[n%len(levels)], 10_000, "")
	want(levels[(n+1)%len(levels)], 10_000, "good")
	want("1", 10_000, blockedCard)
	want("1", 1, "")     // too dear
	want("3", 1, "good") // not on offer
	return b.orders[n:]
}

// waiting returns the orders without an answer.
func (b *buyers) waiting() (orders []order) {
	for _, o := range b.orders {
		if _, answered := b.answers[o.ID]; !answered {
			orders = append(orders, o)
		}
	}
	return orders
}

// send sends orders to a process of the host and records the answers. It returns whether the host
// died.
func (b *buyers) send(host *exec.Cmd, orders []order) (died bool, err error) {
	var in, out bytes.Buffer
	write := lines(&in)
	for _, o := range orders {
		if err := write(o); err != nil {
			return false, err
		}
	}
	host.Stdin, host.Stdout = &in, &out
	err = host.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	return exit != nil, b.record(&out)
}

// record reads answers. An incomplete line is no answer. A repeated answer must be the same.
func (b *buyers) record(out *bytes.Buffer) error {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var a orderAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("read an answer of the host: %q: %w", line, err)
		}
		if a.Error != "" {
			return fmt.Errorf("order %v: %s", a.Order, a.Error)
		}
		if before, again := b.answers[a.Order]; again && !reflect.DeepEqual(a, before) {
			return fmt.Errorf("order %v: the answer was %+v, and is now %+v", a.Order, before, a)
		}
		b.answers[a.Order] = a
	}
}

// cards simulates the card company, whose database only it can commit to. It honours idempotency
// keys, as real companies do.
type cards struct {
	db  *sql.DB
	now func() time.Time
}

// blockedCard is a card that is always declined.
const blockedCard = "blocked"

const cardsSchema = `
create table if not exists charges (
	key      text    primary key,
	card     text    not null,
	amount   integer not null,
	declined text    not null, -- why, or '' for a charge that was paid
	refunded integer not null default 0 check (refunded between 0 and amount)
) strict;`

func openCards(ctx context.Context, path string, now func() time.Time) (*cards, error) {
	db, err := openSQLite(ctx, path, cardsSchema)
	if err != nil {
		return nil, err
	}
	return &cards{db, now}, nil
}

// charge is a request to the card company.
type charge struct {
	Key    uuid.UUID
	Card   string
	Amount int64
	Before time.Time // decline a later charge
}

// charge charges a card, or declines. The first request with a key decides, and others with the
// same key return its result.
func (c *cards) charge(ctx context.Context, r charge) (declined string, err error) {
	switch {
	case r.Card == blockedCard:
		declined = "the card is blocked"
	case !c.now().Before(r.Before):
		declined = "the charge came too late"
	}
	_, err = c.db.ExecContext(ctx, `
		insert into charges (key, card, amount, declined) values (?, ?, ?, ?)
		on conflict (key) do nothing`, r.Key, r.Card, r.Amount, declined)
	if err != nil {
		return "", err
	}
	first := charge{Key: r.Key, Before: r.Before}
	err = c.db.QueryRowContext(ctx, `select card, amount, declined from charges where key = ?`, r.Key).
		Scan(&first.Card, &first.Amount, &declined)
	if err == nil && first != r {
		err = errors.New("card company: the key was used for another charge")
	}
	return declined, err
}

// refund pays back a part of a charge, or all of it, once. Repeated requests have no effect. It
// cannot be undone.
func (c *cards) refund(ctx context.Context, key uuid.UUID, amount int64) error {
	done, err := c.db.ExecContext(ctx, `
		update charges set refunded = ?1 where key = ?2 and declined = '' and refunded in (0, ?1)`, amount, key)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("card company: refund of charge %v: no such charge, or already refunded otherwise: %w", key, errors.Join(err, sql.ErrNoRows))
	}
	return nil
}

// earned returns what the host got from a charge; 0 if there is none.
func (c *cards) earned(ctx context.Context, key uuid.UUID) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `
		select coalesce(sum(amount - refunded), 0) from charges where key = ? and declined = ''`, key).Scan(&amount)
	return amount, err
}

// total returns what the host got from all charges.
func (c *cards) total(ctx context.Context) (amount int64, err error) {
	err = c.db.QueryRowContext(ctx, `select coalesce(sum(amount - refunded), 0) from charges where declined = ''`).Scan(&amount)
	return amount, err
}

const question = "smokes"

const (
	people = 40
	silent = 10 // one in so many is enrolled but has not answered: the host has no true value
)

// openLedger opens the ledger, and creates it first if there is none. Create leaves a complete file
// or none, so a process that dies here does no harm.
func openLedger(path string, options ledger.Options) (*ledger.Ledger, error) {
	if err := ledger.Create(context.Background(), path, ledger.CreateOptions{Currency: "USD"}); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return ledger.Open(context.Background(), path, options)
}

// enrol enrolls all people on both sides. Every start repeats it with the same keys.
func (h *host) enrol(ctx context.Context) error {
	names := make([]string, people)
	for i := range names {
		names[i] = fmt.Sprintf("person-%02d", i+1)
	}
	if err := h.books.enrol(ctx, names); err != nil {
		return err
	}
	err := h.ledger.DefineQuestion(ctx, "setup/question", api.Question{Name: question, Values: []string{"yes", "no"}})
	if err != nil {
		return err
	}
	terms, err := policy.Market{Max: privacy.MustEpsilon("2"), Prices: []policy.Price{
		{Epsilon: privacy.MustEpsilon("1"), Amount: 100}, {Epsilon: privacy.MustEpsilon("2"), Amount: 180},
	}}.Policy()
	if err != nil {
		return err
	}
	_, err = h.ledger.Enroll(ctx, api.EnrollRequest{Key: "setup/people", Question: question, Objects: names, Policy: terms, Cap: privacy.MustEpsilon("2")})
	return err
}

func (b *orderBooks) enrol(ctx context.Context, names []string) error {
	return b.change(ctx, "enrol", func(tx *sql.Tx) error {
		for i, name := range names {
			smokes := "no"
			switch {
			case i%silent == silent-1:
				continue
			case i%3 == 0:
				smokes = "yes"
			}
			_, err := tx.ExecContext(ctx, `insert into people (id, smokes) values (?, ?) on conflict do nothing`, name, smokes)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
