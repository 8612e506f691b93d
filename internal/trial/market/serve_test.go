package market

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
)

// serve is one life of the host: it finishes what earlier ones have left and then answers orders, all
// at once, until there are no more.
func (h *host) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	err := h.resume(ctx)
	if errors.Is(err, api.ErrStopped) {
		return err
	}
	if err != nil {
		h.log.Warn().Err(err).Msg("not resumed yet")
	}
	write := lines(out)
	d := desk{fulfil: h.fulfil, log: h.log, stopped: make(chan error, 1)}
	d.reply = func(a orderAnswer) {
		// An answer that cannot be written is one that the buyer asks for again.
		_ = h.step("answer", func() error { return write(a) })
	}
	return d.serve(ctx, in)
}

// desk takes requests and hands answers out.
type desk struct {
	fulfil  func(context.Context, order) (orderAnswer, error)
	reply   func(orderAnswer)
	log     zerolog.Logger
	stopped chan error // gets the error that ends this life
}

// serve answers all requests at once, until there are no more or the ledger has stopped.
func (d desk) serve(ctx context.Context, in io.Reader) error {
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

// read passes lines on until there are no more, or nobody wants them any more.
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

// answer never fails: what went wrong is the host's matter, and the buyer asks again.
func (d desk) answer(ctx context.Context, request []byte) {
	var o order
	if err := json.Unmarshal(request, &o); err != nil || o.ID == uuid.Nil {
		d.reply(orderAnswer{Error: "this is not an order with an id"})
		return
	}
	a, err := d.fulfil(ctx, o)
	switch {
	case errors.Is(err, errOtherOrder):
		a = orderAnswer{Order: o.ID, Error: err.Error()}
	case errors.Is(err, api.ErrStopped):
		// Whether the last commit is on disk is known once the ledger is opened again. Since this
		// program may die anywhere, dying is the simplest way to get there.
		select {
		case d.stopped <- err:
		default: // it is dying already
		}
		return
	case err != nil:
		d.log.Warn().Err(err).Stringer("order", o.ID).Msg("not decided yet")
		a = orderAnswer{Order: o.ID, Error: "not decided yet, please ask again"}
	}
	d.reply(a)
}

// lines returns a function that writes values as lines of JSON, each in one piece.
func lines(out io.Writer) func(any) error {
	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	return func(v any) error {
		mu.Lock()
		defer mu.Unlock()
		return encoder.Encode(v)
	}
}
