package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// maxNameLength and maxTrailingDigits are Slurm's limits on the name of a block or
// a switch.
const (
	maxNameLength     = 63
	maxTrailingDigits = 18
)

// SlurmName turns any text into a name that Slurm takes for a block or switch:
// letters, digits, '_' and '-', at most 63 characters, not ending in more than
// 18 digits. A text that had to be changed gets eight hex digits of its hash, so
// that two texts never share a name.
func SlurmName(s string) string {
	clean := slurmLetters(s)
	digits := len(clean) - len(strings.TrimRight(clean, "0123456789"))
	if clean == s && s != "" && len(s) <= maxNameLength && digits <= maxTrailingDigits {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "-" + hex.EncodeToString(sum[:4]) + "x"
	return strings.TrimRight(clean[:min(len(clean), maxNameLength-len(suffix))], "-") + suffix
}

// slurmLetters puts a dash for every character that Slurm does not take in a name.
func slurmLetters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

// blockPrefix begins the name of every block that is an NVLink domain.
const blockPrefix = "nvl-"

// candidateNames are the names that a block or switch may have, the best first.
type candidateNames [3]string

// cliqueBlockNames returns the names of a clique's block: the prefix, 8, 16 or 32
// hex digits of the cluster UUID, the clique's number. The dash before the number
// ends a run of digits, so no name ends in more than 10.
func cliqueBlockNames(c topology.Clique) candidateNames {
	id := "-" + strconv.FormatUint(uint64(c.ID), 10)
	whole := blockPrefix + c.ClusterUUID.Hex() + id
	return candidateNames{whole[:len(blockPrefix)+8] + id, whole[:len(blockPrefix)+16] + id, whole}
}

// labelBlockNames returns the names of the block of a domain that labels name: the
// prefix, the value in Slurm's letters, 8, 16 or 32 hex digits of the hash of key
// and value, and an x. The x tells them from names of cliques.
func labelBlockNames(d topology.Domain) candidateNames {
	sum := sha256.Sum256([]byte(d.Key + "\x00" + d.Value))
	value := slurmLetters(d.Value)
	var names candidateNames
	for i, bytes := range []int{4, 8, 16} {
		hash := "-" + hex.EncodeToString(sum[:bytes]) + "x"
		names[i] = blockPrefix + strings.Trim(value[:min(len(value), maxNameLength-len(blockPrefix)-len(hash))], "-_") + hash
	}
	return names
}

// leafBlockNames returns the names of the block of a leaf switch: those of the
// switch, unless a place that is kept free is called so.
func leafBlockNames(leaf string) candidateNames {
	names := switchKey{0, leaf}.names()
	if isSpareName(names[0]) {
		names[0] = names[1]
	}
	return names
}

// isCliqueName reports whether a block is named after a clique.
func isCliqueName(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	uuid, id, cut := strings.Cut(rest, "-")
	return ok && cut && isHash(uuid) && id != "" && strings.Trim(id, "0123456789") == ""
}

// isLabelName reports whether a block is named after a domain that labels name.
func isLabelName(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	rest, x := strings.CutSuffix(rest, "x")
	return ok && x && isHash(rest[strings.LastIndexByte(rest, '-')+1:])
}

func isHash(s string) bool {
	return (len(s) == 8 || len(s) == 16 || len(s) == 32) && strings.Trim(s, "0123456789abcdef") == ""
}

// sparePrefix begins the name of a place that is kept free in a parent domain.
const sparePrefix = "spare-"

// isSpareName reports whether a block is called like a place that is kept free.
func isSpareName(block string) bool {
	number, ok := strings.CutPrefix(block, sparePrefix)
	return ok && number != "" && strings.Trim(number, "0123456789x") == ""
}
