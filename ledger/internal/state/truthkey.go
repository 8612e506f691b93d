package state

// keyState is what is known of the truth key: many events in a row ask.
type keyState uint8

const (
	KeyUnknown keyState = iota
	keyNone
	keySet
)

// HasTruthKey tells whether the ledger has a truth key by now.
func (s *State) HasTruthKey() (bool, error) {
	if s.Keyed == KeyUnknown {
		check, err := s.Payload(BucketMeta, []byte(KeyTruthKey))
		if err != nil {
			return false, err
		}
		if s.Keyed = keyNone; check != nil {
			s.Keyed = keySet
		}
	}
	return s.Keyed == keySet, nil
}
