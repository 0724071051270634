package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxName and maxTrailingDigits are Slurm's limits on the name of a block or
// a switch.
const (
	maxName           = 63
	maxTrailingDigits = 18
)

// SlurmName turns any text into a name that Slurm takes for a block or switch:
// letters, digits, '_' and '-', at most 63 characters, not ending in more than
// 18 digits. A text that had to be changed gets eight hex digits of its hash, so
// that two texts never share a name.
func SlurmName(s string) string {
	clean := slurmLetters(s)
	digits := len(clean) - len(strings.TrimRight(clean, "0123456789"))
	if clean == s && s != "" && len(s) <= maxName && digits <= maxTrailingDigits {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "-" + hex.EncodeToString(sum[:4]) + "x"
	return strings.TrimRight(clean[:min(len(clean), maxName-len(suffix))], "-") + suffix
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

// SwitchNames returns the names of a switch that nodes call by a value: one value may
// name a leaf and a spine.
func SwitchNames(tier int, value string) CandidateNames {
	return CandidateNames{SlurmName(value), SlurmName(fmt.Sprintf("tier%d-%s", tier, value)), SlurmName(fmt.Sprintf("tier%d/%s", tier, value))}
}

// blockPrefix begins the name of every block that is an NVLink domain.
const blockPrefix = "nvl-"

// CandidateNames are the names that a block or switch may have, the best first.
type CandidateNames [3]string

// BlockNames returns the names of the clique's block: the prefix, 8, 16 or 32
// hex digits of the cluster UUID, the clique's number. The dash before the number
// ends a run of digits, so no name ends in more than 10.
func (c Clique) BlockNames() CandidateNames {
	id := "-" + strconv.FormatUint(uint64(c.ID), 10)
	whole := blockPrefix + c.ClusterUUID.Hex() + id
	return CandidateNames{whole[:len(blockPrefix)+8] + id, whole[:len(blockPrefix)+16] + id, whole}
}

// BlockNames returns the names of the block of a domain that labels name: the
// prefix, the value in Slurm's letters, 8, 16 or 32 hex digits of the hash of key
// and value, and an x. The x tells them from names of cliques.
func (d Domain) BlockNames() CandidateNames {
	sum := sha256.Sum256([]byte(d.Key + "\x00" + d.Value))
	value := slurmLetters(d.Value)
	var names CandidateNames
	for i, bytes := range []int{4, 8, 16} {
		hash := "-" + hex.EncodeToString(sum[:bytes]) + "x"
		names[i] = blockPrefix + strings.Trim(value[:min(len(value), maxName-len(blockPrefix)-len(hash))], "-_") + hash
	}
	return names
}

// LeafBlockNames returns the names of the block of a leaf switch. They are the names of the switch,
// unless a free place has such a name.
func LeafBlockNames(leaf string) CandidateNames {
	names := SwitchNames(0, leaf)
	if IsSpareBlock(names[0]) {
		names[0] = names[1]
	}
	return names
}

// IsCliqueBlock reports whether a block is named after a clique.
func IsCliqueBlock(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	uuid, id, cut := strings.Cut(rest, "-")
	return ok && cut && isHash(uuid) && id != "" && strings.Trim(id, "0123456789") == ""
}

// IsLabelBlock reports whether a block is named after a domain that labels name.
func IsLabelBlock(name string) bool {
	rest, ok := strings.CutPrefix(name, blockPrefix)
	rest, x := strings.CutSuffix(rest, "x")
	return ok && x && isHash(rest[strings.LastIndexByte(rest, '-')+1:])
}

func isHash(s string) bool {
	return (len(s) == 8 || len(s) == 16 || len(s) == 32) && strings.Trim(s, "0123456789abcdef") == ""
}

// sparePrefix begins the name of a place that is kept free in a parent domain.
const sparePrefix = "spare-"

// IsSpareBlock reports whether a block is called like a place that is kept free.
func IsSpareBlock(block string) bool {
	number, ok := strings.CutPrefix(block, sparePrefix)
	return ok && number != "" && strings.Trim(number, "0123456789x") == ""
}

// SpareBlock names the place at an index, from 0, that is kept free. taken reports
// whether a block has a name.
func SpareBlock(at int, taken func(name string) bool) string {
	name := sparePrefix + strconv.Itoa(at+1)
	for taken(name) {
		name += "x"
	}
	return name
}

// ClusterOfBlock returns the hex digits of the NVLink cluster's UUID in the name of a
// clique's block: 8, 16 or all 32, and none for any other name.
func ClusterOfBlock(block string) string {
	if !IsCliqueBlock(block) {
		return ""
	}
	uuid, _, _ := strings.Cut(strings.TrimPrefix(block, blockPrefix), "-")
	return uuid
}
