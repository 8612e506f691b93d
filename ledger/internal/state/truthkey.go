package state

// TruthKeyState is what a transaction knows of the truth key: many events in a row ask.
type TruthKeyState uint8

const (
	TruthKeyUnknown TruthKeyState = iota // it was not looked up, or has changed since
	truthKeyNone
	truthKeySet
)

// HasTruthKey tells whether the ledger has a truth key by now.
func (s *State) HasTruthKey() (bool, error) {
	if s.Keyed == TruthKeyUnknown {
		check, err := s.Payload(BucketMeta, []byte(KeyTruthKey))
		if err != nil {
			return false, err
		}
		if s.Keyed = truthKeyNone; check != nil {
			s.Keyed = truthKeySet
		}
	}
	return s.Keyed == truthKeySet, nil
}
