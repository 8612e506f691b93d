package documents

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// Sign returns a signed checkpoint of a head. Without a signer it returns [errs.ErrNoSigner]. The
// error wraps [errs.ErrSigner] if the signer fails, if its signature is not valid by its key, or if
// the result is no valid checkpoint. If the signer fails, the error wraps the error of the signer,
// too. For a head that this key cannot sign, such as one of another origin, it returns
// [errs.ErrCheckpoint].
func (m *Maker) Sign(head api.Head) ([]byte, error) {
	if m.Signer == nil {
		return nil, errs.ErrNoSigner
	}
	signer := checkedSigner{Signer: m.Signer, verifier: m.verifier()}
	signed, err := merkle.Checkpoint{Origin: head.Origin, Size: head.Events, Root: head.Root}.Sign(&signer)
	switch {
	case err == nil:
		return signed, nil
	case signer.failure != nil:
		return nil, fmt.Errorf("sign a checkpoint: %w", signer.failure)
	case signer.done: // the signer succeeded, but the result is no valid checkpoint
		return nil, fmt.Errorf("sign a checkpoint: %w: no valid checkpoint results: %v", errs.ErrSigner, err)
	}
	return nil, fmt.Errorf("sign a checkpoint: %w", err)
}

// verifier returns the verifier of the signer's key: the log key, or one of the host's keys. If the
// key is none of them, it returns nil, and signatures are not verified.
func (m *Maker) verifier() note.Verifier {
	name, hash := m.Signer.Name(), m.Signer.KeyHash()
	if v, err := note.NewVerifier(m.About.LogKey); err == nil && v.Name() == name && v.KeyHash() == hash {
		return v
	}
	if m.Known == nil {
		return nil
	}
	v, err := m.Known.Verifier(name, hash)
	if err != nil {
		return nil
	}
	return v
}

// checkedSigner is a signer whose signatures are verified before they are used, if its key is
// known.
type checkedSigner struct {
	note.Signer
	verifier note.Verifier // of the signer's key, or nil if that is unknown
	done     bool          // the signer returned a usable signature
	failure  error         // why there is no usable signature
}

// Sign implements [note.Signer]. It refuses an empty signature, and one that the verifier does not
// accept. It records a failure, because merkle.Checkpoint.Sign returns it only as part of another
// error.
func (s *checkedSigner) Sign(message []byte) ([]byte, error) {
	signature, err := s.Signer.Sign(message)
	switch {
	case err != nil:
		s.failure = fmt.Errorf("%w: %w", errs.ErrSigner, err)
	case len(signature) == 0 || s.verifier != nil && !s.verifier.Verify(message, signature):
		const text = "%w: it returned %d bytes that are no signature by its key %s+%08x; check that it has that key"
		s.failure = fmt.Errorf(text, errs.ErrSigner, len(signature), s.Signer.Name(), s.Signer.KeyHash())
	}
	s.done = s.failure == nil
	return signature, s.failure
}

// CheckSigner returns [errs.ErrInvalid] if there is a signer whose key does not have the name of
// the log.
func (m *Maker) CheckSigner() error {
	if m.Signer != nil && m.Signer.Name() != m.About.Origin() {
		return errs.Invalid("the signer's key is named %q, the log %q", m.Signer.Name(), m.About.Origin())
	}
	return nil
}
