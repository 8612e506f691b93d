package api

// NoiseKeys are keys of the host from which responses are drawn, instead of at random
// ([rrchain.NoiseKey]). The zero value has no keys.
//
// With a noise key, a response is a function of the key, the question's definition, the object's
// name, the ε and the true value. This has three benefits:
//   - If the file is lost, the host can enroll the same objects in the same questions and execute
//     the same orders again. The sequence does not matter. All responses are then the same.
//   - A restored backup gives the responses that were given since it was made, so that no second
//     draw leaks.
//   - Two ledgers with the same key give the same responses without communicating.
//
// The cost is that a party with the key and a response usually knows the true value. Without a key,
// a stolen file reveals no more than ε allows. With a key, that is only true as long as the key is
// not stolen too. Never keep the key where the file is. Also, no party can prove that responses
// were drawn from a key, or that the key was drawn at random.
//
// A chain keeps for good the key that was current when its object was enrolled in the question.
// Under another key its next response would have independent noise about the same true value. Both
// responses together would then reveal more than the higher ε allows. That is why a rotation is
// only for new chains. A ledger that is rebuilt after a rotation must be rebuilt with each chain
// under its old key. Chains that began without a key stay without one.
//
// The same is true for a restored backup. Objects may have been enrolled between the backup and the
// loss of the file, under a key that is no longer current. They must be enrolled again under that
// key. To do so, open the ledger with the name of that key as Current, enroll the objects, and then
// continue with the newest key. The log has the name of the key with each enrollment. Keep a copy
// of the log, or of the dates of rotations. Responses that were drawn at random are drawn again,
// and differ.
//
// Two ledgers with the same key must not have equally defined questions that mean different true
// values of the same objects. Their responses would share the noise.
//
// A chain that was forgotten and begins again is drawn at random, because buyers may still have the
// responses that were drawn from the key. If the true value has changed since, the same noise on
// both values would reveal both. For the same reason, also set ledger.Options.TruthKey, which
// refuses a changed true value. New epochs (ledger.Ledger.BeginEpoch) are drawn at random. Do not
// rebuild a ledger with true values that have changed.
//
// Questions with a mechanism of the host ([Mechanism]) and answers about panels
// (ledger.Ledger.Answer) are always drawn at random.
type NoiseKeys struct {
	// Current is the name of the key for chains that begin from now on, 1 to 256 bytes. If it is
	// empty, new chains have no key.
	Current string
	// Key returns the key with a name: 32 bytes drawn at random, or nil if the host no longer has
	// the key. Without their key, chains only resell what they have released ([NoNoiseKey]). Open
	// calls Key for each name that the ledger has used, and for the current one.
	//
	// The ledger keeps the keys in memory. The file has only what identifies them: Open refuses
	// another key under a known name, and a known key under another name ([ErrNoiseKey]).
	//
	// If Key is nil, the ledger has no keys, and chains that began with a key cannot be drawn. If
	// the ledger has used keys before, no object can be enrolled ([ErrNoiseKey]), so that no chain
	// begins without a key by mistake.
	Key func(name string) ([]byte, error)
}
