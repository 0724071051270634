package slurmconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// lintFiles reads the device files and counts the devices of a line.
func (g *gresLinter) lintFiles(r *gresRecord) {
	file, isFile := r.either(keyFile, keyFiles)
	if isFile {
		r.count = g.fileCount(r, "File", file)
	}
	if !r.has(keyMultipleFiles) {
		return
	}
	files := g.fileCount(r, "MultipleFiles", r.get(keyMultipleFiles))
	if isFile {
		g.report(r, "FileAndMultipleFiles", "leave one of them", "File and MultipleFiles are on one line")
	} else if files < 2 {
		g.report(r, "MultipleFiles", "use File for a device of one file", "MultipleFiles has fewer than two files")
	}
	r.count = 1
}

func (g *gresLinter) fileCount(r *gresRecord, key, value string) (count uint64) {
	relative := ""
	odd, err := g.hosts.Walk(value, func(name []byte) {
		count++
		if name[0] != '/' && relative == "" {
			relative = string(name)
		}
	})
	if err != nil {
		g.report(r, "BrokenHostlist", "want such as /dev/nvidia[0-3]", fmt.Sprintf("%s: %v", key, err))
	}
	g.lintOdd(r.line, key, odd)
	if relative != "" {
		g.warn(r.line, "RelativeFile", "write the whole path", fmt.Sprintf("%s: %s is looked for where slurmd was started", key, hostlist.Shorten(relative)))
	}
	return count
}

// gresFlag is a set of Flags.
type gresFlag uint

const (
	flagCountOnly gresFlag = 1 << iota
	flagExplicit
	flagOneSharing
	flagAllSharing
	flagNvidia
	flagAMD
	flagIntel
	flagOpenCL
	flagNoEnv
	flagDefault // all variables, which slurmd sets for gpus without Flags

	flagsEnv = flagNvidia | flagAMD | flagIntel | flagOpenCL
)

// gresFlagWords are the words for the flags, in the order of their bits.
var gresFlagWords = []string{"countonly", "explicit", "one_sharing", "all_sharing", "nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env"}

// lintFlags reads Flags as slurmd does: by the words that are anywhere in it.
func (g *gresLinter) lintFlags(r *gresRecord) {
	if !r.has(keyFlags) {
		return
	}
	value := strings.ToLower(r.get(keyFlags))
	for i, w := range gresFlagWords {
		if strings.Contains(value, w) {
			r.flags |= 1 << i
		}
	}
	for word := range strings.SplitSeq(value, ",") {
		if word != "" && !slices.Contains(gresFlagWords, word) {
			read := "slurmd ignores it"
			if i := slices.IndexFunc(gresFlagWords, func(w string) bool { return strings.Contains(word, w) }); i >= 0 {
				read = "slurmd reads " + gresFlagWords[i]
			}
			g.warn(r.line, "Flags", "want "+strings.Join(gresFlagWords, ", "), fmt.Sprintf("flag %q is not known: %s", word, read))
		}
	}
	switch {
	case r.flags&flagNoEnv != 0 && r.flags&flagsEnv != 0:
		g.report(r, "Flags", "leave no_gpu_env or the others", fmt.Sprintf("Flags=%s has no_gpu_env and variables to set", r.get(keyFlags)))
	case r.flags&flagOneSharing != 0 && r.flags&flagAllSharing != 0:
		g.warn(r.line, "Flags", "leave one of them", fmt.Sprintf("Flags=%s has one_sharing and all_sharing: one_sharing counts", r.get(keyFlags)))
	}
}

// lintCount reads Count.
func (g *gresLinter) lintCount(r *gresRecord) {
	const rule, advice = "Count", "want a number of 1 or more, or leave Count out where there are files"
	value := r.get(keyCount)
	if !r.has(keyCount) {
		r.count = max(r.count, 1)
		return
	}
	n, ok := slurmCount(value)
	switch plain, err := parseCount(value); {
	case !ok:
		g.report(r, rule, advice, fmt.Sprintf("Count=%s is no count", value))
		return
	case r.count > 0 && r.count != n && !r.shared():
		g.report(r, rule, advice, fmt.Sprintf("Count=%s and %d devices in the files", value, r.count))
		return
	case n >= math.MaxUint64-1:
		g.report(r, rule, advice, fmt.Sprintf("Count=%s is too large", value))
		return
	case err != nil || plain != n:
		g.warn(r.line, rule, advice, fmt.Sprintf("Count=%s is read as %d", value, n))
	}
	r.count = n
}

// slurmCount reads a count as slurmd does: the number at the beginning, none
// for zero, and a suffix.
func slurmCount(s string) (uint64, bool) {
	digits := strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	if strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
		end++
	}
	sign := end
	for end < len(digits) && isDigit(digits[end]) {
		end++
	}
	var n int64
	suffix := s
	if end > sign {
		n, _ = strconv.ParseInt(digits[:end], 10, 64) // the nearest where it does not fit
		suffix = digits[end:]
	}
	if n == math.MinInt64 || n == math.MaxInt64 {
		return 0, false
	}
	suffix, unit := strings.ToLower(suffix), uint64(1024)
	if suffix == "" {
		return uint64(n), true
	}
	power := strings.IndexByte("kmgtp", suffix[0]) + 1
	switch suffix[1:] {
	case "b":
		unit = 1000
	case "", "ib":
	default:
		return 0, false
	}
	value := uint64(n)
	for range power {
		value *= unit // it wraps in slurmd too
	}
	return value, power > 0
}

// lintCores warns of what slurmd takes for other cores than it says, or none.
func (g *gresLinter) lintCores(r *gresRecord) {
	value, ok := r.either(keyCores, keyCPUs)
	if !ok {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		low, high, isRange := strings.Cut(part, "-")
		lo, errLow := strconv.ParseUint(low, 10, 64)
		hi, errHigh := strconv.ParseUint(high, 10, 64)
		if errLow != nil || isRange && (errHigh != nil || hi < lo) {
			g.warn(r.line, "Cores", "want such as 0-35,72-107", fmt.Sprintf("Cores=%s: %q is no number or range: slurmd takes it and binds to other cores, or none", value, part))
			return
		}
	}
}

// lintLinks warns of Links that slurmd ignores.
func (g *gresLinter) lintLinks(r *gresRecord) {
	value, ok := r.either(keyLink, keyLinks)
	if !ok {
		return
	}
	self := 0
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < -1 {
			self = 2
		} else if n == -1 {
			self++
		}
	}
	if self != 1 {
		g.warn(r.line, "Links", "want one number per device, -1 once, for the device itself; leave it out on NVSwitch machines", fmt.Sprintf("Links=%s: slurmd ignores it", value))
	} else if r.count > 1 {
		g.warn(r.line, "Links", "write one line per device, or leave it out", "Links on a line of several devices holds for each of them")
	}
}
