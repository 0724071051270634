package slurmconf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Release is a release of Slurm such as 25.05, written as 2505.
type Release int

// The releases that this package knows.
const (
	Release2411 Release = 2411
	Release2505 Release = 2505
	Release2511 Release = 2511
	Release2605 Release = 2605
)

// Latest is the newest release known.
const Latest = Release2605

// Unseen is the release whose rules hold while nobody knows which one runs. Newer ones take all
// that it takes.
const Unseen = Release2505

// Releases lists every known release, oldest first.
func Releases() []Release {
	return []Release{Release2411, Release2505, Release2511, Release2605}
}

// ParseRelease reads a release such as "25.05", or a version such as "25.05.3" or
// "slurm 25.05.3".
func ParseRelease(s string) (Release, error) {
	text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(s), "slurm-wlm "), "slurm ")
	for _, r := range Releases() {
		if strings.HasPrefix(text+".", r.String()+".") {
			return r, nil
		}
	}
	return 0, fmt.Errorf("slurm release %q: want one of %s%s", s, KnownReleases(), nearest(text))
}

// KnownReleases names every known release in one text.
func KnownReleases() string {
	var known []string
	for _, r := range Releases() {
		known = append(known, r.String())
	}
	return strings.Join(known, ", ")
}

// SeenRelease returns the rules that a running Slurm goes by: the newest known release that is not
// newer than the version, such as "26.05.5" or "25.11-ubuntu24.04". It is 0 if the text begins with
// no version, or with one that is older than all known releases.
func SeenRelease(version string) Release {
	number := yearAndMonth.FindStringSubmatch(version)
	if number == nil {
		return 0
	}
	release, _ := strconv.Atoi(number[1] + number[2])
	return newestUpTo(Release(release))
}

var yearAndMonth = regexp.MustCompile(`^(\d\d)\.(\d\d)(?:\D|$)`)

// newestUpTo returns the newest known release that is not newer than r, or 0.
func newestUpTo(r Release) (newest Release) {
	for _, known := range Releases() {
		if known <= r {
			newest = known
		}
	}
	return newest
}

// nearest says what to take for a release that is not known. It is empty for a text that is no release.
func nearest(text string) string {
	var year, month int
	if n, _ := fmt.Sscanf(text, "%2d.%2d", &year, &month); n < 2 || !strings.HasPrefix(text+".", fmt.Sprintf("%02d.%02d.", year, month)) {
		return ""
	}
	older := newestUpTo(Release(100*year + month))
	switch older {
	case 0:
		return "; it is older than all of these, and Quoin has no rules for it"
	case Latest:
		return "; it is newer than all of these: take " + Latest.String()
	}
	return "; take " + older.String() + ", the nearest older one"
}

// String returns the release as "25.05".
func (r Release) String() string { return fmt.Sprintf("%02d.%02d", int(r)/100, int(r)%100) }

// topologyPlugins are the values of TopologyPlugin that slurmctld starts with, and what
// it reads topology.conf as: blocks, a tree, or flat, which reads no file. Any other value
// ends slurmctld, unless there is a topology.yaml. Letters count as they are written, but for
// the words for no topology: 24.11 has a plugin of the name topology/default.
var topologyPlugins = map[string]struct {
	kind string
	from Release
}{
	"topology/default": {"flat", 0},
	"topology/flat":    {"flat", Release2505},
	"topology/block":   {"block", 0},
	"topology/tree":    {"tree", 0},
	"topology/ring":    {"ring", Release2605},
	"topology/torus3d": {"torus3d", Release2605},
}

// TopologyPlugin returns the kind of topology that the release reads from topology.conf with a value
// of TopologyPlugin, which is empty if the key is absent. kind is flat if it reads none. known is
// false if slurmctld does not start with the value.
func (r Release) TopologyPlugin(value string) (kind string, known bool) {
	lower := strings.ToLower(value)
	if lower == "" || lower == "none" || lower == "topology/none" || lower == "topology/default" && r >= Release2505 {
		return "flat", true
	}
	p, ok := topologyPlugins[value]
	if !ok || r < p.from {
		return "", false
	}
	return p.kind, true
}

// ShortBlocks reports whether slurmctld starts with blocks that have fewer
// nodes than the base block size, or none (placeholders).
func (r Release) ShortBlocks() bool { return r >= Release2505 }

// YAML reports whether topology.yaml is read, and with it several topologies.
func (r Release) YAML() bool { return r >= Release2505 }

// DropsBlockSizes reports whether slurmctld of a version, such as "26.05.2", drops wrong
// block_sizes of topology.yaml silently, and does not refuse the file. A release without
// its patch level, such as "26.05", counts as its newest patch.
func DropsBlockSizes(version string) bool {
	r, err := ParseRelease(version)
	if err != nil || !r.YAML() || r < Release2605 {
		return err == nil && r.YAML()
	}
	_, patch, _ := strings.Cut(version, r.String()+".")
	digits := patch[:len(patch)-len(strings.TrimLeft(patch, "0123456789"))]
	n, err := strconv.Atoi(digits)
	return err == nil && n < 3
}

// DynamicTopology reports whether a node may name its own place: Topology= in
// slurm.conf, in slurmd --conf and in scontrol update.
func (r Release) DynamicTopology() bool { return r >= Release2505 }

// LargeSegments reports whether --segment may be larger than the base block size, and larger than
// the job, and whether there are --spread-segments and --consolidate-segments.
func (r Release) LargeSegments() bool { return r >= Release2511 }

// AutoDetectFull reports whether gres.conf takes AutoDetect=full.
func (r Release) AutoDetectFull() bool { return r >= Release2605 }

// EmptyTopology reports whether slurmctld starts with a topology.conf that has no
// block and no switch.
func (r Release) EmptyTopology() bool { return r < Release2505 }

// CoresOfOneSocket reports whether Cores of gres.conf must be one socket or all.
// Otherwise any whole sockets are fine. 26.05 was seen to want it, and 24.11 to take
// two sockets of four. The releases between are treated as 26.05.
func (r Release) CoresOfOneSocket() bool { return r >= Release2505 }

// TreeSkeleton reports whether a switch may have neither nodes nor children.
func (r Release) TreeSkeleton() bool { return r >= Release2505 }

// BlockAsNodeRank reports whether TopologyParam takes BlockAsNodeRank, which orders the
// nodes of a job by block.
func (r Release) BlockAsNodeRank() bool { return r >= Release2511 }

// RanksFollowBlocks reports whether srun numbers the tasks of a job block after block by
// itself. Nodes stand in the order of their names all the same.
func (r Release) RanksFollowBlocks() bool { return r >= Release2605 }
