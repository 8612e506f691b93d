package event

// ObjectOf returns the object that an event is about, or "" if it is about none, or is erased.
func ObjectOf(ev Event) string {
	switch c := ev.Change.(type) {
	case Personal:
		return c.About()
	case *Forgotten:
		return c.Object
	}
	return ""
}

// QuestionOf returns the number of the question that an event is about, or 0.
func QuestionOf(ev Event) uint32 {
	switch c := ev.Change.(type) {
	case *QuestionDefined:
		return c.Number
	case *Enrolled:
		return c.Question
	case *Released:
		return c.Question
	case *Charged:
		return c.Question
	case *Answered:
		return c.Question
	case *TruthBound:
		return c.Question
	case *EpochBegun:
		return c.Question
	case *TermsChanged:
		return c.Question
	case *ObjectRefused:
		return c.Question
	case *Reserved:
		return c.Question
	case *SaleMade:
		return c.Question
	}
	return 0
}
