package ledger

// writeMember lists a question of an object.
func (s *state) writeMember(name string, question uint32) error {
	k := s.draft.key()
	k.Buf = appendMemberKey(k.Buf, name, question)
	s.draft.value().U32(question)
	return s.write(bucketObjects)
}

func (s *state) putChain(question uint32, name string, c chain) error {
	id := recordID{question, name}
	if s.desk != nil {
		s.desk.chains.set(id, &c)
		return nil
	}
	return s.writeChain(id, c)
}

func (s *state) writeChain(id recordID, c chain) error {
	k := s.draft.key()
	k.Buf = appendChainKey(k.Buf, id.question, id.name)
	c.encodeTo(s.draft.value())
	return s.write(bucketChains)
}

func (s *state) putRequest(key string, r request) error {
	if s.desk != nil {
		s.desk.requests.set(recordID{name: key}, &r)
		return nil
	}
	return s.writeRequest(recordID{name: key}, r)
}

func (s *state) writeRequest(id recordID, r request) error {
	k := s.draft.key()
	k.Buf = append(k.Buf, id.name...)
	r.encodeTo(s.draft.value())
	return s.write(bucketRequests)
}

// partSize is the number of objects of one transaction. Larger ones commit little faster and keep
// others waiting longer.
const partSize = 4096
