package ledger

// keyState is what is known of the truth key: many events in a row ask.
type keyState uint8

const (
	keyUnknown keyState = iota
	keyNone
	keySet
)

// hasTruthKey tells whether the ledger has a truth key by now.
func (s *state) hasTruthKey() (bool, error) {
	if s.keyed == keyUnknown {
		check, err := s.get(bucketMeta, []byte(keyTruthKey))
		if err != nil {
			return false, err
		}
		if s.keyed = keyNone; check != nil {
			s.keyed = keySet
		}
	}
	return s.keyed == keySet, nil
}
