package state

// TruthKeyState is what a transaction knows about the truth key. It is cached, because many events
// in a row need it.
type TruthKeyState uint8

const (
	TruthKeyUnknown TruthKeyState = iota // not read yet, or changed since then
	truthKeyNone
	truthKeySet
)

// HasTruthKey reports whether the ledger has a truth key.
func (s *State) HasTruthKey() (bool, error) {
	if s.TruthKey == TruthKeyUnknown {
		check, err := s.Payload(BucketMeta, []byte(KeyTruthKey))
		if err != nil {
			return false, err
		}
		if s.TruthKey = truthKeyNone; check != nil {
			s.TruthKey = truthKeySet
		}
	}
	return s.TruthKey == truthKeySet, nil
}
