package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/sluicedp/sluice/ledger"
)

// Roles returns the roles that package ledgerhttp describes, the most powerful first.
func Roles() []string { return []string{"operator", "desk", "buyer", "person", "auditor", "metrics"} }

// CheckRole returns an error unless the role exists and whom fits it. For "buyer" and "person",
// whom must name the buyer or the object. For any other role it must be "".
func CheckRole(role, whom string) error {
	switch isNamed := role == "buyer" || role == "person"; {
	case !slices.Contains(Roles(), role):
		return fmt.Errorf("unknown role %q: the roles are %q", role, Roles())
	case isNamed && whom == "":
		return fmt.Errorf("the role %q needs \"whom\", the name of a buyer or an object", role)
	case !isNamed && whom != "":
		return fmt.Errorf("the role %q has no \"whom\", but it is %q", role, whom)
	}
	return nil
}

// tokenPrefix begins every token, so that a leaked token is easy to recognize.
const tokenPrefix = "sluice_"

// NewToken returns a new token: 256 random bits as text. Files contain its hash ([HashToken]).
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // rand.Read never returns an error
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashToken returns the SHA-256 of a token in hexadecimal digits. A token has 256 random bits, so
// its hash does not reveal it, and no salt or slow hash is needed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// MaxTokens is the maximum size of a file of tokens, in bytes.
const MaxTokens = 4 << 20

// TokenFile is the JSON of a file of tokens.
type TokenFile struct {
	Tokens []Token `json:"tokens"` // in any order
}

// Token is the entry of one token in a file.
type Token struct {
	Name   string `json:"name"`           // for people; unique in the file
	Role   string `json:"role"`           // one of [Roles]
	Whom   string `json:"whom,omitempty"` // the buyer or the object, for roles that need one
	SHA256 string `json:"sha256"`         // the result of [HashToken]
}

// ReadTokens parses the text of a file of tokens. It returns an error for mistakes that could admit
// a caller by accident. They are: unknown roles and fields; the role of a buyer or a person without
// a name; an invalid hash; a name or a hash that occurs twice.
func ReadTokens(text []byte) (TokenFile, error) {
	var file TokenFile
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return file, fmt.Errorf("file of tokens: %w", err)
	}
	names, hashes := map[string]bool{}, map[string]bool{}
	for _, t := range file.Tokens {
		fault := t.fault()
		switch {
		case fault != nil: // reported below
		case names[t.Name]:
			fault = errors.New("the name occurs twice")
		case hashes[t.SHA256]:
			fault = errors.New("the hash occurs twice")
		}
		if fault != nil {
			return file, fmt.Errorf("file of tokens: %q: %w", t.Name, fault)
		}
		names[t.Name], hashes[t.SHA256] = true, true
	}
	return file, nil
}

// fault returns what is wrong with the name, role, buyer or object, or hash of a token, or nil.
func (t Token) fault() error {
	err := ledger.CheckName("token", t.Name)
	if t.Whom != "" {
		err = errors.Join(err, ledger.CheckName("buyer or object of a token", t.Whom))
	}
	if err == nil {
		err = CheckRole(t.Role, t.Whom)
	}
	if err != nil {
		return err
	}
	hash, err := hex.DecodeString(t.SHA256)
	if err != nil || len(hash) != sha256.Size || t.SHA256 != strings.ToLower(t.SHA256) {
		return errors.New("sha256 is not a SHA-256 in lower-case hexadecimal digits")
	}
	return nil
}
