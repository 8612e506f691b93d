package state

// keyState is what is known of the truth key: many events in a row ask.
type TruthKeyState uint8

const (
	TruthKeyUnknown TruthKeyState = iota
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
