package rrchain

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The responses below come from this program (Python 3.11.7, with AES from OpenSSL 3), which shares
// nothing with the package. The noise of a key must never change, over versions, processes and
// machines. Otherwise objects would respond a second time with other noise.
//
//	import hashlib, hmac, struct, subprocess
//	from decimal import Decimal as D, getcontext
//	getcontext().prec = 600
//
//	KEY = bytes(range(32))
//
//	def cipher(use, question, object, m):
//	    message = b"".join(struct.pack(">Q", len(t.encode())) + t.encode()
//	                       for t in ["sluice noise v1", use, question, object])
//	    key = hmac.new(KEY, message + struct.pack(">Q", m), hashlib.sha256).digest()
//	    def blocks(counters):
//	        plain = b"".join(struct.pack(">QII", k, j, lane) for k, j, lane in counters)
//	        out = subprocess.run(["openssl", "enc", "-aes-256-ecb", "-nopad", "-K", key.hex()],
//	                             input=plain, stdout=subprocess.PIPE, check=True).stdout
//	        return [struct.unpack(">QQ", out[i:i + 16]) for i in range(0, len(out), 16)]
//	    return blocks
//
//	def fall(blocks, lane, m, epsilon, value):
//	    e = D(epsilon).exp()
//	    floor = (e - 1) / (e + m - 1)
//	    table = blocks([(k, j, lane) for j in range(1, 200) for k in range(8)])
//	    v = D(1)
//	    for j in range(199):
//	        words = table[8 * j:8 * j + 8]
//	        w = sum(word[0] << (64 * (7 - k)) for k, word in enumerate(words))
//	        v *= D(w) / D(2) ** 512
//	        assert abs(v - floor) > D(2) ** -400
//	        if v < floor:
//	            return value
//	        u = next(word[1] for word in words if word[1] * m % 2**64 >= 2**64 % m)
//	        value = u * m >> 64
//
//	def direct(question, object, m, truth, epsilons):
//	    blocks = cipher("direct", question, object, m)
//	    return [fall(blocks, 0, m, e, truth) for e in epsilons]
//
//	def unary(question, object, m, truth, epsilons):
//	    blocks = cipher("unary", question, object, m)
//	    coin = blocks([(0, 0, 0)])[0][0] & 1
//	    return ["".join(str(fall(blocks, v, 2, e, coin if v == truth else 0)) for v in range(m))
//	            for e in epsilons]

// goldenEpsilons are the ε of all rows.
var goldenEpsilons = []string{"0.000000001", "0.1", "1", "3", "8", "15", "1000"}

// goldenDirect is direct(question, object, m, truth, goldenEpsilons).
var goldenDirect = []struct {
	question, object string
	m, truth         int
	responses        []int
}{
	{"q", "o", 2, 1, []int{0, 1, 1, 1, 1, 1, 1}},
	{"q", "o", 3, 1, []int{0, 1, 2, 1, 1, 1, 1}},
	{"q", "o", 1048576, 3, []int{990675, 285854, 1004135, 709439, 655121, 3, 3}},
	{"q", "O", 1048576, 3, []int{879315, 174794, 538577, 824006, 37462, 3, 3}},
	{"Q", "o", 1048576, 3, []int{42507, 80404, 6472, 550772, 399703, 3, 3}},
	{"a", "bc", 1000000, 999999, []int{853779, 169109, 740510, 82695, 596233, 999999, 999999}},
	{"ab", "c", 1000000, 999999, []int{500667, 872108, 209069, 48440, 763233, 999999, 999999}},
	{"", "", 1000, 0, []int{866, 895, 895, 603, 603, 0, 0}},
	{"Größe", "λ", 1000, 500, []int{788, 454, 467, 52, 500, 500, 500}},
}

// goldenUnary is unary(question, object, m, truth, goldenEpsilons). The coin of the first two is 0,
// of the others 1.
var goldenUnary = []struct {
	question, object string
	m, truth         int
	responses        []string
}{
	{"q", "o", 2, 1, []string{
		"11", "01", "00", "00", "00", "00", "00",
	}},
	{"q", "o", 12, 11, []string{
		"010110000001", "100101001110", "000000100000", "000000000000", "000000000000", "000000000000", "000000000000",
	}},
	{"q", "o3", 12, 0, []string{
		"101010000100", "001010001010", "000000100011", "100000000000", "100000000000", "100000000000", "100000000000",
	}},
	{"Größe", "λ", 12, 5, []string{
		"011010011011", "010111110010", "010100001000", "000000000000", "000000000000", "000000000000", "000000000000",
	}},
}

func TestNoiseKey_GoldenResponses_NeverChange(t *testing.T) {
	k := newKey(fixedKey())
	for _, row := range goldenDirect {
		s := newStairs(k, row.question, row.object, row.m)
		for i, epsilon := range goldenEpsilons {
			check.Equal(t, s.at(eps(epsilon).Nano(), row.truth), row.responses[i], "%+v, ε=%s", s.Staircase, epsilon)
		}
	}
	for _, row := range goldenUnary {
		s := newStairs(k, row.question, row.object, row.m)
		for i, epsilon := range goldenEpsilons {
			if got := s.bits(eps(epsilon).Nano(), row.truth).String(); got != row.responses[i] {
				t.Errorf("%+v, unary, ε=%s: got %s, want %s", s.Staircase, epsilon, got, row.responses[i])
			}
		}
	}
}
