package lint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// lintFiles reads the device files and counts the devices of a line.
func (g *gresFile) lintFiles(r *gresRecord) {
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

func (g *gresFile) fileCount(r *gresRecord, key, value string) (count uint64) {
	relative := ""
	odd, err := g.hosts.Walk(value, func(name []byte) {
		count++
		if name[0] != '/' && relative == "" {
			relative = string(name)
		}
	})
	if err != nil {
		g.report(r, ruleHostlist, "want such as /dev/nvidia[0-3]", fmt.Sprintf("%s: %v", key, err))
	}
	g.odd(r.Number, key, odd)
	if relative != "" {
		g.warn(r.Number, "RelativeFile", "write the whole path", fmt.Sprintf("%s: %s is a relative path: slurmd looks for it in its own directory", key, hostlist.Shorten(relative)))
	}
	return count
}

// gresFlag is a set of Flags.
type gresFlag uint

const (
	flagCountOnly gresFlag = 1 << iota
	flagExplicit
	flagNvidia
	flagAMD
	flagIntel
	flagOpenCL
	flagNoEnv
	flagOneSharing
	flagAllSharing
	flagDefault // all variables: slurmd sets them for gpus without Flags

	flagsEnv     = flagNvidia | flagAMD | flagIntel | flagOpenCL
	flagsSharing = flagOneSharing | flagAllSharing
)

// gresFlagWords are the words for the flags, in the order of their bits.
var gresFlagWords = []string{"countonly", "explicit", "nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env", "one_sharing", "all_sharing"}

// lintFlags reads Flags as slurmd does: a word counts wherever it stands in the text.
func (g *gresFile) lintFlags(r *gresRecord) {
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
			g.warn(r.Number, "Flags", "want "+strings.Join(gresFlagWords, ", "), fmt.Sprintf("flag %q is not known: %s", word, read))
		}
	}
	if r.flags&flagsSharing != 0 {
		g.notJudged(r.Number, "Flags: one_sharing and all_sharing are not judged")
	}
	if r.flags&flagNoEnv != 0 && r.flags&flagsEnv != 0 {
		g.report(r, "Flags", "leave no_gpu_env or the others", fmt.Sprintf("Flags=%s has no_gpu_env beside variables to set", r.get(keyFlags)))
	}
}

// lintCount reads Count.
func (g *gresFile) lintCount(r *gresRecord) {
	const rule, advice = "Count", "want a number of 1 or more, or leave Count out if there are files"
	value := r.get(keyCount)
	if !r.has(keyCount) {
		r.count = max(r.count, 1)
		return
	}
	n, plain, ok := slurmconf.ReadCount(value)
	switch {
	case !ok:
		g.report(r, rule, advice, fmt.Sprintf("Count=%s is no count", value))
		return
	case r.count > 0 && r.count != n:
		g.report(r, rule, advice, fmt.Sprintf("Count=%s and %d devices in the files", value, r.count))
		return
	case n >= math.MaxUint64-1:
		g.report(r, rule, advice, fmt.Sprintf("Count=%s is too large", value))
		return
	case !plain:
		g.warn(r.Number, rule, advice, fmt.Sprintf("Count=%s is read as %d", value, n))
	}
	r.count = n
}

// lintCores warns of what slurmd takes for other cores than it says, or none.
func (g *gresFile) lintCores(r *gresRecord) {
	value, ok := r.either(keyCores, keyCPUs)
	if !ok {
		return
	}
	for part := range strings.SplitSeq(value, ",") {
		low, high, isRange := strings.Cut(part, "-")
		lo, errLow := strconv.ParseUint(low, 10, 64)
		hi, errHigh := strconv.ParseUint(high, 10, 64)
		if errLow != nil || isRange && (errHigh != nil || hi < lo) {
			g.warn(r.Number, "Cores", "want such as 0-35,72-107", fmt.Sprintf("Cores=%s: %q is no number or range: slurmd accepts it and binds jobs to other cores, or to none", value, part))
			return
		}
	}
}

// lintLinks warns of Links that slurmd ignores.
func (g *gresFile) lintLinks(r *gresRecord) {
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
		g.warn(r.Number, "Links", "want one number per device, -1 once, for the device itself; leave it out on NVSwitch machines", fmt.Sprintf("Links=%s: slurmd ignores it", value))
	} else if r.count > 1 {
		g.warn(r.Number, "Links", "write one line per device, or leave it out", "Links on a line of several devices counts for each of them")
	}
}
