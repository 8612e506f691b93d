package ledger

// noiseKeySet gives a noise key a number, by which chains refer to it.
type noiseKeySet struct {
	number uint32
	name   string
	check  tag
}

// objectOfEvent returns the object that an event is about, or "".
func objectOfEvent(ev event) string {
	switch c := ev.change.(type) {
	case personal:
		return c.about()
	case *forgotten:
		return c.object
	}
	return ""
}

// questionOfEvent returns the question that an event is about, or 0.
func questionOfEvent(ev event) uint32 {
	switch c := ev.change.(type) {
	case *questionDefined:
		return c.number
	case *enrolled:
		return c.question
	case *released:
		return c.question
	case *charged:
		return c.question
	case *answered:
		return c.question
	case *truthBound:
		return c.question
	case *epochBegun:
		return c.question
	case *objectRefused:
		return c.question
	case *reserved:
		return c.question
	case *saleMade:
		return c.question
	}
	return 0
}
