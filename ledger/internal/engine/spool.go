package engine

import (
	"runtime/debug"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Spool is a writer that puts records in the background, while the transaction goes on to make others. Whoever reads, or
// deletes, waits until everything is put: so nobody sees a difference, and the store is never used by two at a time.
// A transaction of small requests starts nothing in the background: where many callers wait, the other processors are busy
// with what these ask for next.
type Spool struct {
	Into    kv.Writer
	direct  int            // how many records are put without anything in the background
	records []spooled      // not handed over yet
	work    chan batch     // nil if nothing runs in the background
	free    chan []spooled // memory to be used again
	done    chan struct{}
	err     error          // of what was put in the background; only after done
	panic   any            // likewise
	Recent  *state.Recency // is told what changes, as by this event; nil for nobody
	Event   uint64
}

type spooled struct {
	bucket     string
	key, value []byte
}

// batch is what is handed over at a time.
type batch struct {
	records []spooled
	lent    bool // they stay somebody else's
}

// spoolSize is how many records are handed over at a time, and spoolDepth how many times that may be under way.
const (
	spoolSize  = 256
	spoolDepth = 8
	spoolFirst = 12 // room at first: a release alone has so few
	spoolSmall = 8  // a request about one object has hardly ever more, but for what a transaction writes once
)

func (s *Spool) Put(bucket string, key, value []byte) error {
	s.Recent.Changed(bucket, key, s.Event)
	if s.records == nil {
		s.records = make([]spooled, 0, spoolFirst)
	}
	s.records = append(s.records, spooled{bucket, key, value})
	if len(s.records) < spoolSize || s.work == nil && len(s.records) < s.direct {
		return nil
	}
	if s.work == nil {
		s.start()
	}
	s.work <- batch{records: s.records}
	select {
	case s.records = <-s.free:
	default:
		s.records = make([]spooled, 0, spoolSize)
	}
	return nil
}

// putAll puts many records at once. It reads the slice until everything is put.
func (s *Spool) putAll(records []spooled) error {
	s.Recent.ChangedMany(s.Event)
	if err := s.settle(); err != nil {
		return err
	}
	s.start()
	s.work <- batch{records, true}
	return nil
}

func (s *Spool) start() {
	s.work, s.free, s.done = make(chan batch, spoolDepth), make(chan []spooled, spoolDepth), make(chan struct{})
	go s.run(s.work, s.free, s.done)
}

// run puts what it gets. After a failure it only takes it.
func (s *Spool) run(work chan batch, free chan []spooled, done chan struct{}) {
	defer close(done)
	for b := range work {
		if s.err == nil && s.panic == nil {
			s.put(b.records)
		}
		if b.lent {
			continue
		}
		clear(b.records)
		select {
		case free <- b.records[:0]:
		default:
		}
	}
}

func (s *Spool) put(records []spooled) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as the store does where it is called
	defer func() { s.panic = recover() }()
	for _, r := range records {
		if s.err = s.Into.Put(r.bucket, r.key, r.value); s.err != nil {
			return
		}
	}
}

// wait waits until nothing runs in the background. A panic there goes on here.
func (s *Spool) wait() error {
	if s.work != nil {
		close(s.work)
		<-s.done
		s.work = nil
	}
	if p := s.panic; p != nil {
		s.panic = nil
		panic(p)
	}
	return s.err
}

// settle puts everything there is.
func (s *Spool) settle() error {
	if err := s.wait(); err != nil {
		return err
	}
	for _, r := range s.records {
		if s.err = s.Into.Put(r.bucket, r.key, r.value); s.err != nil {
			return s.err
		}
	}
	clear(s.records)
	s.records = s.records[:0]
	return nil
}

func (s *Spool) Get(bucket string, key []byte) ([]byte, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	return s.Into.Get(bucket, key)
}

func (s *Spool) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if err := s.settle(); err != nil {
		return err
	}
	return s.Into.Scan(bucket, from, visit)
}

func (s *Spool) Delete(bucket string, key []byte) error {
	s.Recent.Changed(bucket, key, s.Event)
	if err := s.settle(); err != nil {
		return err
	}
	return s.Into.Delete(bucket, key)
}
