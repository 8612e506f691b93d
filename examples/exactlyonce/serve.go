package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sluicedp/sluice/ledger"
)

// serve is one life of the host: it finishes what earlier ones have left and then answers orders, all
// at once, until there are no more.
func (h *host) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := h.resume(ctx); err != nil {
		if errors.Is(err, ledger.ErrStopped) {
			return err
		}
		log.Print("not resumed yet: ", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	write := lines(out)
	requests := bufio.NewScanner(in)
	for requests.Scan() {
		request := slices.Clone(requests.Bytes())
		wg.Go(func() {
			// An answer that cannot be written is one that the buyer asks for again.
			_ = h.step("answer", func() error { return write(h.answer(ctx, request)) })
		})
	}
	return requests.Err()
}

// answer never fails: what went wrong is the host's matter, and the buyer asks again.
func (h *host) answer(ctx context.Context, request []byte) answer {
	var o order
	if err := json.Unmarshal(request, &o); err != nil || o.ID == uuid.Nil {
		return answer{Error: "this is not an order with an id"}
	}
	a, err := h.fulfil(ctx, o)
	switch {
	case errors.Is(err, errOtherOrder):
		return answer{Order: o.ID, Error: err.Error()}
	case errors.Is(err, ledger.ErrStopped):
		// Whether the last commit is on disk is known once the ledger is opened again. Since this
		// program may die anywhere, dying is the simplest way to get there.
		log.Fatal(err)
	case err != nil:
		log.Printf("order %v: %v", o.ID, err)
		return answer{Order: o.ID, Error: "not decided yet, please ask again"}
	}
	return a
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
