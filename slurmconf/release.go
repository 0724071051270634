package slurmconf

import (
	"fmt"
	"regexp"
	"slices"
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

// News is what a release reads, takes or does that no release before it did.
type News uint16

// The news. A rule about releases asks Does for one of them, and compares no releases.
const (
	// TopologyYAML: topology.yaml is read, and with it several topologies.
	TopologyYAML News = 1 << iota
	// EmptyUnits: slurmctld starts with blocks that have fewer nodes than the base block size, and with blocks
	// and leaf switches that have none.
	EmptyUnits
	// DynamicTopology: a node may name its own place, by Topology= in slurm.conf, in slurmd --conf and in
	// scontrol update.
	DynamicTopology
	// RefusesEmptyConf: slurmctld does not start with a topology.conf that has no block and no switch.
	RefusesEmptyConf
	// CoresOfOneSocket: Cores of gres.conf must be one socket or all. Otherwise any whole sockets are fine.
	// 26.05 was seen to want it, and 24.11 to take two sockets of four. The releases between are treated as 26.05.
	CoresOfOneSocket
	// LargeSegments: --segment may be larger than the base block size, and larger than the job, and there are
	// --spread-segments and --consolidate-segments.
	LargeSegments
	// RefusesBlockSizes: slurmctld does not start with wrong block_sizes in topology.yaml. Otherwise it leaves
	// such a size out. The first patches of 26.05, up to 26.05.2, do so too: their release is judged by its
	// newest patch.
	RefusesBlockSizes
	// AutoDetectFull: gres.conf takes AutoDetect=full.
	AutoDetectFull
	// RanksFollowBlocks: srun numbers the tasks of a job block after block by itself. Nodes stand in the order
	// of their names all the same.
	RanksFollowBlocks
)

// TopologyKind is a kind of topology that Slurm has a plugin for.
type TopologyKind struct {
	// Word follows "topology/" in TopologyPlugin, and is the key in topology.yaml.
	Word string
	// Unit is the key that begins a line of topology.conf and of what scontrol shows, in lower case. It
	// is empty if there is none.
	Unit string
}

// flat is the kind of topologies without a file.
const flat = "flat"

// nodeWords and partitionWords are the keys that every known release takes on lines NodeName and
// PartitionName of slurm.conf, and topologyParams the words of TopologyParam, in lower case.
const (
	nodeWords = "bcastaddr boards corespeccount corespersocket cpubind cpus cpuspeclist feature features gres memspeclimit nodeaddr " +
		"nodehostname port procs realmemory reason restrictedcorespergpu sockets socketsperboard state threadspercore tmpdisk tresweights weight"
	partitionWords = "allocnodes allowaccounts allowgroups allowqos alternate cpubind default defaulttime defcpupergpu defmempercpu " +
		"defmempergpu defmempernode denyaccounts denyqos disablerootjobs exclusivetopo exclusiveuser gracetime hidden lln maxcpuspernode " +
		"maxcpuspersocket maxmempercpu maxmempernode maxnodes maxtime minnodes nodes oversubscribe overtimelimit powerdownonidle preemptmode " +
		"priority priorityjobfactor prioritytier qos reqresv resumetimeout rootonly selecttypeparameters shared state suspendtime " +
		"suspendtimeout tresbillingweights"
	topologyParams = "dragonfly routepart routetree switchasnoderank topomaxsizeunroll topooptional"
)

// releases are the known releases, oldest first. A row has what is new in its release: a release does
// what its own row and the rows above say.
var releases = []struct {
	Release
	plugins []TopologyKind
	// words are the keys of lines NodeName and PartitionName, and the words of TopologyParam.
	words map[string]string
	News
}{
	{Release2411, []TopologyKind{{"default", ""}, {"block", "blockname"}, {"tree", "switchname"}}, map[string]string{"nodename": nodeWords, "partitionname": partitionWords, "topologyparam": topologyParams}, 0},
	// 24.11 was seen to refuse the words of this row, and 26.05 to take them.
	{Release2505, []TopologyKind{{flat, ""}}, map[string]string{"nodename": "gresconf parameters suspendtime topology", "partitionname": "exclusive topology"}, TopologyYAML | EmptyUnits | DynamicTopology | RefusesEmptyConf | CoresOfOneSocket},
	{Release2511, nil, map[string]string{"topologyparam": "blockasnoderank"}, LargeSegments},
	{Release2605, []TopologyKind{{"ring", "ringname"}, {"torus3d", "torusname"}}, nil, RefusesBlockSizes | AutoDetectFull | RanksFollowBlocks},
}

// Does reports whether the release does a thing that came with it or with an older one.
func (r Release) Does(n News) bool {
	for i := range releases {
		if releases[i].News&n != 0 {
			return r >= releases[i].Release
		}
	}
	return false
}

// Releases lists every known release, oldest first.
func Releases() (known []Release) {
	for i := range releases {
		known = append(known, releases[i].Release)
	}
	return known
}

// Kinds lists the kinds of topology that releases up to this one have.
func (r Release) Kinds() (kinds []TopologyKind) {
	for i := range releases {
		if releases[i].Release <= r {
			kinds = append(kinds, releases[i].plugins...)
		}
	}
	return kinds
}

// TakesWord reports whether a line of slurm.conf that begins with NodeName or PartitionName may have a
// word as its key, and whether TopologyParam may have a word. Both are in lower case.
func (r Release) TakesWord(line, word string) bool {
	for i := range releases {
		if releases[i].Release <= r && slices.Contains(strings.Fields(releases[i].words[line]), word) {
			return true
		}
	}
	return false
}

// KindOfLine returns the kind of topology whose lines begin with a key, or nothing.
func KindOfLine(key string) string {
	for _, k := range Latest.Kinds() {
		if k.Unit != "" && k.Unit == strings.ToLower(key) {
			return k.Word
		}
	}
	return ""
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

// TopologyPlugin returns the kind of topology that the release reads from topology.conf with a value
// of TopologyPlugin, which is empty if the key is absent. kind is flat if it reads none. known is
// false if slurmctld does not start with the value, unless there is a topology.yaml. Letters count as
// they are written, but for the words for no topology. In 24.11 topology/default is no such word: it
// is a plugin.
func (r Release) TopologyPlugin(value string) (kind string, known bool) {
	kinds := r.Kinds()
	has := func(word string) bool {
		return slices.ContainsFunc(kinds, func(k TopologyKind) bool { return k.Word == word })
	}
	lower := strings.ToLower(value)
	word, prefixed := strings.CutPrefix(value, "topology/")
	switch {
	case lower == "", lower == "none", lower == "topology/none", lower == "topology/default" && has(flat), value == "topology/default":
		return flat, true
	case prefixed && has(word):
		return word, true
	}
	return "", false
}
