package check

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// fault returns an [errs.ErrCorrupt] that describes why no ledger can have written an event.
func fault(format string, args ...any) error { return errs.Corrupt(nil, format, args...) }

// Order returns [errs.ErrCorrupt] if an event cannot be the next one of the log, by its number,
// time and kind. It counts the event among those of the request in progress.
func Order(s *state.State, ev event.Event) error {
	if ev.Number != s.Counters.Events+1 {
		return fault("event %d follows event %d: the numbers must be consecutive", ev.Number, s.Counters.Events)
	}
	if ev.Time.Before(s.Counters.Last) {
		return fault("the time of event %d is before that of the previous event", ev.Number)
	}
	if _, ok := ev.Change.(*event.Created); ok != (ev.Number == 1) {
		return fault("event %d: the creation of the ledger must be the first event, and only that", ev.Number)
	}
	if err := checkOpen(&s.Counters, ev.Change); err != nil {
		return err
	}
	u := &s.Counters.InProgress
	switch k := ev.Change.Kind(); k {
	case event.KindSettled: // compared with the counts afterwards, see [Settled]
	case event.KindCreated, event.KindTruthKey, event.KindNoiseKey: // no request settles these
		if *u != (state.InProgress{}) {
			return fault("%d events are not settled by a request", u.Events)
		}
	default:
		if err := noteEvent(u, k); err != nil {
			return err
		}
		noteName(u, event.ObjectOf(ev))
	}
	return nil
}

// checkOpen returns [errs.ErrCorrupt] if an event interrupts a sale, a reservation, the charges of
// an answer, or the refusals of a request. Each of these must be followed only by more events of
// its own, up to its end.
func checkOpen(n *state.Counters, c event.Change) error {
	kind := c.Kind()
	if n.Refused > 0 || n.Unsettled != 0 || n.Answer != (state.Answering{}) {
		if kind == event.KindRefused || kind == event.KindSettled {
			return nil
		}
		return fault("no request settles %d refusals, sale %d or the answer of event %d",
			n.Refused, n.Unsettled, n.Answer.Event)
	}
	if n.Charges.Objects > 0 {
		if kind == event.KindCharged || kind == event.KindAnswered {
			return nil
		}
		return fault("%d objects are charged, and no answer follows", n.Charges.Objects)
	}
	// While a sale is open, only the events of its objects are possible. Otherwise, none of those
	// is.
	if sale, is := event.ShareOf(c); is && (sale != n.Open.Sale || sale == 0) || !is && n.Open.Sale != 0 {
		return fault("an event interrupts sale %d, or is part of a sale that was not begun", n.Open.Sale)
	}
	return nil
}
